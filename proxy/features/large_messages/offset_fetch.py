"""OffsetFetch: what the group's clients have committed, in place of what is stored for consumers of li.

A response without a comma has no stored form of li's, and is not decoded. Metadata that only looks like that form is
the client's own: a group may have written it before its topic had large messages. A number above the stored offset is
believed if a segment of a large message is stored at that offset, which is read where this process does not know it.
What cannot be read is not believed: records are read twice then, and none is skipped. If the log begins between the two
offsets, the client begins there: at the stored one it would be out of range, and at the other one it may skip records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import first_version, replace_fields
from kafka_sidecar.codec.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from kafka_sidecar.codec.visibility import SHOWN, all_visible, offsets_of
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.large_messages.classify import Part
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.offsets import Committed, is_plausible, unwrap
from kafka_sidecar.large_messages.partition_log import RECORD_BYTES, PartitionLog, cut_read
from kafka_sidecar.large_messages.reading import UnreadableError, compute
from kafka_sidecar.large_messages.settings import Offsets, TopicSettings
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import MessageRun, OpenMessage, resolve
from kafka_sidecar.proxy.features.large_messages.offset_stage import is_li_client
from kafka_sidecar.proxy.features.large_messages.reads import Reads
from kafka_sidecar.proxy.features.large_messages.services import AssemblyServices
from kafka_sidecar.proxy.relay.exchange import Client

NoteResumed = Callable[[str, int, int, int], None]  # topic, partition, S, C
Refused = Callable[[str, int, int, str], None]  # topic, partition, the stored offset, why

FIRST_WITH_GROUPS = first_version(OffsetFetchResponse, "groups")
FIRST_WITH_IDS = first_version(OffsetFetchResponseTopics, "topic_id")
FETCH = 12  # the last version that names topics, which every supported broker has; all replicas respond to it
MAX_READS = 100  # for one response
# Why a number is not believed: label values of a metric.
TOO_FAR, NO_SEGMENT, UNREAD, DELETED = "too_far", "no_segment", "unread", "deleted"


class Claim(NamedTuple):
    """A stored offset that may be li's."""

    topic: str
    partition: int
    safe: int
    committed: int


@dataclass(frozen=True, slots=True)
class StoredOffsets:
    """The stage of OffsetFetch that reads every response, but those to clients of li."""

    find: Callable[[str], TopicSettings | None]  # the settings of a topic; None: it has no large messages
    services: AssemblyServices
    intervals: Intervals
    refused: Refused
    note_resumed: NoteResumed  # gets S and C of a partition of a topic with ``strict-li``, where they differ

    def __call__(self, client: Client, version: int) -> StoredOffsetsRun | None:
        versions = OffsetFetchResponse.declaration_.versions
        if versions is None or version not in versions or is_li_client(client.client_id, self.services.li_clients):
            return None
        return StoredOffsetsRun(self, client, version)

    def mode(self, topic: str) -> Offsets:
        """How offsets of a topic are stored."""
        settings = self.find(topic)
        return settings.offsets if settings is not None else "plain"


