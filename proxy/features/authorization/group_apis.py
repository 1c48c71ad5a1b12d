"""The APIs whose requests name groups, the operations that each needs as KafkaApis checks them, and how each answers
that they are not allowed. OffsetFetch has a stage of its own (`descriptions`), and so has StreamsGroupHeartbeat, here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.message import Message, Struct, first_version, replace_fields
from kafka_sidecar.codec.messages import (
    alter_share_group_offsets,
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    delete_share_group_offsets,
    describe_groups,
    describe_share_group_offsets,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    streams_group_topology_description_update,
    sync_group,
)
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.elements import reject_element, reject_partitions
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import OpenMessage, Rejection
from kafka_sidecar.proxy.features.authorization.acls import Operation, Resource
from kafka_sidecar.proxy.features.authorization.checked_apis import (
    CheckedApi,
    Need,
    Sight,
    on_cluster,
    on_group,
    on_topic,
    on_transaction,
    shown_if,
)
from kafka_sidecar.proxy.features.authorization.checks import CheckRun, Rules
from kafka_sidecar.proxy.features.authorization.topic_apis import named
from kafka_sidecar.proxy.features.denials import explained
from kafka_sidecar.proxy.relay.exchange import Client, TopicIds

_DescribeShareOffsets = describe_share_group_offsets.DescribeShareGroupOffsetsRequest
_NoShareOffsets = describe_share_group_offsets.DescribeShareGroupOffsetsResponseTopic
_PROTOCOL_FROM = first_version(sync_group.SyncGroupRequest, "protocol_type")
MAX_BEGINNING = 249  # characters of a topic's name
GROUP_TYPE, TRANSACTION_TYPE = 0, 1  # Kafka's CoordinatorType


def group_of(operation: Operation, request: Any) -> tuple[Need, ...]:
    return (on_group(operation, request.group_id or ""),)


def group_and_subscription(request: Any) -> Iterable[Need]:
    """Of a member that names the topics to which it subscribes, or has the broker look for them (KIP-848)."""
    topics = (on_topic(Operation.DESCRIBE, name) for name in request.subscribed_topic_names or ())
    pattern: str | None = getattr(request, "subscribed_topic_regex", None)
    return (*group_of(Operation.READ, request), *topics, *(on_pattern(pattern) if pattern else ()))


def on_pattern(pattern: str) -> Iterable[Need]:
    """What a member needs whose topics the broker finds by a pattern: it finds all, with the sidecar's rights."""
    yield Need(Operation.DESCRIBE, Resource.TOPIC, beginning(pattern), is_prefix=True)


def beginning(pattern: str) -> str:
    r"""What all names begin with that a pattern of RE2 matches, as far as that can be read off.

    >>> beginning(r"^orders\.eu-.*"), beginning("orders-?"), beginning("orders|.*"), beginning("(?i)orders")
    ('orders.eu-', 'orders', '', '')
    """
    found = _BEGINNING.match(pattern[: 2 * MAX_BEGINNING + 2])  # each may be escaped, and one more follow
    return re.sub(r"\\(.)", r"\1", found["literal"])[:MAX_BEGINNING] if found is not None and "|" not in pattern else ""


# Characters that are none of RE2's, or escaped, and are not optional.
_BEGINNING = re.compile(r"\^?(?P<literal>(?:(?:[\w-]|\\[!-/:-@\[-`{-~])(?![*?{]))*)", re.ASCII)


def topics_of_topology(topology: Any) -> set[str]:
    """All names of topics in the topology of a streams group (KIP-1071), if it has one."""
    parts = (topology.subtopologies or ()) if topology is not None else ()
    names = {name for part in parts for name in (*part.source_topics, *part.repartition_sink_topics)}
    return names | {
        topic.name for part in parts for topic in (*part.state_changelog_topics, *part.repartition_source_topics)
    }


def _group_and_topology(request: streams_group_heartbeat.StreamsGroupHeartbeatRequest) -> Iterable[Need]:
    topics = (on_topic(Operation.DESCRIBE, name) for name in sorted(topics_of_topology(request.topology)))
    parts = request.topology.subtopologies if request.topology is not None else ()
    patterns = (need for part in parts for pattern in part.source_topic_regex for need in on_pattern(pattern))
    return (*group_of(Operation.READ, request), *topics, *patterns)


