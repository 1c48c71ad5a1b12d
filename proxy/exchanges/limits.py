"""Limits of what exchanges look into, what is done in a thread, and how the rest lets others have a turn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafka_sidecar.plugins.effects import TURN, Steps, Work
from kafka_sidecar.proxy.relay.acks import ProduceHead
from kafka_sidecar.proxy.relay.exchange import Client, RouteError

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Batch  # which a sidecar that relays does not need

T = TypeVar("T")
PARTITIONS_PER_TURN = 64
MAX_INLINE_ELEMENTS = 1000  # of a message, to be decoded and encoded while others wait
MAX_INLINE_FRAME = 64 << 10  # bytes, of a frame that is walked without decoding it


@dataclass(frozen=True, slots=True)
class Limits:
    """Beyond what any honest client sends."""

    max_partitions: int = 10_000  # of a request; as many topics
    max_records: int = 1_000_000  # of a batch that is inflated
    max_response: int = (1 << 31) - 1  # bytes that a broker is asked for, of a response that is buffered


DEFAULT_LIMITS = Limits()


class Guard(Protocol):
    """A stage that decides by what stands before the records, as those see it who decide what is relayed."""

    def allows(self, client: Client, head: ProduceHead, topics: Sequence[str | bytes]) -> bool:
        """Whether a client may do all that a request needs that names these topics (16-byte ids where it has ids).

        True holds as long as the client's principal and software, and the configuration stay: the request, and those
        that begin alike, need not be looked into for that.
        """
        ...


def offload(work: Callable[[], T], partitions: int) -> Steps[T]:
    """The result of work on so many partitions, which is done in a thread if it takes long."""
    if partitions > MAX_INLINE_ELEMENTS:
        result: T = yield Work(work, is_light=True)
        return result
    if partitions > PARTITIONS_PER_TURN:
        yield TURN
    return work()


def duplicate_partition(topic: str | bytes, partition: int) -> RouteError:
    """A Produce that names a partition twice: a broker writes the last one alone, and its response is for both."""
    name = topic if isinstance(topic, str) else topic.hex()
    return RouteError("duplicate_partition", f"partition {partition} of topic {name[:249]} is twice in one request")


# Compressed bytes from which on a batch is inflated in a thread: there the hop costs little beside the work. By codec;
# an unknown one is rejected without any.
MIN_OFFLOADED_BYTES = {0: 1 << 20, 1: 64 << 10, 2: 512 << 10, 3: 512 << 10, 4: 64 << 10}
MAX_INLINE_BYTES = 1 << 20  # inflated; a small batch that holds more is begun again in a thread
# The same for consumers' interceptors: mask_fields takes up to 400 ns for a byte of nested arrays, 200 of small fields.
MAX_INLINE_CONSUMED_BYTES = 64 << 10

# A thread is kept for batches up to these; they never wait for large ones of other connections.
MAX_LIGHT_BYTES, MAX_LIGHT_RECORDS = 1 << 20, 10_000
MAX_LIGHT_INFLATED = 8 << 20  # bytes; a batch that holds more is begun again by a thread for long work
LIGHT_TURNS = 10  # of the event loop, which their records would take there


def takes_long(batch: Batch, max_records: int) -> bool:
    """Whether to look into the batch would hold up all others."""
    header = batch.header
    return header.count > max_records or len(batch.data) >= MIN_OFFLOADED_BYTES.get(header.codec, sys.maxsize)


def is_light(batch: Batch, records_at_once: int = MAX_LIGHT_RECORDS) -> bool:
    """Whether to look into the batch, in a thread, is soon done. So many of its records fit into a turn of the loop."""
    return are_light(batch.header.count, records_at_once) and len(batch.data) <= MAX_LIGHT_BYTES


def are_light(count: int, records_at_once: int) -> bool:
    """The same for a number of records, whatever their size."""
    return count <= MAX_LIGHT_RECORDS and count <= LIGHT_TURNS * records_at_once
