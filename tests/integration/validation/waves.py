"""Waves of valid and invalid records, sent by one producer of each client library, and its result for each record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Kind = Literal["plain", "idempotent", "transactional"]
KINDS: tuple[Kind, ...] = ("plain", "idempotent", "transactional")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BATCH_BYTES = 2000  # a wave of ten small records is one batch, a flood many
LINGER_MS = 500  # ten small records must be one batch on a busy machine too
IN_FLIGHT = 5


@dataclass(frozen=True, slots=True)
class Sent:
    """One record. A bad one has neither the header "h" nor a key."""

    value: str
    is_good: bool = True


Wave = Sequence[Sent]


def wave(name: str, count: int, bad: Sequence[int] = (), filler: int = 0) -> Wave:
    return tuple(Sent(f"{name}-{number}{'x' * filler}", number not in bad) for number in range(count))


FIRST, SOME_BAD, ONE_BAD = wave("first", 10), wave("some-bad", 10, [3, 7]), wave("one-bad", 10, [4])
FLOOD, LAST = wave("flood", 300, range(17, 300, 29), filler=100), wave("last", 10)
WAVES = (FIRST, SOME_BAD, ONE_BAD, FLOOD, LAST)


@dataclass(frozen=True, slots=True)
class Result:
    """A client's result for one record: the error's name and text, both empty if the record is acknowledged."""

    error: str = ""
    text: str = ""


STORED = Result()


@dataclass(slots=True)
class Outcome:
    """A client's results for all records."""

    results: dict[str, Result] = field(default_factory=dict)  # by value
    ends: list[str] = field(default_factory=list)  # what came of committing each wave; empty: it is committed

    def of(self, wave: Wave) -> list[Result]:
        return [self.results[sent.value] for sent in wave]

    def acknowledged(self, *waves: Wave) -> list[bytes]:
        return [sent.value.encode() for wave in waves for sent in wave if self.results[sent.value] == STORED]


class Client(Protocol):
    """One producer that sends all waves, each flushed or as a transaction."""

    def __call__(self, bootstrap: str, topic: str, codec: str, kind: Kind, waves: Sequence[Wave]) -> Outcome: ...


def typed(waves: Sequence[Wave]) -> str:
    """The waves as a program in another language reads them."""
    lines = (
        f"{'good' if sent.is_good else 'bad'} {sent.value}\n" if sent else "\n"
        for wave in waves
        for sent in (*wave, None)
    )
    return "".join(lines)


def printed(text: str) -> Outcome:
    """What such a program prints of them."""
    outcome = Outcome()
    for line in text.splitlines():
        if "\t" in line:
            value, error, about = line.split("\t", 2)
            outcome.results[value] = Result(error, about)
        else:
            outcome.ends.append(line)
    return outcome
