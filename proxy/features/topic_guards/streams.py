"""StreamsGroupHeartbeat: the internal topics of a topology, which a broker creates by itself (KIP-1071), are guarded.

    heartbeat with a topology --> its changelog and repartition topics, as CreateTopics would have them --> guards
        --> one that does not exist violates a guard: POLICY_VIOLATION, which ends the application with the message
        --> otherwise as it is --> broker

A broker keeps the topology of a group, and creates what is missing at heartbeats that have none. It cannot be asked not
to, and the names cannot be cut out, because members compute them too: so the one that brings the topology is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.message import Message, first_version
from kafka_sidecar.codec.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_sidecar.codec.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_sidecar.codec.messages.streams_group_heartbeat import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import MessageStage, OpenMessage, Rejection
from kafka_sidecar.proxy.features.topic_guards.guards import quoted
from kafka_sidecar.proxy.features.topic_guards.stages import (
    DEFAULT,
    GUARDED_APIS,
    Checked,
    CreationRun,
    Site,
    creation,
)
from kafka_sidecar.proxy.relay.exchange import Client, Send

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


class StreamsTopics(MessageStage):
    """The stage of StreamsGroupHeartbeat."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def start(self, client: Client, version: int) -> StreamsRun:
        return StreamsRun(_API, self._site, client, version)


class StreamsRun(CreationRun):
    """One heartbeat; its response is the broker's, or it is refused."""

    __slots__ = ()

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
        encode = partial(encode_request, question, CAN_NAME_ALONE, request.correlation_id, self._client.client_id)
        (answer,) = yield Send(((yield from offload(encode, request.elements)),))
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
