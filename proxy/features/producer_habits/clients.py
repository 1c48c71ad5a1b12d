"""Statistics of how each client sends to each topic, for teams that want to know before they require anything.

A client is its id, principal and software. The client that has not sent for the longest time goes when there are too
many. Names are cut; nothing of a record is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from kafka_sidecar.codec.records import BatchHeader
from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.proxy.config.producers import CODECS
from kafka_sidecar.proxy.exchanges.messages import ANONYMOUS
from kafka_sidecar.proxy.exchanges.repeated import cut, cut_or_none
from kafka_sidecar.proxy.features.producer_habits.habits import BEFORE_RECORDS, NO_PRODUCER, Entry, Fault, Habit

MAX_CLIENTS = 1000  # combinations of a client and a topic
MAX_LISTED = 500  # each takes some 10 us of the event loop
MEAN_OVER_S = 60.0
MIN_MEAN_BATCHES = 100  # of a client, in that time: fewer are no burden, and would wait too long to become larger ones
ACKS = ("0", "1", "invalid", "all")  # by their index in lists; brokers reject what is invalid
NAMES = ("client_id", "principal", "software", "topic")
SUMS = ("batches", "records", "bytes")
SHARES = ("idempotent", "transactional")  # of the batches
COUNTS = ("acks", "compression", "not_as_required")  # numbers by name


def index_of(acks: int) -> int:
    """Where the acks of a request are counted."""
    return acks if -1 <= acks <= 1 else 2


class Key(NamedTuple):
    """Who sends where."""

    client_id: str | None
    principal: str
    software: str | None
    topic: str


def key_of(client_id: str | None, principal: str | None, software: str | None, topic: str) -> Key:
    """With names that are cut."""
    return Key(cut_or_none(client_id), cut(principal or ANONYMOUS), cut_or_none(software), topic)


class Producer:
    """Counts of what a client has sent to a topic since `since`."""

    __slots__ = (
        "_before", "acks", "at", "batches", "bytes", "codecs", "faults", "host", "idempotent", "key", "minute",
        "records", "since", "transactional",
    )  # fmt: skip

    def __init__(self, key: Key, now: float) -> None:
        self.key = key
        self.host: str | None = None  # its address, the last time
        self.since = self.at = now  # seconds since the epoch
        self.batches = self.bytes = self.records = self.idempotent = self.transactional = 0
        self.acks = [0] * len(ACKS)  # batches by `index_of` their acks
        self.codecs = [0] * len(CODECS)  # batches by codec
        self.faults: Counter[Habit] = Counter()  # batches
        self.minute = now  # when it has begun
        self._before = (0, 0, 0)  # batches, bytes and records

    def count(self, header: BatchHeader, codec: int, acks: int) -> None:
        """One batch. ``acks``: as `index_of` says."""
        self.batches += 1
        self.bytes += header.length + BEFORE_RECORDS
        self.codecs[codec] += 1
        self.acks[acks] += 1
        if header.count > 0:  # what a header says
            self.records += header.count
        if header.producer_id != NO_PRODUCER:
            self.idempotent += 1
        if header.is_transactional:
            self.transactional += 1

    def faults_of_mean(self, entry: Entry, now: float) -> Sequence[Fault]:
        """Faults of the averages of a minute that has passed."""
        began, (batches, size, records) = self.minute, self._before
        if now - began < MEAN_OVER_S:
            return ()
        self.minute, self._before = now, (self.batches, self.bytes, self.records)
        sent = self.batches - batches
        # Of a client that pauses the minute is longer: its batches are fewer than they seem.
        if sent < MIN_MEAN_BATCHES * (now - began) / MEAN_OVER_S:
            return ()
        return entry.faults_of_mean(sent, self.bytes - size, self.records - records)

    def describe(self, timestamp: Callable[[float], str]) -> dict[str, Any]:
        """As the admin port lists it."""
        batches = max(self.batches, 1)
        return {
            **self.key._asdict(),
            "client": self.host,
            "since": timestamp(self.since),
            "at": timestamp(self.at),
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "mean_batch_bytes": round(self.bytes / batches),
            "mean_records": round(self.records / batches, 1),
            "acks": {acks: number for acks, number in zip(ACKS, self.acks, strict=True) if number},
            "compression": {codec: number for codec, number in zip(CODECS, self.codecs, strict=True) if number},
            "idempotent": round(self.idempotent / batches, 3),
            "transactional": round(self.transactional / batches, 3),
            "not_as_required": {str(habit): number for habit, number in self.faults.items()},
        }


class Producers:
    """The clients of one process."""

    def __init__(self) -> None:
        self.forgotten = 0  # because there were too many
        self._found = Bounded[Key, Producer](MAX_CLIENTS, key_bytes=4 * 249)

    def __len__(self) -> int:
        return len(self._found)

    def of(self, key: Key, now: float) -> Producer:
        """The client, which sends now."""
        found = self._found.get(key)
        if found is None:
            before = len(self._found)
            found = self._found[key] = Producer(key, now)
            self.forgotten += before + 1 - len(self._found)
        elif now - found.at >= 1:  # in the order in which they have sent last, to a second
            self._found.pop(key)
            self._found[key] = found
        found.at = now
        return found

    def newest(self, wanted: Mapping[str, str]) -> Iterable[Producer]:
        """Those that have sent last, newest first; only with these values of their keys."""
        found = (one for one in reversed(self._found.values()) if _has(one.key, wanted))
        return islice(found, MAX_LISTED)


def _has(key: Key, wanted: Mapping[str, str]) -> bool:
    return all(getattr(key, name) == value for name, value in wanted.items())


def join_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the same names as one, in any order."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(name) for name in NAMES), []).append(row)
    return [dict(same[0]) if len(same) == 1 else _joined(same) for same in found.values()]


def _joined(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    last = max(rows, key=lambda row: str(row["at"]))
    joined = {**last, "since": min(row["since"] for row in rows), "worker": None}
    joined |= {name: sum(row[name] for row in rows) for name in SUMS}
    batches = max(joined["batches"], 1)
    joined["mean_batch_bytes"] = round(joined["bytes"] / batches)
    joined["mean_records"] = round(joined["records"] / batches, 1)
    joined |= {name: round(sum(row[name] * row["batches"] for row in rows) / batches, 3) for name in SHARES}
    for name in COUNTS:
        counts = Counter[str]()
        for row in rows:
            counts.update(row[name])
        joined[name] = dict(counts)
    return joined
