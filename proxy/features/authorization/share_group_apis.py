"""The APIs of members of share groups and of their offsets (KIP-932), as `group_apis`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.message import Struct
from kafka_sidecar.codec.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
)
from kafka_sidecar.proxy.exchanges.rejections import Rejection
from kafka_sidecar.proxy.features.authorization.acls import Operation
from kafka_sidecar.proxy.features.authorization.checked_apis import CheckedApi, Elements, Need, on_topic
from kafka_sidecar.proxy.features.authorization.group_apis import group_and_subscription, group_of


def _shared(of: Any, request: Any) -> Need:
    return on_topic(Operation.READ, of.topic_id)


def _reject_shared(topic: Callable[..., Struct], partition: Callable[..., Struct], of: Any, why: Rejection) -> Struct:
    partitions = (
        partition(partition_index=one.partition_index, error_code=why.error_code, error_message=why.message)
        for one in of.partitions
    )
    return topic(topic_id=of.topic_id, partitions=tuple(partitions))


def _topic_name(of: Any, request: Any) -> Need:
    return on_topic(Operation.READ, of.topic_name)


def _reject_alteration(of: alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic, why: Rejection) -> Struct:
    partitions = (
        alter_share_group_offsets.AlterShareGroupOffsetsResponsePartition(
            partition_index=one.partition_index, error_code=why.error_code, error_message=why.message
        )
        for one in of.partitions
    )
    return alter_share_group_offsets.AlterShareGroupOffsetsResponseTopic(
        topic_name=of.topic_name, partitions=tuple(partitions)
    )


def _reject_share_deletion(
    of: delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic, why: Rejection
) -> Struct:
    return delete_share_group_offsets.DeleteShareGroupOffsetsResponseTopic(
        topic_name=of.topic_name, error_code=why.error_code, error_message=why.message
    )


SHARE_GROUP_APIS: Mapping[int, CheckedApi] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: CheckedApi(
        request=share_group_heartbeat.ShareGroupHeartbeatRequest,
        response=share_group_heartbeat.ShareGroupHeartbeatResponse,
        needs=group_and_subscription,
    ),
    ApiKey.SHARE_FETCH: CheckedApi(
        request=share_fetch.ShareFetchRequest,
        response=share_fetch.ShareFetchResponse,
        needs=partial(group_of, Operation.READ),
        results="responses",
        elements=Elements(
            arrays=("topics",),
            need_of=_shared,
            reject=partial(_reject_shared, share_fetch.ShareFetchableTopicResponse, share_fetch.PartitionData),
        ),
    ),
    ApiKey.SHARE_ACKNOWLEDGE: CheckedApi(
        request=share_acknowledge.ShareAcknowledgeRequest,
        response=share_acknowledge.ShareAcknowledgeResponse,
        needs=partial(group_of, Operation.READ),
        results="responses",
        elements=Elements(
            arrays=("topics",),
            need_of=_shared,
            reject=partial(
                _reject_shared, share_acknowledge.ShareAcknowledgeTopicResponse, share_acknowledge.PartitionData
            ),
        ),
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: CheckedApi(
        request=alter_share_group_offsets.AlterShareGroupOffsetsRequest,
        response=alter_share_group_offsets.AlterShareGroupOffsetsResponse,
        needs=partial(group_of, Operation.READ),
        results="responses",
        elements=Elements(
            arrays=("topics",),
            need_of=_topic_name,
            reject=_reject_alteration,
        ),
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: CheckedApi(
        request=delete_share_group_offsets.DeleteShareGroupOffsetsRequest,
        response=delete_share_group_offsets.DeleteShareGroupOffsetsResponse,
        needs=partial(group_of, Operation.DELETE),
        results="responses",
        elements=Elements(
            arrays=("topics",),
            need_of=_topic_name,
            reject=_reject_share_deletion,
        ),
    ),
}
