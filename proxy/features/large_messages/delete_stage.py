"""DeleteRecords: slices stay whose message ends at the offset up to which a client deletes, or after it.

    request --> what is known, or read, of the gap before each offset --> the safe offset in its place --> broker

The request goes to the leader of its partitions, so the log is read on the client's own connection. Where that fails
nothing of the partition is deleted: the client gets an error and tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from crc32c import crc32c

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.crc_parts import joined
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Message, replace_fields
from kafka_sidecar.codec.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from kafka_sidecar.codec.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafka_sidecar.codec.visibility import SHOWN, all_visible, offsets_of
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.large_messages.back_pointers import BackPointers
from kafka_sidecar.large_messages.classify import Part
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.partition_log import RECORD_BYTES, PartitionLog, cut_read
from kafka_sidecar.large_messages.reading import READ_BYTES, UnreadableError, compute
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import TURN, Steps
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import MessageRun, OpenMessage
from kafka_sidecar.proxy.features.large_messages.offset_stage import is_li_client
from kafka_sidecar.proxy.features.large_messages.reads import OURS, Reads
from kafka_sidecar.proxy.features.large_messages.services import AssemblyServices
from kafka_sidecar.proxy.relay.exchange import Client, Send, TopicIds

FETCH = 12  # the last version that names topics, which every supported broker has
LIST_OFFSETS = 5  # which every supported broker has
EARLIEST, LATEST = -2, -1  # in place of a timestamp
TO_THE_END = -1  # the offset that means the high watermark
# What a broker says of a partition, or of who reads it: the client gets the same error. For all others it tries again.
PASSED_ON = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)

KEPT, UNCHANGED, FAILED = "kept", "unchanged", "failed"  # results: label values of a metric

Place = tuple[str, int]  # topic, partition
# Is notified of what becomes of a deletion: topic, partition, the client's offset, the result, the error code.
Report = Callable[[str, int, int, str, int], None]


class Edges(NamedTuple):
    """Of one partition's log, as its broker says."""

    start: int
    end: int  # the high watermark
    error_code: int = 0


UNKNOWN = -1, int(ErrorCode.UNKNOWN_SERVER_ERROR)  # what the broker does not say


@dataclass(frozen=True, slots=True)
class Deletions:
    """The stage of DeleteRecords."""

    find: Callable[[str], TopicSettings | None]  # the settings of a topic; None: it has no large messages
    services: AssemblyServices
    intervals: Intervals
    report: Report

    def __call__(self, client: Client, version: int) -> DeletionsRun | None:
        versions = DeleteRecordsRequest.declaration_.versions
        if versions is None or version not in versions or is_li_client(client.client_id, self.services.li_clients):
            return None
        return DeletionsRun(self, client)


