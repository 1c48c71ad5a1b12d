"""The batches of a partition with its large messages whole, assembled by the code that the proxy uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka_sidecar.codec.records import Batch, NewRecord, batches, build_batch
from kafka_sidecar.codec.visibility import offsets_of
from kafka_sidecar.large_messages.cache import SegmentCache, Unfinished
from kafka_sidecar.large_messages.classify import Reader
from kafka_sidecar.large_messages.delivery import Delivery, ResponseRoom
from kafka_sidecar.large_messages.partition_log import PartitionLog
from kafka_sidecar.large_messages.reading import Fetched, Read
from kafka_sidecar.large_messages.segment_index import SegmentIndex
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Steps, Work

NO_LIMIT = 1 << 62

# Reads a partition from an offset on.
ReadLog = Callable[[Read], Fetched]


class MissingError(Exception):
    """A large message cannot be assembled, in a topic with `on_missing: fail`. The text says which."""


@dataclass(slots=True)
class Counts:
    """What became of the large messages of one partition; a `Report`."""

    assembled_messages: int = 0
    hidden_segments: int = 0
    dropped_messages: int = 0
    unreadable_batches: int = 0
    last_drop: str = ""

    def read(self, size: int) -> None:
        """Nothing is counted of reads."""

    def looked_back(self) -> None:
        """Nor of what is read before a message."""

    def hidden(self, offset: int, message_id: bytes) -> None:
        self.hidden_segments += 1

    def assembled(self, message_id: bytes, start: int, end: int, size: int) -> None:
        self.assembled_messages += 1

    def was_aborted(self, offset: int, message_id: bytes) -> None:
        """Readers of all records have none."""

    def seen(self, start: int, end: int) -> None:
        """The whole log is read."""

    def withheld(self, offset: int, reason: str) -> None:
        self.unreadable_batches += 1

    def dropped(self, offset: int, reason: str, message_id: bytes | None) -> None:
        self.dropped_messages += 1
        self.last_drop = f"offset {offset}: a large message is {reason}"


@dataclass(slots=True)
class WholeMessages:
    """Assembles the large messages of one partition. Segments stay where they are: they are read again if need be."""

    topic: str
    partition: int
    settings: TopicSettings
    read_log: ReadLog
    cache_bytes: int
    inflate_limit: int  # bytes that a batch may have
    max_records: int  # of a batch
    counts: Counts = field(default_factory=Counts)

    def batches(self, found: Iterable[Batch]) -> Iterator[Batch]:
        """These batches, in their order: segments are hidden, and each message is where its last segment is.

        Records that a client has sent in one batch are in one batch again.

        Raises:
            CodecError: a batch cannot be read.
            MissingError: a message cannot be assembled.
        """
        log = PartitionLog(
            self.topic, self.partition, self.settings, Reader(self.topic, self.settings.deserializer),
            SegmentCache(self.cache_bytes), SegmentIndex(), False, self.counts, self.max_records,
        )  # fmt: skip
        next_offset, unfinished = -1, Unfinished(0)
        for batch in found:
            room = ResponseRoom(NO_LIMIT, lambda size: None)
            unreadable = self.counts.unreadable_batches
            delivery = Delivery(log, unfinished, room, 0, NO_LIMIT, self.inflate_limit, next_offset)
            self._run(delivery.feed(batch.data, ()))
            if self.counts.unreadable_batches > unreadable:  # who reads its records gets the CodecError
                next_offset = offsets_of(batch)[1] + 1
                yield batch
                continue
            if delivery.cut_at is not None:  # there is room for all, so nothing else ends it
                raise MissingError(f"{self.topic}, partition {self.partition}, {self.counts.last_drop}")
            next_offset = delivery.next_offset
            shown = delivery.records(with_marker=False)
            if shown is None:
                yield batch
            elif shown:
                yield self._joined(batch, batches(bytes(shown)))

    def _run(self, steps: Steps[None]) -> None:
        response: Any = None
        while True:
            try:
                step = steps.send(response)
            except StopIteration:
                return
            match step:
                case Read():
                    response = self.read_log(step)
                case Work():
                    response = step.run()
                case _:
                    response = None

    def _joined(self, batch: Batch, parts: list[Batch]) -> Batch:
        """One batch, as the client has sent it: in a response each large message is in one of its own."""
        if len(parts) == 1:
            return parts[0]
        old, records = batch.header, list[NewRecord]()
        for part in parts:
            shift = part.header.base_offset - old.base_offset
            records += [
                NewRecord(one.value, one.key, one.headers, one.timestamp_delta, one.offset_delta + shift)
                for one in part.records(NO_LIMIT, self.max_records)
            ]
        data = build_batch(
            records, attributes=old.attributes, base_offset=old.base_offset, leader_epoch=old.leader_epoch,
            last_offset_delta=old.last_offset_delta, base_timestamp=old.base_timestamp,
            max_timestamp=old.max_timestamp, producer_id=old.producer_id, producer_epoch=old.producer_epoch,
            base_sequence=old.base_sequence,
        )  # fmt: skip
        return batches(data)[0]
