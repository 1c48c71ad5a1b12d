"""Topics that brokers create by themselves: a guard keeps them from it.

Metadata names a topic that does not exist (`auto.create.topics.enable`):

    request --> names that may not be created so? --> sent with allow_auto_topic_creation off --> broker
    request before version 4, which cannot say so --> those that do not exist are cut out --> broker
    client <-- UNKNOWN_TOPIC_OR_PARTITION for these, as of a broker that creates none

Such a topic has the broker's numbers and no configs. What these are is not asked for each Metadata: where a guard
limits them, topics are created by a request that says them.

StreamsGroupHeartbeat has a topology with internal topics (KIP-1071):

    heartbeat with a topology --> its changelog and repartition topics, as CreateTopics would have them --> guards
        --> one that does not exist violates a guard: POLICY_VIOLATION, which ends the application with the message
        --> otherwise as it is --> broker

A broker keeps the topology of a group, and creates what is missing at heartbeats that have none. It cannot be asked not
to, and the names cannot be cut out, because members compute them too: so the one that brings the topology is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import decode_response
from kafka_sidecar.codec.message import Message, Struct, first_version, replace_fields
from kafka_sidecar.codec.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_sidecar.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafka_sidecar.codec.messages.streams_group_heartbeat import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.elements import Cut, ElementsApi
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import NO_TOPIC, MessageRun, OpenMessage, Rejection
from kafka_sidecar.proxy.features.denials import Denied
from kafka_sidecar.proxy.features.topic_guards.guards import Guard, Violation, quoted
from kafka_sidecar.proxy.features.topic_guards.stages import (
    DEFAULT,
    GUARDED_APIS,
    Checked,
    CreationRun,
    Site,
    creation,
)
from kafka_sidecar.proxy.relay.exchange import Client

CAN_SAY = first_version(MetadataRequest, "allow_auto_topic_creation")
NOT_THERE = Rejection(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
# Of a topic that is named for the first time: one that is not created, and one that is being created.
NEW = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
Refused = dict[str, tuple[Guard, Sequence[Violation]]]  # by name
CAN_NAME_ALONE = first_version(MetadataRequest, "allow_auto_topic_creation")
NOT_SET = 0  # of numbers in a topology: the broker chooses
ANSWER_S = 30
# The broker has not said what it would do, but may do it a moment later. Members ask again after this error.
NOT_NOW = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
_ODD = "topology: topic {} has fewer than 0 partitions, or is there twice with other settings"
_TRY_AGAIN = "the broker has not answered for topic {}, ask again"
_API = replace(GUARDED_APIS[ApiKey.CREATE_TOPICS], key=ApiKey.STREAMS_GROUP_HEARTBEAT)


def _reject(topic: MetadataRequestTopic, why: Rejection) -> Struct:
    return MetadataResponseTopic(error_code=why.error_code, name=topic.name)


def _name(of: Any) -> str | None:
    name: str | None = of.name
    return name


METADATA = ElementsApi(
    request=MetadataRequest,
    response=MetadataResponse,
    arrays=("topics",),
    results="topics",
    identify=_name,
    reject=_reject,
)


class NamedTopicsRun(MessageRun):
    """One Metadata request and its response."""

    __slots__ = ("_client", "_cut", "_refused", "_site", "_version")

    def __init__(self, site: Site, client: Client, version: int) -> None:
        self._site = site
        self._client = client
        self._version = version
        self._refused: Refused = {}
        self._cut: Cut | None = None

    @property
    def wants_response(self) -> bool:
        # Most clients name topics that exist.
        return self._cut is not None or any(not self._site.is_known(name) for name in self._refused)

    def request(self, request: OpenMessage) -> Steps[None]:
        message = yield from request.read(MetadataRequest)
        if not message.topics or not message.allow_auto_topic_creation:
            return
        self._refused = yield from offload(partial(self._check, message.topics), request.elements)
        if not (enforced := {name for name, (guard, _) in self._refused.items() if guard.is_enforced}):
            return
        if self._version < CAN_SAY:
            yield from self._cut_out(request, message, enforced)
            return
        others = tuple(topic for topic in message.topics if topic.name and topic.name not in enforced)
        if any(not self._site.is_known(topic.name or "") for topic in others):
            # These may be created: the broker does so when it is asked for them alone.
            yield from request.ask(replace_fields(message, topics=others), self._version, self._client)
        request.replace(replace_fields(message, allow_auto_topic_creation=False))

    def response(self, response: OpenMessage) -> Steps[None]:
        message = yield from response.read(MetadataResponse)
        topics: Iterable[MetadataResponseTopic] = message.topics
        if self._cut is not None:
            topics = self._cut.complete(topic for topic in message.topics if topic.name != NO_TOPIC)
            response.replace(replace_fields(message, topics=tuple(topics)))
        denied = yield from offload(partial(self._denied, topics), response.elements)
        self._site.denials.record(ApiKey.METADATA, denied, self._client)

    def _denied(self, topics: Iterable[MetadataResponseTopic]) -> list[Denied]:
        """Those that were not created, or are being created in mode shadow."""
        return [
            self._site.denied(ApiKey.METADATA, "create", topic.name, *found, self._client)
            for topic in topics
            if topic.name and topic.error_code in NEW and (found := self._refused.get(topic.name)) is not None
        ]

    def _check(self, topics: Iterable[MetadataRequestTopic]) -> Refused:
        """The names for which no topic may be created."""
        found: Refused = {}
        for name in filter(None, (topic.name for topic in topics)):
            guard = self._site.guards.of(name, self._client.principal)
            if guard is not None and (violations := list(guard.of_automatic_creation(name))):
                found[name] = guard, violations
        return found

    def _cut_out(self, request: OpenMessage, message: MetadataRequest, names: Collection[str]) -> Steps[None]:
        """Remove topics that do not exist: the broker would create them."""
        asked = tuple(MetadataRequestTopic(name=name) for name in names)
        question = replace_fields(message, topics=asked, allow_auto_topic_creation=False)
        frame = yield from request.ask(question, CAN_SAY, self._client)
        cut = yield from offload(partial(_without_missing, message, names, frame), request.elements)
        if not cut.rejected:
            return
        self._cut, rest = cut, cut.request
        if not rest.topics and not self._version:  # where no topics stand for all
            rest = replace_fields(rest, topics=(MetadataRequestTopic(name=NO_TOPIC),))
        request.replace(rest)


def _without_missing(message: MetadataRequest, names: Collection[str], frame: bytes) -> Cut:
    """The request without those of the names that a broker does not know, as this response says."""
    answered = decode_response(MetadataResponse, frame, CAN_SAY).message
    there = {topic.name for topic in answered.topics if topic.error_code not in NEW}
    missing = set(names) - there
    return METADATA.cut(message, [NOT_THERE if topic.name in missing else None for topic in message.topics or ()])


class StreamsRun(CreationRun):
    """One heartbeat; its response is the broker's, or it is refused."""

    __slots__ = ()

    def __init__(self, site: Site, client: Client, version: int) -> None:
        super().__init__(_API, site, client, version)

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        topology = (yield from request.read(StreamsGroupHeartbeatRequest)).topology
        if topology is None:
            return None
        odd = yield from offload(partial(_odd, topology), request.elements)
        if odd is not None and (guard := self._site.guards.of(odd.name, self._client.principal)) is not None:
            why = Rejection(ErrorCode.INVALID_REQUEST, _ODD.format(quoted(odd.name)))
            return _refusal(why) if guard.is_enforced else None
        checked, topics = yield from self._checked(request, topology, {})
        if not checked:
            return None
        if any(_depends_on_partitions(one) for one in checked):
            counts = yield from self._partitions(request, topology)
            checked, topics = yield from self._checked(request, topology, counts)
        yield from self._ask(request, CreateTopicsRequest(timeout_ms=ANSWER_S * 1000), checked)
        decided = yield from offload(partial(self._decide, topics, checked), request.elements)
        self._site.denials.record(ApiKey.STREAMS_GROUP_HEARTBEAT, decided.denied, self._client)
        for one in checked:
            if one.is_refused and one.rejection is not None:
                return _refusal(one.rejection)
        for one in checked:
            if one.rejection is not None and one.rejection.error_code in NOT_NOW:
                return _refusal(Rejection(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, _TRY_AGAIN.format(one.name)))
        return None  # a topic that is there, or that the broker rejects itself

    def _checked(
        self, request: OpenMessage, topology: Topology, counts: Mapping[str, int]
    ) -> Steps[tuple[list[Checked], list[CreatableTopic]]]:
        topics = yield from offload(partial(_topics, topology, counts), request.elements)
        return (yield from offload(partial(self._check, topics), request.elements)), topics

    def _partitions(self, request: OpenMessage, topology: Topology) -> Steps[Mapping[str, int]]:
        """The numbers of partitions that the broker will compute, from those of the topics that are read."""
        names = sorted({name for part in topology.subtopologies for name in part.source_topics})
        question = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in names), allow_auto_topic_creation=False
        )
        answer = yield from request.ask(question, CAN_NAME_ALONE, self._client)
        return (yield from offload(partial(_counts, topology, answer), request.elements))

    def _close(self, one: Checked, result: Any) -> None:
        known = creation(one.element, replication_factor=result.replication_factor)
        if known.replication_factors is None and one.guard.replication_factor.is_set:
            super()._close(one, result)  # it says what to do
        else:
            # The number of partitions is not known where a topic that is read is not there: the broker creates none.
            one.violations = list(one.guard.of_creation(known, self._site.own_configs()))


