"""Limits of the requests that exchanges look into, and how the work on many partitions lets others have a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kafka_sidecar.proxy.relay.exchange import TURN, Client, RouteError, Steps, Work

T = TypeVar("T")
PARTITIONS_PER_TURN = 64
MAX_INLINE_ELEMENTS = 1000  # of a message, to be decoded and encoded while others wait
MAX_INLINE_BYTES = 64 << 10  # of a frame of which a part is read


@dataclass(frozen=True, slots=True)
class Limits:
    """Beyond what any honest client sends."""

    max_partitions: int = 10_000  # of a request; as many topics
    max_records: int = 1_000_000  # of a batch that is inflated
    max_response: int = (1 << 31) - 1  # bytes that a broker is asked for, of a response that is buffered


DEFAULT_LIMITS = Limits()


class Guard(Protocol):
    """The stage of authorization, as those see it who decide what is relayed."""

    def allows(self, client: Client, transactional_id: str | None, topics: Sequence[str | bytes]) -> bool:
        """Whether a client may do all that a request needs that names these topics (16-byte ids where it has ids).

        True holds as long as its principal and the rules stay: the request need not be looked into for that.
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
