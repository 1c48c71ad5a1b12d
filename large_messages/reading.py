"""What assembling a partition needs from outside: reads of its log, and long work in a thread.

All of it is plain values: a generator yields a `Read` or `Compute` and gets the result back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka_sidecar.codec.messages.fetch import AbortedTransaction

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MAX_INLINE_BYTES = 1 << 20  # to be looked into while others wait
READ_BYTES = 16 << 20  # of one read: a longer one would hold up the connection's other responses


@dataclass(frozen=True, slots=True)
class Read:
    """Read the partition from ``offset`` on: at least one batch, about ``max_bytes``. Answered with `Fetched`."""

    offset: int
    max_bytes: int
    committed_only: bool = False


@dataclass(frozen=True, slots=True)
class Fetched:
    """What the broker has responded to a `Read`."""

    error_code: int
    records: bytes | memoryview = b""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Collection[AbortedTransaction] = ()


@dataclass(frozen=True, slots=True)
class ReadObject:
    """Read an object of at most ``max_size`` bytes from the object store. Answered with None: there is none."""

    key: str
    max_size: int


@dataclass(frozen=True, slots=True)
class Compute:
    """Call ``run`` in a thread; its result is the response."""

    run: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """Let others have a turn."""


PAUSE = Pause()

Reading = Generator[Read | ReadObject | Compute | Pause, Any, T_co]


def compute(run: Callable[[], T], data: bytes | memoryview) -> Reading[T]:
    """The result of work on so many bytes, in a thread if it takes long."""
    if len(data) <= MAX_INLINE_BYTES:
        return run()
    result: T = yield Compute(run)
    return result


class LateError(Exception):
    """The client must get its response now. Raised in place of a `Read`."""


class UnreadableError(Exception):
    """The broker does not let the log be read now; the client may try again."""

    def __init__(self, error_code: int) -> None:
        super().__init__(f"the broker has responded with error {error_code}")
        self.error_code = error_code
