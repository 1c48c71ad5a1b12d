"""What `interceptor test` does: one record at a time through the chain of a topic, as sent and then as consumed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from traceback import walk_tb

from kafka_sidecar.codec.records import Header
from kafka_sidecar.interceptors.consuming import Consumers, FailClosedError, Key
from kafka_sidecar.interceptors.contract import Context
from kafka_sidecar.interceptors.guard import Place, ResolveRequired
from kafka_sidecar.interceptors.producing import Producers
from kafka_sidecar.interceptors.records import ConsumerRecord, ProducerRecord
from kafka_sidecar.interceptors.testing import consume_through, send_through
from kafka_sidecar.policies.testing import Example
from kafka_sidecar.proxy.cli.record_lines import format_record
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.interception.from_config import catalog

OURS = "kafka_sidecar."
AnyRecord = ProducerRecord | ConsumerRecord


@dataclass(slots=True)
class Failures:
    """Reports failures as lines of output, in full: the records are the author's own."""

    count: int = 0
    lines: list[str] = field(default_factory=list)

    def failed(self, interceptor: str, hook: str, error: BaseException, place: Place | None = None) -> None:
        self.count += 1
        self.lines.append(f"{hook}: {interceptor} failed: {type(error).__name__}: {error}{_where(error)}")

    def slow(self, interceptor: str, hook: str, seconds: float, place: Place | None = None) -> None:
        self.lines.append(f"{hook}: {interceptor} took {seconds:.3f} s, which is over its budget")

    def disabled(self, interceptor: str, failures: int, pause_s: float, client: object = None) -> None:
        self.lines.append(f"{interceptor} is disabled for {pause_s:g} s after {failures} failures in a row")

    def take(self) -> list[str]:
        """The lines since the last call."""
        lines, self.lines = self.lines, []
        return lines


@dataclass(frozen=True, slots=True)
class Runs:
    """The chains of one topic, and the failures of their interceptors."""

    producers: Producers | None
    consumers: Consumers | None
    topic: str
    context: Context
    failures: Failures

    def run(self, offset: int, example: Example) -> Iterator[str]:
        """What becomes of a record, hook by hook; a failure has its own line before that."""
        pairs = example.headers.items() if isinstance(example.headers, Mapping) else example.headers
        headers = [Header(key, value) for key, value in pairs]
        record = ProducerRecord(self.topic, 0, example.key, example.value, headers, example.timestamp, self.context)
        if self.producers is not None:
            before = record
            (record,) = send_through(self.producers, [before])
            yield from self.failures.take()
            yield f"on_send: {_outcome(before, record)}"
        if self.consumers is not None:
            yield from self._consume(self.consumers, offset, record)

    def _consume(self, chain: Consumers, offset: int, sent: ProducerRecord) -> Iterator[str]:
        headers = sent.headers.to_tuple()
        before = ConsumerRecord(self.topic, 0, offset, sent.key, sent.value, headers, sent.timestamp, self.context)
        try:
            left = _waited(chain, before)
            outcome = _outcome(before, left[0]) if left else "dropped"
        except FailClosedError:
            outcome = "withheld from consumers"
        yield from self.failures.take()
        yield f"on_consume: {outcome}"


def _waited(chain: Consumers, record: ConsumerRecord) -> list[ConsumerRecord]:
    """What is left of a record, once interceptors have fetched what they need."""
    asked: set[Key] = set()
    while True:
        try:
            return consume_through(chain, [record], asked)
        except ResolveRequired as waiting:
            asked.add((waiting.name, waiting.key))
            with suppress(Exception):  # it says so when it is called again
                asyncio.run(waiting.interceptor.resolve(waiting.key))


def load_runs(config: Config, topic: str, client_id: str | None) -> Runs | None:
    """The interceptors of a topic, loaded; None if there are none for its records."""
    failures = Failures()
    loaded = catalog(config, failures)
    producers, consumers = loaded.producers(topic), loaded.consumers(topic)
    context = Context(lambda: time.time_ns() // 1_000_000, client_id=client_id)
    return Runs(producers, consumers, topic, context, failures) if producers or consumers else None


def _outcome(before: AnyRecord, after: AnyRecord) -> str:
    was, now = (format_record(one.key, one.value, one.headers) for one in (before, after))
    return "unchanged" if was == now else now


def _where(error: BaseException) -> str:
    """The innermost line of the author's own code."""
    own = [
        f" ({frame.f_code.co_filename}, line {line})"
        for frame, line in walk_tb(error.__traceback__)
        if not str(frame.f_globals.get("__name__")).startswith(OURS)
    ]
    return own[-1] if own else ""