def internal_topics(topology: streams_group_heartbeat.Topology | None) -> set[str]:
    """The topics in the topology of a streams group that the broker creates where there is none."""
    return {
        topic.name
        for part in (topology.subtopologies if topology is not None else ())
        for topic in (*part.state_changelog_topics, *part.repartition_source_topics)
    }


def group_described(operation: Operation, group: str, request: Any) -> Need:
    return on_group(operation, group)


def reject_group(result: Callable[..., Struct], group: str, why: Rejection) -> Struct:
    return result(group_id=group, error_code=why.error_code)


def _coordinated(key: str, request: find_coordinator.FindCoordinatorRequest) -> Need:
    if request.key_type == GROUP_TYPE:
        return on_group(Operation.DESCRIBE, key)
    if request.key_type == TRANSACTION_TYPE:
        return on_transaction(Operation.DESCRIBE, key)
    return on_cluster(Operation.CLUSTER_ACTION)  # of a share partition


def _one_coordinated(request: find_coordinator.FindCoordinatorRequest) -> Iterable[Need]:
    """Before version 4 a request has one key, which may be empty."""
    return (_coordinated(request.key, request),) if not request.coordinator_keys else ()


def _no_coordinator(request: Any, why: Rejection) -> Message:
    return find_coordinator.FindCoordinatorResponse(
        error_code=why.error_code, error_message=why.message, node_id=-1, port=-1
    )


def _reject_key(key: str, why: Rejection) -> Struct:
    return find_coordinator.Coordinator(
        key=key, node_id=-1, port=-1, error_code=why.error_code, error_message=why.message
    )


def committed(of: Any, request: Any) -> Need:
    """Of a topic, in the APIs that commit offsets: by name, or by id from some version on."""
    return on_topic(Operation.READ, of.name or of.topic_id)


def _members(request: type[Message], response: type[Message]) -> CheckedApi:
    """An API of members, which names one group."""
    return CheckedApi(request=request, response=response, needs=partial(group_of, Operation.READ))


