"""Logs with large messages, as producers have written them, and what assembling reads of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from crc32c import crc32c

from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.records import Header, NewRecord, batches, build_batch
from kafka_sidecar.large_messages.back_pointers import BackPointers
from kafka_sidecar.large_messages.cache import SegmentCache, Unfinished
from kafka_sidecar.large_messages.classify import Reader
from kafka_sidecar.large_messages.delivery import Delivery, ResponseRoom
from kafka_sidecar.large_messages.lm_header import V3, LmHeader
from kafka_sidecar.large_messages.partition_log import PartitionLog
from kafka_sidecar.large_messages.reading import Fetched, Read, Report
from kafka_sidecar.large_messages.segment_index import SegmentIndex
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Steps, Turn, Work

T = TypeVar("T")
TOPIC_ID = bytes(range(16))
TRANSACTIONAL = 0x10
OUT_OF_RANGE = 1
ABORTED_PID = 7


def message_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def lm(id_: bytes, number: int, count: int, size: int) -> Header:
    return Header("_lm", LmHeader(V3, id_, number, count, size).encode())


def cut(value: bytes, count: int) -> list[bytes]:
    """A value as ``count`` slices, the last of which has one byte."""
    head, size = value[:-1], -(-(len(value) - 1) // (count - 1))
    return [*(head[at : at + size] for at in range(0, len(head), size)), value[-1:]]


def sliced(value: bytes, count: int, id_: bytes, codec: int = 0, key: bytes | None = None) -> list[bytes]:
    """The slices of a message but the last, each a batch at the offset 0."""
    return [
        build_batch([NewRecord(part, key, (lm(id_, at, count, len(value)),))], codec=codec)
        for at, part in enumerate(cut(value, count)[:-1])
    ]


def carrier_record(
    value: bytes,
    count: int,
    id_: bytes,
    offsets: Iterable[int],
    key: bytes | None = b"key",
    headers: Iterable[Header] = (),
    topic_id: bytes = TOPIC_ID,
    crc: int | None = None,
) -> NewRecord:
    """The record that has the last slice, and the pointers to the others."""
    pointers = BackPointers(topic_id, crc32c(value) if crc is None else crc, tuple(offsets))
    ours = lm(id_, count - 1, count, len(value)), Header("_lmr", pointers.encode())
    return NewRecord(value[-1:], key, (*headers, *ours))


@dataclass
class Log(Report):
    """A partition's log. Batches are appended at its end, at the offsets that they get there."""

    batches: list[bytes] = field(default_factory=list)
    end: int = 0
    start: int = 0
    reads: list[Read] = field(default_factory=list)
    error_code: int = 0  # of all reads
    is_empty: bool = False  # whether reads get no records
    turns: int = 0
    works: int = 0
    late_work: int | None = None  # the one for which no thread has time
    late_after: int | None = None  # reads: then the client must get its response
    failures: dict[int, Fetched | TimeoutError] = field(default_factory=dict)  # what comes of one read, by its number
    max_read: int | None = None  # bytes
    reports: list[tuple[object, ...]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)  # that were reported as seen

    def append(self, data: bytes) -> int:
        """Its base offset."""
        base, count = self.end, batches(data)[0].header.last_offset_delta + 1
        self.batches.append(base.to_bytes(8, "big") + data[8:])
        self.end += count
        return base

    def add(self, *values: bytes | None, key: bytes | None = b"key") -> int:
        """A batch of ordinary records."""
        return self.append(build_batch([NewRecord(value, key) for value in values]))

    def add_large(self, value: bytes, count: int, number: int, codec: int = 0, **carrier: object) -> int:
        """The slices and the carrier of a message, in batches of their own; the offset of the carrier."""
        offsets = [self.append(one) for one in sliced(value, count, message_id(number), codec)]
        record = carrier_record(value, count, message_id(number), offsets, **carrier)  # type: ignore[arg-type]
        return self.append(build_batch([record], codec=codec))

    def add_segments(self, value: bytes, count: int, number: int, order: Iterable[int]) -> list[int]:
        """Segments of li, with keys and without pointers, each in its batch; their offsets."""
        parts = cut(value, count)
        id_ = message_id(number)
        return [
            self.append(build_batch([NewRecord(parts[at], b"key", (lm(id_, at, count, len(value)),))])) for at in order
        ]

    def delete_before(self, offset: int) -> None:
        """As retention or DeleteRecords do, batch by batch."""
        self.start = offset
        self.batches = [one for one in self.batches if batches(one)[0].header.base_offset >= offset]

    def fetch(self, offset: int, max_bytes: int) -> bytes:
        """At least one batch, if there is one."""
        found = b""
        for data in self.batches:
            header = batches(data)[0].header
            if header.base_offset + header.last_offset_delta < offset:
                continue
            if found and len(found) + len(data) > max_bytes:
                return found + data[: max_bytes - len(found)]  # a batch that is cut off
            found += data
        return found

    def respond(self, read: Read) -> Fetched:
        self.reads.append(read)
        failed = self.failures.pop(len(self.reads) - 1, None)
        if isinstance(failed, TimeoutError):
            raise failed
        if failed is not None:
            return failed
        if self.error_code:
            return Fetched(self.error_code)
        if self.is_empty:
            return Fetched(0, b"", self.end, self.end, self.start)
        if not self.start <= read.offset <= self.end:
            return Fetched(OUT_OF_RANGE)
        records = self.fetch(read.offset, min(read.max_bytes, self.max_read or read.max_bytes))
        return Fetched(0, records, self.end, self.end, self.start, self.aborted if read.committed_only else ())

    def run(self, reading: Steps[T]) -> T:
        """The result of a reading."""
        result: object = None
        error: Exception | None = None
        while True:
            try:
                need = reading.send(result) if error is None else reading.throw(error)
            except StopIteration as done:
                value: T = done.value
                return value
            result = error = None
            if isinstance(need, Read):
                try:
                    if len(self.reads) == self.late_after:
                        raise TimeoutError
                    result = self.respond(need)
                except TimeoutError as late:
                    error = late
            elif isinstance(need, Turn):
                self.turns += 1
            elif isinstance(need, Work):
                self.works += 1
                if self.works == self.late_work:
                    error = TimeoutError()
                    continue
                try:
                    result = need.run()
                except Exception as failure:  # noqa: BLE001 - as a thread hands it over
                    error = failure

    # What is reported

    def read(self, size: int) -> None:
        self.counts["read"] += size

    def looked_back(self) -> None:
        self.counts["looked_back"] += 1

    def hidden(self, offset: int, message_id: bytes) -> None:
        self.reports.append(("hidden", offset))

    def assembled(self, message_id: bytes, start: int, end: int, size: int) -> None:
        self.reports.append(("assembled", start, end, size))

    def was_aborted(self, offset: int, message_id: bytes) -> None:
        self.reports.append(("aborted", offset))

    def seen(self, start: int, end: int) -> None:
        self.ranges.append((start, end))

    def withheld(self, offset: int, reason: str) -> None:
        self.reports.append(("withheld", offset, reason))

    def dropped(self, offset: int, reason: str, message_id: bytes | None) -> None:
        self.reports.append(("dropped", offset, reason))


