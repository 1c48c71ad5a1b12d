"""What producers are given, what they report, and what readers get, in words that all client libraries share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

Headers = tuple[tuple[str, bytes | None], ...]
Library = Literal["librdkafka", "java", "aiokafka"]
End = Literal["commit", "abort"]
MAX_SHOWN = 60  # bytes; a longer value is shown by its size and its hash, so that no message has megabytes


def shown(data: bytes | None) -> str:
    """Bytes as text: equal for equal bytes alone, and short. tests/jvm/java/Scripted.java does the same.

    >>> shown(None), shown(b""), shown(b"a")
    ('null', '', '61')
    """
    if data is None:
        return "null"
    return data.hex() if len(data) <= MAX_SHOWN else f"{len(data)} bytes {hashlib.sha256(data).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a producer is given it."""

    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def does(self) -> str:
        """What interceptors do with it: header `do`."""
        return next(((content or b"").decode() for name, content in self.headers if name == "do"), "")

    @property
    def id(self) -> str:
        """Header `id`, for messages."""
        return next(((content or b"").decode() for name, content in self.headers if name == "id"), "?")


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that a producer sends as one batch."""

    partition: int
    records: tuple[Record, ...]
    segments: tuple[Record, ...] = ()  # what is sent in place of the only record: a message of li


@dataclass(frozen=True, slots=True)
class Script:
    """What one producer sends: batches, each waited for, in transactions where there are any."""

    name: str
    library: Library
    codec: str
    steps: tuple[Batch | Transaction, ...]

    @property
    def is_transactional(self) -> bool:
        return any(isinstance(step, Transaction) for step in self.steps)


@dataclass(frozen=True, slots=True)
class Transaction:
    """Batches that are committed or aborted together."""

    batches: tuple[Batch, ...]
    end: End


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a producer got for a record: its offset, or the name of Kafka's error."""

    offset: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch that was sent, and what its producer got for each record."""

    batch: Batch
    outcomes: tuple[Outcome, ...]
    producer: str
    library: Library
    end: End | None = None  # of its transaction
    transaction: str = ""  # which one it is


@dataclass(frozen=True, slots=True)
class Seen:
    """A record as a reader gets it; bytes as `shown`."""

    partition: int
    offset: int
    key: str
    value: str
    headers: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, partition: int, offset: int, key: bytes | None, value: bytes | None, headers: Headers) -> Seen:
        return cls(partition, offset, shown(key), shown(value), tuple((name, shown(one)) for name, one in headers))


@dataclass(slots=True)
class Read:
    """What one reader got, in its order, and where it was at the end."""

    seen: list[Seen] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    half: dict[int, int] = field(default_factory=dict)  # of a group: where another consumer went on
    committed: dict[int, int] = field(default_factory=dict)  # as the group fetches it
    denied: set[str] = field(default_factory=set)  # errors of the topic that is denied
    throttled_ms: float = 0.0  # by the broker's quota, where the client tells