class StoredOffsetsRun(MessageRun):
    """One OffsetFetch and its response."""

    __slots__ = ("_believed", "_client", "_log_starts", "_shared", "_version")

    def __init__(self, shared: StoredOffsets, client: Client, version: int) -> None:
        self._shared = shared
        self._client = client
        self._version = version
        self._believed: set[Claim] = set()
        self._log_starts: dict[Claim, int] = {}  # that are between the two offsets

    @property
    def wants_response(self) -> bool:
        return True

    def response(self, response: OpenMessage) -> Steps[None]:
        if b"," not in (yield from response.frame()):
            return
        message = yield from response.read(OffsetFetchResponse)
        if self._version >= FIRST_WITH_IDS:
            topics = (topic for group in message.groups for topic in group.topics)
            ids = [topic.topic_id for topic in topics if any(map(_is_changed, topic.partitions))]
            yield from resolve(sorted(ids), self._shared.services.name_of)
        claims = yield from offload(lambda: list(dict.fromkeys(self._claims(message))), response.elements)
        if claims:
            yield from self._verify(claims)
        response.replace((yield from offload(partial(self._restored, message), response.elements)))
        for one in self._believed:
            if self._shared.mode(one.topic) == "strict-li":
                self._shared.note_resumed(*one)

    def _claims(self, message: OffsetFetchResponse) -> Iterator[Claim]:
        """The numbers that are above the stored offset."""
        groups: Iterable[Any] = message.groups if self._version >= FIRST_WITH_GROUPS else (message,)
        for topic in (topic for group in groups for topic in group.topics):
            name = self._name_of(topic)
            if name is None or self._shared.mode(name) == "plain":
                continue
            for one in topic.partitions:
                committed = unwrap(_stored(one))
                if committed is not None and committed.offset > one.committed_offset:
                    yield Claim(name, one.partition_index, one.committed_offset, committed.offset)

    def _verify(self, claims: Collection[Claim]) -> Steps[None]:
        """Find out which numbers are li's."""
        shared, services = self._shared, self._shared.services
        reads = Reads(self._client, FETCH, services.time_limit, services.stopwatch, None)
        left = MAX_READS
        for one in claims:
            settings = shared.find(one.topic)
            assert settings is not None
            topic_id = services.id_of(one.topic)
            key = one.topic if topic_id == NO_ID else topic_id
            why: str | None = None
            if not is_plausible(one.safe, Committed(one.committed, ""), settings.look_back):
                why = TOO_FAR
            elif not shared.intervals.begins(key, one.partition, one.safe):
                why = UNREAD
                if left > 0:
                    left -= 1
                    log = services.log(one.topic, key, one.partition, settings, is_committed_only=False)
                    doubt = _doubt(log, one.safe, one.committed)
                    why, log_start = yield from reads.perform(doubt, one.topic, one.partition)
                    if one.safe < log_start <= one.committed:
                        why, self._log_starts[one] = DELETED, log_start
            if why is None:
                self._believed.add(one)
            else:
                shared.refused(one.topic, one.partition, one.safe, why)

    def _restored(self, message: OffsetFetchResponse) -> OffsetFetchResponse:
        """The message with the offsets that clients have committed."""
        if self._version < FIRST_WITH_GROUPS:
            return replace_fields(message, topics=tuple(map(self._topic, message.topics)))
        return replace_fields(message, groups=tuple(map(self._group, message.groups)))

    def _group(self, group: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        return replace_fields(group, topics=tuple(map(self._topic, group.topics)))

    def _topic(self, topic: Any) -> Any:
        name = self._name_of(topic)
        if name is None or self._shared.mode(name) == "plain":
            return topic
        return replace_fields(topic, partitions=tuple(self._partition(name, one) for one in topic.partitions))

    def _partition(self, topic: str, partition: Any) -> Any:
        """A partition of a response as the client is to get it; the leader epoch stays."""
        committed, safe = unwrap(_stored(partition)), partition.committed_offset
        if committed is None:
            return partition
        if committed.offset > safe:
            claim = Claim(topic, partition.partition_index, safe, committed.offset)
            if (log_start := self._log_starts.get(claim)) is not None:
                return replace_fields(partition, committed_offset=log_start)
            is_li = claim in self._believed
        else:
            is_li = is_plausible(safe, committed, 0, self._shared.mode(topic) == "strict-li")
        if not is_li:
            return partition
        return replace_fields(partition, committed_offset=committed.offset, metadata=committed.metadata)

    def _name_of(self, topic: Any) -> str | None:
        if self._version >= FIRST_WITH_IDS:
            return self._shared.services.name_of(topic.topic_id)
        name: str = topic.name
        return name


def _stored(partition: Any) -> Committed:
    return Committed(partition.committed_offset, partition.metadata or "")


def _is_changed(partition: Any) -> bool:
    return unwrap(_stored(partition)) is not None


def _doubt(at_broker: PartitionLog, safe: int, committed: int) -> Steps[tuple[str | None, int]]:
    """Why no segment of a large message is known to be stored at S, None: it is one; and where the log begins, where S
    is out of range.
    """
    try:
        fetched = yield from at_broker.read(safe, 1)
        if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return UNREAD, (yield from at_broker.read(committed, 1)).log_start_offset
        if not len(fetched.records):
            return UNREAD, -1
        is_segment = yield from compute(partial(_is_segment, at_broker, fetched.records, safe), fetched.records)
    except (UnreadableError, TimeoutError):
        return UNREAD, -1
    return (None if is_segment else NO_SEGMENT), -1


def _is_segment(at_broker: PartitionLog, data: bytes | memoryview, offset: int) -> bool:
    for batch, visibility in all_visible(cut_read(data)):
        if offsets_of(batch)[1] < offset:
            continue
        if visibility is not SHOWN:
            return False
        try:
            _, parts = at_broker.parts_of(batch, at_broker.settings.max_message + RECORD_BYTES)
        except CodecError as error:
            raise UnreadableError(ErrorCode.CORRUPT_MESSAGE) from error
        found = (one for one in parts.values() if isinstance(one, Part) and one.offset == offset)
        return any(one.segment.count > 1 for one in found)
    return False
