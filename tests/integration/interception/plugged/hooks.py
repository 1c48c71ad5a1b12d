"""The interceptors of these tests, which the sidecar loads from its class path. They write events to a file."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kafka_sidecar.interceptors.contract import (
    ConsumerInterceptor,
    OffsetAndMetadata,
    Offsets,
    ProducerInterceptor,
    RecordMetadata,
    TopicPartition,
)
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords, ProducerRecord


class EventWriter:
    """Writes events to the file that the settings name, one line each."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = configs
        self._events = Path(configs["events"]).open("a", buffering=1) if "events" in configs else None  # noqa: SIM115
        self._lock = threading.Lock()

    def close(self) -> None:
        if self._events is not None:
            self._events.close()

    def log_event(self, **event: object) -> None:
        if self._events is not None:
            with self._lock:
                self._events.write(json.dumps(event) + "\n")


class Marks(EventWriter, ProducerInterceptor):
    """Adds headers of every kind; the first one is the value again, so that none can be another record's."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        headers = record.headers.add("value", record.value)
        headers.add("twice", b"1").add("twice", b"2").add("null", None).add("empty", b"").add("twice", None)
        headers.add("ключ ✓ \U0001f511", bytes(range(256))).add("", b"of no name")
        return record


class Stamps(EventWriter, ProducerInterceptor):
    """Adds the timestamp that it sees as a header."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.headers.add("timestamp", str(record.timestamp).encode())
        return record


class Chosen(EventWriter, ConsumerInterceptor):
    """Does with a record what its value says."""

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        for record in records:
            self.log_event(
                hook="on_consume",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                client=record.context.client_id,
                version=record.context.api_version,
            )
        return [self._done(record) for record in records if not (record.value or b"").startswith(b"drop")]

    def _done(self, record: ConsumerRecord) -> ConsumerRecord:
        value = record.value or b""
        if not value.startswith(b"edit"):
            return record
        record.headers.add("edited", None).add("ключ", b"")
        return record.replace(value=b"was " + value, key=None)


class Commits(EventWriter, ConsumerInterceptor):
    """Does with commits what its settings say: ``filter``, ``annotate``, ``generate``, ``empty``, ``overflow``."""

    def pre_commit(self, offsets: Offsets) -> Mapping[TopicPartition, OffsetAndMetadata]:
        done: Mapping[TopicPartition, OffsetAndMetadata] = getattr(self, f"_{self.settings['does']}")(offsets)
        return done

    def on_commit(self, offsets: Offsets) -> None:
        context = offsets.context
        committed = sorted((*place, one.offset, one.metadata) for place, one in offsets.items())
        self.log_event(
            hook="on_commit",
            group=context.group_id,
            version=context.api_version,
            offsets=committed,
            transactional_id=context.transactional_id,
            is_member=context.is_member,
            does=self.settings["does"],
        )

    def _filter(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        return {place: one for place, one in offsets.items() if place.partition % 2 == 0}

    def _annotate(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            place: OffsetAndMetadata(one.offset, one.metadata + "+ключ", one.leader_epoch)
            for place, one in offsets.items()
        }

    def _generate(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        """One for the next partition, there or not, and one for another topic."""
        added = {TopicPartition(place.topic, place.partition + 1): OffsetAndMetadata(1, "made") for place in offsets}
        other = {TopicPartition(f"{place.topic}-other", 0): OffsetAndMetadata(2, "made too") for place in offsets}
        return {**added, **other, **offsets}

    def _empty(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        return {}

    def _overflow(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        return {place: OffsetAndMetadata(one.offset, "m" * 5000) for place, one in offsets.items()}


class Link(EventWriter, ProducerInterceptor, ConsumerInterceptor):
    """One of a chain: leaves its mark wherever it can."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.headers.add("sent", self._mark)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        self.log_event(hook="on_acknowledgement", offset=metadata.offset, error=repr(exception) if exception else None)

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        for record in records:
            record.headers.add("consumed", self._mark)
        return records

    def pre_commit(self, offsets: Offsets) -> Mapping[TopicPartition, OffsetAndMetadata]:
        mark = self._mark.decode()
        return {p: OffsetAndMetadata(one.offset, one.metadata + mark, one.leader_epoch) for p, one in offsets.items()}

    def on_commit(self, offsets: Offsets) -> None:
        self.log_event(hook="on_commit", offsets=[one.metadata for one in offsets.values()])

    @property
    def _mark(self) -> bytes:
        return str(self.settings["mark"]).encode()


class PanicError(BaseException):
    """As libraries raise that are written in other languages."""


TEXT = "with a secret"  # what is read in a record may stand in it
KINDS: tuple[type[BaseException], ...] = (
    ValueError, RecursionError, MemoryError, StopIteration, StopAsyncIteration, SystemExit, GeneratorExit,
    asyncio.CancelledError, PanicError,
)  # fmt: skip


class Failing(Link):
    """Fails when it has done its work, in every hook, with every kind of exception.

    Settings: ``chance`` of a failure, by hook, or ``first``: how many calls fail before all others succeed.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        self._random = random.Random(42)
        self._calls = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        sent = super().on_send(record)
        self._fail("on_send")
        return sent

    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        super().on_acknowledgement(metadata, exception)
        self._fail("on_acknowledgement")

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        for record in super().on_consume(records):
            yield record
            self._fail("on_consume")

    def pre_commit(self, offsets: Offsets) -> Mapping[TopicPartition, OffsetAndMetadata]:
        changed = super().pre_commit(offsets)
        offsets.clear()
        self._fail("pre_commit")
        return changed

    def on_commit(self, offsets: Offsets) -> None:
        super().on_commit(offsets)
        self._fail("on_commit")

    def _fail(self, hook: str) -> None:
        self._calls += 1
        chance = self.settings.get("chance", {})
        if self._calls <= self.settings.get("first", 0) or self._random.random() < chance.get(hook, 0):
            kind = self._random.choice(KINDS)
            self.log_event(hook="raised", of=hook, kind=kind.__name__)
            raise kind(TEXT)