@dataclass
class Process:
    """What a process keeps for one partition."""

    log: Log
    settings: TopicSettings = field(default_factory=TopicSettings)
    cache: SegmentCache = field(default_factory=lambda: SegmentCache(32_000_000))
    index: SegmentIndex = field(default_factory=SegmentIndex)
    unfinished: Unfinished = field(default_factory=lambda: Unfinished(1 << 30))
    topic: bytes | str = TOPIC_ID
    resumed: Callable[[int], list[tuple[int, int]]] | None = None

    def partition(self, is_committed_only: bool = False) -> PartitionLog:
        reader = Reader("orders", self.settings.deserializer)
        return PartitionLog(
            self.topic, 0, self.settings, reader, self.cache, self.index, is_committed_only, self.log, 1_000_000,
            self.resumed,
        )  # fmt: skip

    def delivery(
        self,
        offset: int = 0,
        max_bytes: int = 1 << 20,
        room: ResponseRoom | None = None,
        is_committed_only: bool = False,
        inflate_limit: int = 100 << 20,
    ) -> Delivery:
        response = room or ResponseRoom(50 << 20, _reserve_nothing)
        return Delivery(self.partition(is_committed_only), self.unfinished, response, offset, max_bytes, inflate_limit)

    def fetch(
        self,
        offset: int = 0,
        max_bytes: int = 1 << 20,
        room: ResponseRoom | None = None,
        aborted: Collection[AbortedTransaction] | None = None,
        inflate_limit: int = 100 << 20,
    ) -> Delivery:
        """One Fetch of a client, all of whose response has been processed."""
        delivery = self.delivery(offset, max_bytes, room, aborted is not None, inflate_limit)
        self.log.run(delivery.feed(self.log.fetch(offset, max_bytes), aborted or ()))
        return delivery


def shown(data: bytes | memoryview | None, offset: int = 0) -> list[tuple[int, bytes | None]]:
    """The offsets and values that a consumer shows of the records that it gets."""
    return [
        (batch.header.base_offset + record.offset_delta, record.value)
        for batch in batches(data or b"")
        if not batch.header.is_control
        for record in batch.records()
        if batch.header.base_offset + record.offset_delta >= offset
    ]


def consume(
    process: Process,
    offset: int = 0,
    max_bytes: int = 1 << 20,
    is_committed_only: bool = False,
    retries: int = 0,
) -> list[tuple[int, bytes | None]]:
    """All that a consumer shows that reads from an offset to the end of the log.

    ``retries``: how often it may have to ask for the same offset again.
    """
    found: list[tuple[int, bytes | None]] = []
    while offset < process.log.end:
        delivery = process.fetch(offset, max_bytes, aborted=process.log.aborted if is_committed_only else None)
        data = delivery.records(with_marker=True)
        if data is None:
            data = process.log.fetch(offset, max_bytes)
        cut_apart = batches(data, may_end_early=True)
        kept = [one for one in cut_apart if not (is_committed_only and one.header.producer_id == ABORTED_PID)]
        found += shown(b"".join([bytes(one.data) for one in kept]), offset)
        following = max([one.header.base_offset + one.header.last_offset_delta + 1 for one in cut_apart], default=0)
        if following <= offset:
            assert retries > 0, "the consumer would ask for the same offset again"
            assert delivery.cut_at == offset, "nothing says that there is more"
            retries -= 1
            continue
        offset = following
    return found


def _reserve_nothing(size: int) -> None:
    """Memory is not limited."""


Reserve = Callable[[int], None]


VALUE = bytes(range(256)) * 40  # 10 KB
FIVE = VALUE[:5000]


def room(left: int = 1 << 20) -> ResponseRoom:
    return ResponseRoom(left, lambda size: None)


def large_log() -> Log:
    """first, 1 to 5: VALUE, 6 to 9: FIVE, a, b."""
    log = Log()
    log.add(b"first")
    log.add_large(VALUE, 5, 1)
    log.add_large(FIVE, 4, 2)
    log.add(b"a", b"b")
    return log


SHOWN = [(0, b"first"), (5, VALUE), (9, FIVE), (10, b"a"), (11, b"b")]