def _internal(topology: Topology) -> Iterator[TopicInfo]:
    """The topics that a broker creates where there are none."""
    for part in topology.subtopologies:
        yield from part.state_changelog_topics
        yield from part.repartition_source_topics


def _topics(topology: Topology, counts: Mapping[str, int]) -> list[CreatableTopic]:
    """The same as CreateTopics would have them; ``counts``: numbers of partitions that the topology does not say."""
    return [
        CreatableTopic(
            name=topic.name,
            num_partitions=topic.partitions or counts.get(topic.name, DEFAULT),
            replication_factor=topic.replication_factor or DEFAULT,
            configs=tuple(CreatableTopicConfig(name=one.key, value=one.value) for one in topic.topic_configs),
        )
        for topic in {topic.name: topic for topic in _internal(topology)}.values()
    ]


def _odd(topology: Topology) -> TopicInfo | None:
    """What no Kafka Streams sends, and brokers may understand otherwise than a guard."""
    seen: dict[str, TopicInfo] = {}
    for topic in _internal(topology):
        if topic.partitions < NOT_SET or seen.setdefault(topic.name, topic) != topic:
            return topic
    return None


def _depends_on_partitions(one: Checked) -> bool:
    return one.guard.partitions.is_set and one.element.num_partitions == DEFAULT


