"""An interceptor that fails at random, after it has done its work: in every hook, with every kind of exception."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from typing import Any

from hooks import Link

from kafka_sidecar.interceptors.contract import OffsetAndMetadata, Offsets, RecordMetadata, TopicPartition
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords, ProducerRecord


class PanicError(BaseException):
    """As libraries raise that are written in other languages."""


TEXT = "with a secret"  # what is read in a record may stand in it
KINDS: tuple[type[BaseException], ...] = (
    ValueError, RecursionError, MemoryError, StopIteration, StopAsyncIteration, SystemExit, GeneratorExit,
    asyncio.CancelledError, PanicError,
)  # fmt: skip


class Failing(Link):
    """Settings: ``chance`` of a failure, by hook, or ``first``: how many calls fail before all others succeed."""

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
            self.tell(hook="raised", of=hook, kind=kind.__name__)
            raise kind(TEXT)
