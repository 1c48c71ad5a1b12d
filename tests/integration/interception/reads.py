"""What the only member of a group sees of some topics when it reads them to their ends and commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

Isolation = Literal["read_uncommitted", "read_committed"]
ISOLATIONS: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")
Header = tuple[str, bytes | None]
Partition = tuple[str, int]
OWN = "own"  # metadata of what is committed in a transaction


class Seen(NamedTuple):
    """One record as an application gets it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class How:
    """In which way it reads and commits; what a client does not have it leaves out."""

    isolation: Isolation = "read_uncommitted"
    protocol: Literal["classic", "consumer"] = "classic"
    transactional_id: str | None = None  # commits in a transaction
    fetch_bytes: int = 1 << 20  # of one partition in one answer


@dataclass(slots=True)
class Read:
    records: list[Seen] = field(default_factory=list)
    positions: dict[Partition, int] = field(default_factory=dict)

    def of(self, topic: str, partition: int = 0) -> list[Seen]:
        return [record for record in self.records if (record.topic, record.partition) == (topic, partition)]

    def values(self, topic: str, partition: int = 0) -> Iterator[bytes | None]:
        return (record.value for record in self.of(topic, partition))


class Reader(Protocol):
    """A consumer of one client library."""

    def __call__(self, bootstrap: str, topics: Sequence[str], group: str, how: How) -> Read: ...