def _counts(topology: Topology, frame: bytes) -> Mapping[str, int]:
    """The numbers of partitions of all topics of a topology, as far as they follow from those that are read."""
    answered = decode_response(MetadataResponse, frame, CAN_NAME_ALONE).message
    return computed_partitions(
        topology.subtopologies, {topic.name or "": len(topic.partitions) for topic in answered.topics}
    )


def computed_partitions(parts: Sequence[Subtopology], of_sources: Mapping[str, int]) -> Mapping[str, int]:
    """As Kafka's InternalTopicManager: a repartition topic has as many partitions as the largest topic that is read
    where it is written, or as those that are joined with it; a changelog as many as the largest that is read.

    Args:
        of_sources: those of topics that exist.
    """
    counts = {name: count for name, count in of_sources.items() if count > 0}
    internal = {topic.name: topic.partitions for part in parts for topic in part.repartition_source_topics}
    counts |= {name: count for name, count in internal.items() if count}
    _follow(parts, {name for name, count in internal.items() if not count}, counts)
    for part in parts:
        for group in part.copartition_groups:
            _join(part, group, internal, counts)
    for part in parts:
        if found := _largest(part, counts):
            counts |= {topic.name: found for topic in part.state_changelog_topics}
    return counts


def _follow(parts: Sequence[Subtopology], wanted: Collection[str], counts: dict[str, int]) -> None:
    """Add the numbers of repartition topics, each after those that it depends on."""
    writers: dict[str | int, list[int]] = {}  # subtopologies by number, of topics by name
    for at, part in enumerate(parts):
        for name in part.repartition_sink_topics:
            writers.setdefault(name, []).append(at)
    order = TopologicalSorter[str | int](writers)
    for at, part in enumerate(parts):
        order.add(at, *(topic.name for topic in part.repartition_source_topics))
    with suppress(CycleError):  # no Kafka Streams has one: the broker rejects it
        for node in order.static_order():
            if node in wanted and (
                found := max((_largest(parts[at], counts) for at in writers.get(node, ())), default=0)
            ):
                counts[str(node)] = found


def _largest(part: Subtopology, counts: Mapping[str, int]) -> int:
    """The number of partitions of the largest topic that a subtopology reads; 0: it is not known."""
    read = [
        counts.get(name, 0) for name in (*part.source_topics, *(one.name for one in part.repartition_source_topics))
    ]
    return max(read) if read and all(read) else 0


def _join(part: Subtopology, group: CopartitionGroup, internal: Mapping[str, int], counts: dict[str, int]) -> None:
    """Topics that are joined get the same number: that of those that are not the group's own, or the largest."""
    sources = [part.source_topics[at] for at in group.source_topics if 0 <= at < len(part.source_topics)]
    own = part.repartition_source_topics
    joined = [own[at].name for at in group.repartition_source_topics if 0 <= at < len(own)]
    fixed = sources or [name for name in joined if internal.get(name)] or joined
    found = max((counts.get(name, 0) for name in fixed), default=0)
    counts.update({name: found for name in joined if found and not internal.get(name)})


def _refusal(why: Rejection) -> Message:
    return StreamsGroupHeartbeatResponse(error_code=why.error_code, error_message=why.message)
