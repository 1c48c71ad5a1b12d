"""The results of the demo: which records were acknowledged and read, and whether all used the sidecar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

Addresses = set[str]  # host:port


@dataclass(frozen=True, slots=True)
class Finding:
    """One result, and whether it is as expected."""

    is_good: bool
    sentence: str


@dataclass(slots=True)
class Ledger:
    """Which records were sent, acknowledged and read, by the number in the key."""

    sent: int = 0
    acknowledged: set[int] = field(default_factory=set)
    read: Counter[int] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        """Whether all sent records were acknowledged and read."""
        return self.sent == len(self.acknowledged) == len(self.read)

    def was_delivered(self, error: KafkaError | None, message: Message) -> None:
        """Called by the producer for each record."""
        if error is None:
            self.acknowledged.add(number_of(message))
        else:
            self.errors.append(str(error))

    def was_read(self, message: Message) -> None:
        if message.error() is None:
            self.read[number_of(message)] += 1
        else:
            self.errors.append(str(message.error()))

    def findings(self) -> Iterator[Finding]:
        lost, twice = self.sent - len(self.read), self.read.total() - len(self.read)
        yield Finding(
            self.sent > 0 and self.is_settled,
            f"{self.sent:,} records sent, {len(self.acknowledged):,} acknowledged, {len(self.read):,} read",
        )
        yield Finding(lost == 0 == twice, f"{lost:,} records lost, {twice:,} read twice")
        yield from (Finding(False, f"{count}x {error}") for error, count in Counter(self.errors).most_common(3))


def key_of(number: int) -> str:
    return f"order-{number}"


def number_of(message: Message) -> int:
    return int((message.key() or b"").removeprefix(b"order-"))


def relay_findings(connections: int, requests: Mapping[str, int]) -> Iterator[Finding]:
    """Whether the records went through the sidecar."""
    produce, fetch = requests.get("Produce", 0), requests.get("Fetch", 0)
    yield Finding(
        min(connections, produce, fetch) > 0,
        f"{connections} connections through the sidecar; {produce:,} Produce and {fetch:,} Fetch requests",
    )


def address_findings(brokers: Addresses, own: Addresses, named: Addresses) -> Iterator[Finding]:
    """Whether clients got the sidecar's ``own`` address of every broker, and none of the ``brokers``."""
    yield Finding(named == own, f"{len(brokers)} brokers, known to the clients as {', '.join(sorted(named))}")
    leaked = sorted(named & brokers)
    yield Finding(not leaked, f"a broker's own address in a client's metadata: {', '.join(leaked) or 'never'}")
