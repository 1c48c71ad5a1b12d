"""The APIs that describe and list groups, and what of their responses a client may see, as KafkaApis filters them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.message import Message, Struct, replace_fields
from kafka_sidecar.codec.messages import (
    consumer_group_describe,
    describe_groups,
    describe_share_group_offsets,
    list_groups,
    share_group_describe,
    streams_group_describe,
)
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.exchanges.rejections import Rejection
from kafka_sidecar.proxy.features.authorization.acls import Operation
from kafka_sidecar.proxy.features.authorization.checked_apis import (
    CheckedApi,
    Elements,
    Need,
    on_cluster,
    on_group,
    on_topic,
    shown_if,
)
from kafka_sidecar.proxy.features.authorization.group_apis import group_described, reject_group, topics_of_topology

HIDDEN = Rejection(
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the group has topics that the client is not authorized to describe"
)
Allows = Callable[[Need], bool]


def _reject_group_with_message(result: Callable[..., Struct], group: str, why: Rejection) -> Struct:
    return result(group_id=group, error_code=why.error_code, error_message=why.message)


def _assigned(group: Any) -> Iterable[str]:
    """The topics of a group's members."""
    for member in group.members:
        for assignment in (member.assignment, getattr(member, "target_assignment", None)):
            yield from (one.topic_name for one in assignment.topic_partitions) if assignment is not None else ()


def _shown_group(
    result: type[Struct], topics_of: Callable[[Any], Iterable[str]], group: Any, request: Any, allows: Allows
) -> Any:
    """Kafka hides a group for one topic that the client may not describe."""
    if all(allows(on_topic(Operation.DESCRIBE, name)) for name in set(topics_of(group))):
        return group
    return _reject_group_with_message(result, group.group_id, HIDDEN)


def _with_shown_offsets(
    group: describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup,
    request: describe_share_group_offsets.DescribeShareGroupOffsetsRequest,
    allows: Allows,
) -> describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup:
    """Topics that the request names get an error, others are omitted."""
    named = {
        one.topic_name for asked in request.groups if asked.group_id == group.group_id for one in asked.topics or ()
    }
    topics = (
        one if allows(on_topic(Operation.DESCRIBE, one.topic_name)) else _without_offsets(one)
        for one in group.topics
        if one.topic_name in named or allows(on_topic(Operation.DESCRIBE, one.topic_name))
    )
    return replace_fields(group, topics=tuple(topics))


def _without_offsets(
    topic: describe_share_group_offsets.DescribeShareGroupOffsetsResponseTopic,
) -> describe_share_group_offsets.DescribeShareGroupOffsetsResponseTopic:
    partitions = (
        describe_share_group_offsets.DescribeShareGroupOffsetsResponsePartition(
            partition_index=one.partition_index, error_code=HIDDEN.error_code, error_message=HIDDEN.message
        )
        for one in topic.partitions
    )
    return replace_fields(topic, topic_id=NO_ID, partitions=tuple(partitions))


def _descriptions(
    request: type[Message],
    response: type[Message],
    result: type[Struct],
    topics_of: Callable[[Any], Iterable[str]] = _assigned,
) -> CheckedApi:
    """An API that describes the groups which it names."""
    return CheckedApi(
        request=request,
        response=response,
        results="groups",
        elements=Elements(
            arrays=("group_ids",),
            need_of=partial(group_described, Operation.DESCRIBE),
            reject=partial(_reject_group_with_message, result),
        ),
        shown=partial(_shown_group, result, topics_of),
    )


GROUP_DESCRIPTIONS: Mapping[int, CheckedApi] = {
    ApiKey.DESCRIBE_GROUPS: CheckedApi(
        request=describe_groups.DescribeGroupsRequest,
        response=describe_groups.DescribeGroupsResponse,
        results="groups",
        elements=Elements(
            arrays=("groups",),
            need_of=partial(group_described, Operation.DESCRIBE),
            reject=partial(reject_group, describe_groups.DescribedGroup),
        ),
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _descriptions(
        consumer_group_describe.ConsumerGroupDescribeRequest,
        consumer_group_describe.ConsumerGroupDescribeResponse,
        consumer_group_describe.DescribedGroup,
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: _descriptions(
        share_group_describe.ShareGroupDescribeRequest,
        share_group_describe.ShareGroupDescribeResponse,
        share_group_describe.DescribedGroup,
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: _descriptions(
        streams_group_describe.StreamsGroupDescribeRequest,
        streams_group_describe.StreamsGroupDescribeResponse,
        streams_group_describe.DescribedGroup,
        lambda group: topics_of_topology(group.topology),
    ),
    ApiKey.LIST_GROUPS: CheckedApi(
        response=list_groups.ListGroupsResponse,
        unless=on_cluster(Operation.DESCRIBE),
        results="groups",
        shown=shown_if(lambda group: on_group(Operation.DESCRIBE, group.group_id)),
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: CheckedApi(
        request=describe_share_group_offsets.DescribeShareGroupOffsetsRequest,
        response=describe_share_group_offsets.DescribeShareGroupOffsetsResponse,
        results="groups",
        elements=Elements(
            arrays=("groups",),
            need_of=lambda group, request: on_group(Operation.DESCRIBE, group.group_id),
            reject=lambda group, why: _reject_group_with_message(
                describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup, group.group_id, why
            ),
        ),
        shown=_with_shown_offsets,
    ),
}