GROUP_APIS: Mapping[int, CheckedApi] = {
    ApiKey.JOIN_GROUP: _members(join_group.JoinGroupRequest, join_group.JoinGroupResponse),
    ApiKey.SYNC_GROUP: _members(sync_group.SyncGroupRequest, sync_group.SyncGroupResponse),
    ApiKey.HEARTBEAT: _members(heartbeat.HeartbeatRequest, heartbeat.HeartbeatResponse),
    ApiKey.LEAVE_GROUP: _members(leave_group.LeaveGroupRequest, leave_group.LeaveGroupResponse),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _members(
        streams_group_topology_description_update.StreamsGroupTopologyDescriptionUpdateRequest,
        streams_group_topology_description_update.StreamsGroupTopologyDescriptionUpdateResponse,
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: CheckedApi(
        request=consumer_group_heartbeat.ConsumerGroupHeartbeatRequest,
        response=consumer_group_heartbeat.ConsumerGroupHeartbeatResponse,
        needs=group_and_subscription,
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: CheckedApi(
        request=streams_group_heartbeat.StreamsGroupHeartbeatRequest,
        response=streams_group_heartbeat.StreamsGroupHeartbeatResponse,
        needs=_group_and_topology,
    ),
    ApiKey.FIND_COORDINATOR: CheckedApi(
        request=find_coordinator.FindCoordinatorRequest,
        response=find_coordinator.FindCoordinatorResponse,
        needs=_one_coordinated,
        refuse=_no_coordinator,
        results="coordinators",
        arrays=("coordinator_keys",),
        need_of=_coordinated,
        reject=_reject_key,
    ),
    ApiKey.DELETE_GROUPS: CheckedApi(
        request=delete_groups.DeleteGroupsRequest,
        response=delete_groups.DeleteGroupsResponse,
        results="results",
        arrays=("groups_names",),
        need_of=partial(group_described, Operation.DELETE),
        reject=partial(reject_group, delete_groups.DeletableGroupResult),
    ),
    ApiKey.OFFSET_COMMIT: CheckedApi(
        request=offset_commit.OffsetCommitRequest,
        response=offset_commit.OffsetCommitResponse,
        needs=partial(group_of, Operation.READ),
        results="topics",
        arrays=("topics",),
        need_of=committed,
        reject=partial(
            reject_partitions, offset_commit.OffsetCommitResponseTopic, offset_commit.OffsetCommitResponsePartition
        ),
    ),
    ApiKey.OFFSET_DELETE: CheckedApi(
        request=offset_delete.OffsetDeleteRequest,
        response=offset_delete.OffsetDeleteResponse,
        needs=partial(group_of, Operation.DELETE),
        results="topics",
        arrays=("topics",),
        asks_for_none=True,
        need_of=partial(named, Operation.READ),
        reject=partial(
            reject_partitions, offset_delete.OffsetDeleteResponseTopic, offset_delete.OffsetDeleteResponsePartition
        ),
    ),
}


def _shared(of: Any, request: Any) -> Need:
    return on_topic(Operation.READ, of.topic_id)


def _topic_name(of: Any, request: Any) -> Need:
    return on_topic(Operation.READ, of.topic_name)


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
        arrays=("topics",),
        need_of=_shared,
        reject=partial(reject_partitions, share_fetch.ShareFetchableTopicResponse, share_fetch.PartitionData),
    ),
    ApiKey.SHARE_ACKNOWLEDGE: CheckedApi(
        request=share_acknowledge.ShareAcknowledgeRequest,
        response=share_acknowledge.ShareAcknowledgeResponse,
        needs=partial(group_of, Operation.READ),
        results="responses",
        arrays=("topics",),
        need_of=_shared,
        reject=partial(
            reject_partitions, share_acknowledge.ShareAcknowledgeTopicResponse, share_acknowledge.PartitionData
        ),
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: CheckedApi(
        request=alter_share_group_offsets.AlterShareGroupOffsetsRequest,
        response=alter_share_group_offsets.AlterShareGroupOffsetsResponse,
        needs=partial(group_of, Operation.READ),
        results="responses",
        arrays=("topics",),
        asks_for_none=True,
        need_of=_topic_name,
        reject=partial(
            reject_partitions,
            alter_share_group_offsets.AlterShareGroupOffsetsResponseTopic,
            alter_share_group_offsets.AlterShareGroupOffsetsResponsePartition,
        ),
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: CheckedApi(
        request=delete_share_group_offsets.DeleteShareGroupOffsetsRequest,
        response=delete_share_group_offsets.DeleteShareGroupOffsetsResponse,
        needs=partial(group_of, Operation.DELETE),
        results="responses",
        arrays=("topics",),
        asks_for_none=True,
        need_of=_topic_name,
        reject=partial(reject_element, delete_share_group_offsets.DeleteShareGroupOffsetsResponseTopic),
    ),
}


HIDDEN = "the group has topics that the client is not authorized to describe"


def _reject_group_with_message(result: Callable[..., Struct], group: str, why: Rejection) -> Struct:
    return result(group_id=group, error_code=why.error_code, error_message=why.message)


def _assigned(group: Any) -> Iterable[str]:
    """The topics of a group's members."""
    for member in group.members:
        for assignment in (member.assignment, getattr(member, "target_assignment", None)):
            yield from (one.topic_name for one in assignment.topic_partitions) if assignment is not None else ()


def _shown_group(
    result: type[Struct], topics_of: Callable[[Any], Iterable[str]], group: Any, request: Any, allows: Sight
) -> Any:
    """Kafka hides a group for one topic that the client may not describe."""
    denied = (allows.deny(on_topic(Operation.DESCRIBE, name)) for name in sorted(set(topics_of(group))))
    why = next((one for one in denied if one is not None), None)
    return group if why is None else _reject_group_with_message(result, group.group_id, explained(why, HIDDEN))


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
        arrays=("group_ids",),
        need_of=partial(group_described, Operation.DESCRIBE),
        reject=partial(_reject_group_with_message, result),
        shown=partial(_shown_group, result, topics_of),
    )


GROUP_DESCRIPTIONS: Mapping[int, CheckedApi] = {
    ApiKey.DESCRIBE_GROUPS: CheckedApi(
        request=describe_groups.DescribeGroupsRequest,
        response=describe_groups.DescribeGroupsResponse,
        results="groups",
        arrays=("groups",),
        need_of=partial(group_described, Operation.DESCRIBE),
        reject=partial(reject_group, describe_groups.DescribedGroup),
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
        arrays=("groups",),
        need_of=lambda group, request: on_group(Operation.DESCRIBE, group.group_id),
        reject=lambda group, why: _reject_group_with_message(
            describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup, group.group_id, why
        ),
    ),
}


class CheckStreamsRun(CheckRun):
    """One StreamsGroupHeartbeat: the broker creates the internal topics of a topology (KIP-1071), with the sidecar's
    rights, so a member needs the right to create those that do not exist.

    A broker lets one without it join all the same, creates nothing and says so in a status. It cannot be asked not to
    create, so here the heartbeat that brings the topology is refused.
    """

    __slots__ = ()

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        if (answer := (yield from super().request(request))) is not None:
            return answer
        asked = yield from request.read(streams_group_heartbeat.StreamsGroupHeartbeatRequest)
        names = sorted(internal_topics(asked.topology))
        principal = self._client.principal
        if not names or self._rules.allows(self._key, on_cluster(Operation.CREATE), principal):
            return None
        denied = {
            name: why
            for name in names
            if (why := self._rules.check(self._key, on_topic(Operation.CREATE, name), principal)) is not None
        }
        if not denied:
            return None
        existing = yield TopicIds(tuple(denied))
        for name, why in denied.items():
            if name not in (existing or {}):
                self._rules.denials.record(self._key, [why], self._client)
                return self._api.refusal(asked, explained(why))
        return None


class CheckSyncRun(CheckRun):
    """One SyncGroup: a broker looks for the protocol (KIP-559) before it looks at rights."""

    __slots__ = ()

    def _refusal(self, message: sync_group.SyncGroupRequest) -> Rejection | None:
        if self._version >= _PROTOCOL_FROM and None in (message.protocol_type, message.protocol_name):
            return Rejection(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the request has no protocol")
        return super()._refusal(message)


class CheckShareOffsetsRun(CheckRun):
    """One DescribeShareGroupOffsets, whose groups have topics.

    Those that the client names and may not describe do not reach the broker, which for some never answers.
    """

    __slots__ = ("_denied_topics", "_places")

    def __init__(self, rules: Rules, key: int, api: CheckedApi, client: Client, version: int) -> None:
        super().__init__(rules, key, api, client, version)
        self._denied_topics: dict[str, list[_NoShareOffsets]] = {}  # by group
        self._places: dict[str, int] = {}

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        if (answer := (yield from super().request(request))) is not None:
            return answer
        asked = yield from request.read(_DescribeShareOffsets)
        kept, denied, allowed = yield from offload(partial(self._kept, asked), request.elements)
        self._rules.denials.record(self._key, denied, self._client)
        if self._rules.denials.wants_allowed:
            self._rules.allowed(self._key, allowed, self._client)
        self._places = {group.group_id: at for at, group in enumerate(self._request.groups)}
        self._shown = self._with_denied
        if denied:
            request.replace(replace_fields(asked, groups=kept))
        return None

    def _kept(self, asked: _DescribeShareOffsets) -> tuple[tuple[Struct, ...], list[Rejection], list[Need]]:
        """The groups with the topics that may be described; why the others may not; and what is allowed."""
        kept, denied, allowed = list[Struct](), list[Rejection](), list[Need]()
        for group in asked.groups:
            left = []
            for topic in group.topics or ():
                need = on_topic(Operation.DESCRIBE, topic.topic_name)
                if (why := self._rules.check(self._key, need, self._client.principal)) is None:
                    left.append(topic)
                    allowed.append(need)
                else:
                    denied.append(why)
                    self._denied_topics.setdefault(group.group_id, []).append(_without_offsets(topic, why))
            kept.append(group if group.topics is None else replace_fields(group, topics=tuple(left)))
        return tuple(kept), denied, allowed

    def _with_denied(
        self,
        group: describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup,
        request: _DescribeShareOffsets,
        allows: Sight,
    ) -> describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup:
        """Of a list of all, the topics that may be described; the denied ones that were named have an error."""
        if group.error_code != ErrorCode.NONE:
            return group
        topics = (one for one in group.topics if allows(on_topic(Operation.DESCRIBE, one.topic_name)))
        return replace_fields(group, topics=(*topics, *self._denied_topics.get(group.group_id, ())))

    def _completed(self, results: Iterable[Struct], sight: Any) -> tuple[Struct, ...]:
        groups: Iterable[Any] = super()._completed(results, sight)
        return tuple(sorted(groups, key=lambda group: self._places.get(group.group_id, 0)))


def _without_offsets(
    topic: describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic, why: Rejection
) -> _NoShareOffsets:
    error = explained(why)
    partitions = (
        describe_share_group_offsets.DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, start_offset=-1, error_code=error.error_code, error_message=error.message
        )
        for index in topic.partitions
    )
    return _NoShareOffsets(topic_name=topic.topic_name, partitions=tuple(partitions))