class DeletionsRun(MessageRun):
    """One request and its response."""

    __slots__ = ("_client", "_ids", "_refused", "_shared")

    def __init__(self, shared: Deletions, client: Client) -> None:
        self._shared = shared
        self._client = client
        self._ids: Mapping[str, bytes] = {}  # of topics whose ids were not known
        self._refused: dict[str, list[DeleteRecordsPartitionResult]] = {}  # by topic

    @property
    def wants_response(self) -> bool:
        return bool(self._refused)

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        message = yield from request.read(DeleteRecordsRequest)
        named = {topic.name for topic in message.topics if self._shared.find(topic.name) is not None}
        if not named:
            return None
        yield from self._learn_ids(named)
        unknown = yield from offload(partial(self._unknown, message, named), request.elements)
        edges = (yield from self._edges(unknown)) if unknown else {}
        services = self._shared.services
        reads = Reads(self._client, FETCH, services.time_limit, services.stopwatch, None)
        topics = []
        for topic in message.topics:
            kept = (yield from self._partitions(topic, edges, reads)) if topic.name in named else topic.partitions
            if kept:
                topics.append(replace_fields(topic, partitions=kept) if kept != topic.partitions else topic)
        if not topics and self._refused:
            return DeleteRecordsResponse(topics=self._with_refused(()))
        if tuple(topics) != message.topics:
            request.replace(replace_fields(message, topics=tuple(topics)))
        return None

    def response(self, response: OpenMessage) -> Steps[None]:
        message = yield from response.read(DeleteRecordsResponse)
        response.replace(replace_fields(message, topics=self._with_refused(message.topics)))

    def _with_refused(self, results: Iterable[DeleteRecordsTopicResult]) -> tuple[DeleteRecordsTopicResult, ...]:
        """The broker's results and those of partitions of which nothing is deleted: each topic is there once."""
        refused = dict(self._refused)
        topics = [
            replace_fields(topic, partitions=(*topic.partitions, *refused.pop(topic.name, ()))) for topic in results
        ]
        others = (DeleteRecordsTopicResult(name=name, partitions=tuple(of)) for name, of in refused.items())
        return (*topics, *others)

    def _partitions(
        self, topic: DeleteRecordsTopic, edges: Mapping[Place, Edges], reads: Reads
    ) -> Steps[tuple[DeleteRecordsPartition, ...]]:
        """What the broker is to delete of a topic with large messages."""
        kept, shared = list[DeleteRecordsPartition](), self._shared
        for one in topic.partitions:
            yield TURN
            place = topic.name, one.partition_index
            error_code, offset = 0, one.offset
            try:
                offset = yield from self._deletable(place, one.offset, edges.get(place), reads)
            except TimeoutError:
                error_code = ErrorCode.REQUEST_TIMED_OUT
            except UnreadableError as error:
                error_code = error.error_code if error.error_code in PASSED_ON else ErrorCode.REQUEST_TIMED_OUT
            if error_code:
                self._refuse(place, error_code)
            else:
                kept.append(replace_fields(one, offset=offset) if offset != one.offset else one)
            result = FAILED if error_code else KEPT if 0 <= offset < one.offset else UNCHANGED
            shared.report(*place, one.offset, result, error_code)
        return tuple(kept)

    def _refuse(self, place: Place, error_code: int) -> None:
        topic, partition = place
        result = DeleteRecordsPartitionResult(partition_index=partition, low_watermark=-1, error_code=error_code)
        self._refused.setdefault(topic, []).append(result)

    def _deletable(self, place: Place, offset: int, edges: Edges | None, reads: Reads) -> Steps[int]:
        """The offset in place of the client's. Raises UnreadableError, TimeoutError."""
        start = 0
        if edges is not None:
            if edges.error_code:
                raise UnreadableError(edges.error_code)
            start = edges.start
            offset = edges.end if offset == TO_THE_END else offset
            if not edges.start < offset <= edges.end:
                return offset  # nothing is before it, or the broker refuses it
        if offset <= 0:
            return offset
        topic, partition = place
        settings = self._shared.find(topic)
        assert settings is not None
        log = self._shared.services.log(topic, self._stored_by(topic), partition, settings, is_committed_only=False)
        return (yield from reads.perform(deletable(log, self._shared.intervals, start, offset), topic, partition))

    def _unknown(self, message: DeleteRecordsRequest, named: Collection[str]) -> dict[str, list[int]]:
        """The partitions of which something has to be read, by topic."""
        found: dict[str, dict[int, None]] = {}
        for topic in message.topics:
            settings = self._shared.find(topic.name)
            if topic.name not in named or settings is None:
                continue
            key = self._stored_by(topic.name)
            for one in topic.partitions:
                first = max(one.offset - 1 - settings.look_back, 0)
                is_seen = self._shared.intervals.first_unseen(key, one.partition_index, first, one.offset) is None
                if one.offset == TO_THE_END or (one.offset > 0 and not is_seen):
                    found.setdefault(topic.name, {})[one.partition_index] = None
        return {name: list(partitions) for name, partitions in found.items()}

    def _edges(self, unknown: Mapping[str, Sequence[int]]) -> Steps[Mapping[Place, Edges]]:
        """Where the logs of these partitions begin and end."""
        count = sum(map(len, unknown.values()))
        frames = yield from offload(lambda: tuple(self._ask(unknown, one) for one in (EARLIEST, LATEST)), count)
        earliest, latest = yield Send(frames)
        return (yield from offload(lambda: _joined(_offsets(earliest), _offsets(latest), unknown), count))

    def _ask(self, unknown: Mapping[str, Sequence[int]], timestamp: int) -> bytes:
        topics = tuple(
            ListOffsetsTopic(
                name=name,
                partitions=tuple(ListOffsetsPartition(partition_index=one, timestamp=timestamp) for one in partitions),
            )
            for name, partitions in unknown.items()
        )
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        return encode_request(request, LIST_OFFSETS, OURS, self._client.client_id)

    def _learn_ids(self, names: Iterable[str]) -> Steps[None]:
        if unknown := tuple(sorted(name for name in names if self._shared.services.id_of(name) == NO_ID)):
            self._ids = (yield TopicIds(unknown)) or {}

    def _stored_by(self, topic: str) -> bytes | str:
        """The topic's id, or its name in a cluster without ids."""
        topic_id = self._shared.services.id_of(topic)
        if topic_id == NO_ID:
            topic_id = self._ids.get(topic, NO_ID)
        return topic if topic_id == NO_ID else topic_id


def _offsets(frame: bytes) -> dict[Place, tuple[int, int]]:
    """Offset and error code by partition."""
    try:
        message = decode_response(ListOffsetsResponse, frame, LIST_OFFSETS).message
    except CodecError:
        return {}
    return {
        (topic.name, one.partition_index): (one.offset, one.error_code)
        for topic in message.topics
        for one in topic.partitions
    }


def _joined(
    earliest: Mapping[Place, tuple[int, int]], latest: Mapping[Place, tuple[int, int]], of: Mapping[str, Sequence[int]]
) -> Mapping[Place, Edges]:
    found: dict[Place, Edges] = {}
    for place in ((name, index) for name, indexes in of.items() for index in indexes):
        (start, error_code), (end, other) = earliest.get(place, UNKNOWN), latest.get(place, UNKNOWN)
        found[place] = Edges(start, end, error_code or other)
    return found


