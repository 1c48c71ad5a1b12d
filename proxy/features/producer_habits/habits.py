"""The habits of producers, and what is wrong with those of one request or batch. Only headers are looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from kafka_sidecar.codec.records import BatchHeader
from kafka_sidecar.codec.records.log_validator import InvalidBatch
from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.plugins.patterns import matcher, matches
from kafka_sidecar.plugins.regular_expressions import compile_pattern
from kafka_sidecar.plugins.settings import at_most, quote
from kafka_sidecar.proxy.config.producers import CODECS, ProducerHabits, version_of
from kafka_sidecar.proxy.exchanges.messages import ANONYMOUS
from kafka_sidecar.proxy.relay.acks import ProduceHead

NO_PRODUCER = -1  # in place of a producer id
ALL_REPLICAS = -1  # acks=all
BEFORE_RECORDS = 12  # bytes of a batch that its length does not count
MAX_TOPICS = 10_000  # whose entries are remembered
PLACE = ("topics", "principals", "mode", "percent", "report")  # settings that require nothing of a producer
MAX_SHOWN = 3  # habits in a message to a client, as many record errors as Kafka shows


# Libraries around librdkafka have names of their own, and say which librdkafka is in them: "2.8.0-rdkafka-2.8.0".
LIBRDKAFKA, _INSIDE = "librdkafka", re.compile(r"-rdkafka-(.+)")


class Habit(StrEnum):
    """As in metrics, log lines and the configuration."""

    ACKS = "acks"
    IDEMPOTENCE = "idempotence"
    TRANSACTIONS = "transactions"
    COMPRESSION = "compression"
    MAX_BATCH_BYTES = "max_batch_bytes"
    MAX_RECORDS = "max_records"
    MIN_MEAN_BATCH_BYTES = "min_mean_batch_bytes"
    MIN_MEAN_RECORDS = "min_mean_records"
    CLIENT_ID = "client_id"
    SOFTWARE = "software"
    FORMAT = "format"  # the batch has no header in which anything could be looked up


class Fault(NamedTuple):
    """One habit that is not as required."""

    habit: Habit
    required: str
    found: str
    remedy: str

    def of(self, topic: str) -> str:
        """For the client, and for log lines.

        >>> Fault(Habit.ACKS, "acks=all", "acks=1", "set acks=all").of("orders")
        'acks: Topic orders requires acks=all, not acks=1: set acks=all'
        """
        return f"{self.habit}: Topic {topic} requires {self.required}, not {self.found}: {self.remedy}"


def explain(topic: str, faults: Sequence[Fault]) -> str:
    """The first of the faults, and how many there are."""
    shown = "; ".join(fault.of(topic) for fault in faults[:MAX_SHOWN])
    return shown if len(faults) <= MAX_SHOWN else f"{shown}; and {len(faults) - MAX_SHOWN} more"


class Entry:
    """One entry of `producers:`, for use."""

    __slots__ = (
        "_codecs", "_compress_from", "_idempotent", "_matches", "_max_bytes", "_max_records", "_software",
        "_transactional", "asks_for_mean", "covers", "described", "is_off", "number", "reports", "settings",
    )  # fmt: skip

    def __init__(self, number: int, settings: ProducerHabits) -> None:
        self.number = number  # in the file, from 1 on
        self.settings = settings
        self.covers = matcher(settings.topics)
        self.is_off = settings.mode == "off"
        self.asks_for_mean = settings.asks_for_mean
        self.reports = settings.report
        required = sorted(settings.model_fields_set - {"topics", *PLACE})
        whose = f" of {', '.join(settings.principals)}" if settings.principals else ""
        self.described = f"entry {number}{whose}: {', '.join(required) or 'nothing'} ({settings.mode})"  # for a person
        self._codecs = frozenset(map(CODECS.index, settings.compression or CODECS))
        self._compress_from = settings.compress_from - BEFORE_RECORDS  # by the length that a header says
        self._idempotent = settings.idempotence is not None
        self._transactional = settings.transactions == "required"
        self._max_bytes = settings.max_batch_bytes
        self._max_records = settings.max_records
        self._matches: Callable[[bytes], object] | None = (
            compile_pattern(settings.client_id) if settings.client_id is not None else None
        )
        self._software = {name: version_of(text) or () for name, text in settings.software.items()}

    @property
    def source(self) -> str:
        """For a person."""
        return f"producers (entry {self.number})"

    def describe(self) -> dict[str, Any]:
        """What holds for producers of a topic, as the admin port shows it."""
        given = self.settings.model_dump(mode="json", exclude_defaults=True)
        return {
            "source": self.source,
            "principals": self.settings.principals or None,
            "mode": self.settings.mode,
            "percent": self.settings.percent,
            "report": self.settings.report,
            "required": {name: value for name, value in given.items() if name not in PLACE},
        }

    def enforces(self, crc: int) -> bool:
        """True if a batch with this checksum is rejected; one that is sent again has the same result."""
        return self.settings.mode == "enforce" and crc % 100 < self.settings.percent

    def faults_of_request(self, head: ProduceHead, software: str | None) -> tuple[Fault, ...]:
        """Faults of what stands before the topics, and of the client's software."""
        settings, faults = self.settings, []
        least = settings.acks
        if (least == "all" and head.acks != ALL_REPLICAS) or (least == "1" and head.acks == 0):
            faults.append(Fault(Habit.ACKS, f"acks={least}", f"acks={head.acks}", f"set acks={least}"))
        if settings.transactions == "forbidden" and head.transactional_id is not None:
            faults.append(
                Fault(
                    Habit.TRANSACTIONS, "producers without transactions", "one with a transactional id",
                    "remove transactional.id",
                )
            )  # fmt: skip
        client_id = head.client_id or ""
        if self._matches is not None and not self._matches(client_id.encode(errors="surrogateescape")):
            wanted = f"a client id that matches {settings.client_id}"
            faults.append(Fault(Habit.CLIENT_ID, wanted, quote(client_id) if client_id else "none", "set client.id"))
        if settings.names_software and (fault := self._find_in_software(software)) is not None:
            faults.append(fault)
        return tuple(faults)

    def _find_in_software(self, software: str | None) -> Fault | None:
        settings = self.settings
        name, _, version = (software or "").strip().partition(" ")
        if name not in self._software and LIBRDKAFKA in self._software and (inside := _INSIDE.search(version)):
            name, version = LIBRDKAFKA, inside[1]
        known = version_of(version)
        wanted = ", ".join(f"{one} {text}" for one, text in settings.software.items())
        if name and name not in self._software and self._software:
            if settings.other_software == "allow":
                return None
            return Fault(Habit.SOFTWARE, wanted, quote(name), "use one of these client libraries")
        if not name or known is None:
            if settings.unknown_software == "allow":
                return None
            wanted = wanted or "a client library that names itself and its version"
            found = f"{quote(name)} of an unknown version" if name else "one that does not name itself"
            return Fault(Habit.SOFTWARE, wanted, found, "use a client library that sends its name (KIP-511)")
        if name in self._software and known < self._software[name]:
            least = f"{name} {settings.software[name]}"
            return Fault(Habit.SOFTWARE, least, quote(version), f"use a newer {name}")
        return None

    def faults_of_batch(self, header: BatchHeader, codec: int) -> list[Fault]:
        """Faults of a batch in this codec."""
        faults: list[Fault] = []
        if codec not in self._codecs and (codec or header.length >= self._compress_from):
            wanted = " or ".join(self.settings.compression)
            best = next((one for one in self.settings.compression if one != "none"), "none")
            faults.append(
                Fault(
                    Habit.COMPRESSION, f"compression {wanted}", CODECS[codec], f"set compression.type={best}"
                )
            )  # fmt: skip
        if self._idempotent and header.producer_id == NO_PRODUCER:
            faults.append(
                Fault(
                    Habit.IDEMPOTENCE, "batches with a producer id", "without", "set enable.idempotence=true"
                )
            )  # fmt: skip
        if self._transactional and not header.is_transactional:
            faults.append(
                Fault(
                    Habit.TRANSACTIONS, "batches in transactions", "outside",
                    "set transactional.id, and send in a transaction",
                )
            )  # fmt: skip
        if self._max_bytes is not None and (size := header.length + BEFORE_RECORDS) > self._max_bytes:
            wanted = at_most("batches", self._max_bytes, "bytes")
            faults.append(Fault(Habit.MAX_BATCH_BYTES, wanted, str(size), "lower batch.size"))
        if self._max_records is not None and header.count > self._max_records:
            wanted = at_most("batches", self._max_records, "records")
            faults.append(Fault(Habit.MAX_RECORDS, wanted, str(header.count), "lower batch.size or linger.ms"))
        return faults

    def fault_of_invalid(self, batch: InvalidBatch) -> list[Fault]:
        """Data that has no header of a batch cannot fulfil what is required of one."""
        if not self.settings.asks_for_batches:
            return []
        return [Fault(Habit.FORMAT, "record batches of format 2", batch.message, "use a newer client library")]

    def faults_of_mean(self, batches: int, size: int, records: int) -> list[Fault]:
        """Faults of the averages of so many batches. They are reported only: no single batch is at fault."""
        faults: list[Fault] = []
        least_bytes, least_records = self.settings.min_mean_batch_bytes, self.settings.min_mean_records
        if least_bytes is not None and size < least_bytes * batches:
            wanted = f"batches of {least_bytes} bytes on average"
            faults.append(
                Fault(
                    Habit.MIN_MEAN_BATCH_BYTES, wanted, str(size // batches), "raise linger.ms, and batch.size"
                )
            )  # fmt: skip
        if least_records is not None and records < least_records * batches:
            wanted = f"batches of {least_records} records on average"
            found = f"{records / batches:.1f}"
            faults.append(Fault(Habit.MIN_MEAN_RECORDS, wanted, found, "raise linger.ms, and batch.size"))
        return faults


class Entries:
    """The entries of a configuration, in its order."""

    def __init__(self, settings: Sequence[ProducerHabits]) -> None:
        self.entries = [Entry(number, one) for number, one in enumerate(settings, 1)]
        self._of_topics = Bounded[str, tuple[Entry, ...]](MAX_TOPICS)

    @property
    def are_empty(self) -> bool:
        """True if no entry applies to any topic."""
        return all(entry.is_off for entry in self.entries)

    def of_topic(self, topic: str) -> tuple[Entry, ...]:
        """Those that may apply to a topic, by principal; empty: none looks at it."""
        found = self._of_topics.get(topic)
        if found is None:
            if not is_topic_name(topic):
                return ()  # brokers reject it
            found = self._of_topics[topic] = self._find(topic)
        return found

    def _find(self, topic: str) -> tuple[Entry, ...]:
        found: list[Entry] = []
        for entry in self.entries:
            if entry.covers(topic):
                found.append(entry)
                if not entry.settings.principals:
                    break  # it applies to all that none before applies to
        return () if all(entry.is_off for entry in found) else tuple(found)

    def find(self, topic: str, principal: str | None) -> Entry | None:
        """The one that applies; None: none, or it is off."""
        for entry in self.of_topic(topic):
            principals = entry.settings.principals
            if not principals or matches(principal or ANONYMOUS, principals):
                return None if entry.is_off else entry
        return None