def deletable(at_broker: PartitionLog, intervals: Intervals, log_start: int, offset: int) -> Steps[int]:
    """The offset before which all may be deleted, of a log from ``log_start`` to ``offset`` or later.

    Messages of transactions that are open or aborted count as all others: their carriers are deleted with them.

    Raises:
        UnreadableError: the broker does not let the log be read now.
    """
    gap, place = at_broker.settings.look_back, (at_broker.topic, at_broker.partition)
    first = max(offset - 1 - gap, log_start)
    messages: dict[Key, _Message] = {}  # of which something was read here
    while (at := intervals.first_unseen(*place, first, offset)) is not None:
        fetched = yield from at_broker.read(at, READ_BYTES)
        if fetched.error_code != ErrorCode.NONE:
            raise UnreadableError(fetched.error_code)
        end, parts = yield from compute(partial(_parts, at_broker, fetched.records), fetched.records)
        if end <= at:
            raise UnreadableError(ErrorCode.UNKNOWN_SERVER_ERROR)
        for part in parts:
            if part.segment.offset >= at:
                _note(part, intervals, at_broker, messages)
        intervals.see(*place, at, end)
    return intervals.deletable(*place, offset, gap)


Key = tuple[bytes, int, int]  # what the segments of one message have in common: its id, their number, its size


class _Seen(NamedTuple):
    """What is remembered of a segment: not its payload, of which a gap may have gigabytes."""

    offset: int
    size: int
    crc: int


class _SeenPart(NamedTuple):
    key: Key
    number: int
    may_complete: bool
    is_carrier: bool
    pointers: BackPointers | None
    segment: _Seen


@dataclass(slots=True)
class _Message:
    """The segments that were read of a message."""

    by_offset: dict[int, tuple[int, _Seen]] = field(default_factory=dict)
    first: dict[int, _Seen] = field(default_factory=dict)  # the first copy of each, by number
    last: dict[int, _Seen] = field(default_factory=dict)

    def start(self, part: _SeenPart) -> int | None:
        """Where the message begins that this record completes; None: it does not.

        A record that only says so completes nothing: slices would be deleted that another one needs.
        """
        _, count, size = part.key
        for others in self._candidates(part):
            parts = {**others, part.number: part.segment}
            if len(parts) != count or sum(one.size for one in parts.values()) != size:
                continue
            if part.pointers is None or part.pointers.crc == _crc([parts[number] for number in range(count)]):
                return min(one.offset for one in parts.values())
        return None

    def _candidates(self, part: _SeenPart) -> Iterator[dict[int, _Seen]]:
        """The other segments: where they are that the carrier points to, or those that are nearest."""
        if not part.is_carrier:
            yield self.first
            return
        if part.pointers is not None:
            pointed = ((number, self.by_offset.get(offset)) for number, offset in enumerate(part.pointers.offsets))
            yield {number: one[1] for number, one in pointed if one is not None and one[0] == number}
        yield self.last

    def add(self, part: _SeenPart) -> None:
        self.by_offset[part.segment.offset] = part.number, part.segment
        self.first.setdefault(part.number, part.segment)
        self.last[part.number] = part.segment


def _crc(parts: Sequence[_Seen]) -> int:
    whole = 0
    for one in parts:
        whole = joined(whole, one.crc, one.size)
    return whole


def _note(part: _SeenPart, intervals: Intervals, at_broker: PartitionLog, messages: dict[Key, _Message]) -> None:
    """One part that follows those before."""
    tracked = at_broker.settings.max_tracked
    topic, partition, message_id = at_broker.topic, at_broker.partition, part.key[0]
    message = messages.setdefault(part.key, _Message())
    is_new = part.number not in message.first
    start = message.start(part) if part.is_carrier or (is_new and part.may_complete) else None
    message.add(part)
    offset = part.segment.offset
    if start is not None:
        intervals.complete(topic, partition, message_id, start, offset, tracked)
    elif not part.is_carrier:
        intervals.see_slice(topic, partition, message_id, offset, tracked)
    elif part.pointers is not None:  # to what is before the gap, or a lie: it ends itself alone
        own = message_id + offset.to_bytes(8, "big")
        intervals.complete(topic, partition, own, min(part.pointers.offsets, default=offset), offset, tracked)


def _parts(at_broker: PartitionLog, data: bytes | memoryview) -> tuple[int, list[_SeenPart]]:
    """The offset after what was read, and the parts in it. No consumer gets what cannot be looked into."""
    end, parts = -1, list[_SeenPart]()
    for batch, visibility in all_visible(cut_read(data)):
        if visibility is SHOWN:
            try:
                _, found = at_broker.parts_of(batch, at_broker.settings.max_message + RECORD_BYTES)
            except CodecError:
                found = {}
            parts += [_seen(part) for part in found.values() if isinstance(part, Part) and part.segment.count > 1]
        end = offsets_of(batch)[1] + 1
    return end, parts


def _seen(part: Part) -> _SeenPart:
    one = part.segment
    seen = _Seen(part.offset, len(one.payload), crc32c(one.payload) if one.crc is None else one.crc)
    key = one.message_id, one.count, one.size
    return _SeenPart(key, one.number, part.may_complete, part.is_carrier, part.pointers, seen)
