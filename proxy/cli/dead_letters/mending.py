"""Interceptors that mend records before they are replayed: the `interceptors:` of a configuration file."""

from __future__ import annotations

import time

from kafka_sidecar.dead_letters.letter import Reasons
from kafka_sidecar.dead_letters.letters import OutgoingRecord
from kafka_sidecar.interceptors.guard import Client, Place
from kafka_sidecar.interceptors.producing import Producers
from kafka_sidecar.interceptors.records import ProducerRecord
from kafka_sidecar.interceptors.testing import send_through
from kafka_sidecar.plugins.values import Context
from kafka_sidecar.proxy.cli.dead_letters.replay import MendError
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.interception.from_config import catalog


class _Failures:
    """Keeps the last failure: of the record that is being mended."""

    def __init__(self) -> None:
        self.last: str | None = None

    def failed(self, interceptor: str, hook: str, error: BaseException, place: Place | None = None) -> None:
        self.last = f"{interceptor} failed in {hook}: {type(error).__name__}"  # the error's text may quote the record

    def slow(self, interceptor: str, hook: str, seconds: float, place: Place | None = None) -> None: ...

    def disabled(self, interceptor: str, failures: int, pause_s: float, client: Client | None = None) -> None: ...


class InterceptorMender:
    """Sends records through `on_send` of interceptors, with the client id and the principal of the first sending."""

    def __init__(self, config: Config) -> None:
        """Raises ValueError: one line that says which interceptor is wrong."""
        self._failures = _Failures()
        # Never disabled: a record that is not mended must not be sent.
        each = [one.model_copy(update={"max_failures": 0}) for one in config.interceptors]
        self._catalog = catalog(config.model_copy(update={"interceptors": each}), self._failures)
        self._chains: dict[str, Producers | None] = {}

    def mend(self, record: OutgoingRecord, why: Reasons) -> OutgoingRecord:
        """Raises MendError: an interceptor has failed; nothing of what the others made of the record is sent."""
        if record.topic not in self._chains:
            self._chains[record.topic] = self._catalog.producers(record.topic)
        chain = self._chains[record.topic]
        if chain is None:
            return record
        context = Context(lambda: time.time_ns() // 1_000_000, client_id=why.client_id, principal=why.principal)
        before = ProducerRecord(
            record.topic, record.partition, record.key, record.value, list(record.headers), record.timestamp, context
        )
        self._failures.last = None
        (mended,) = send_through(chain, [before])
        if self._failures.last is not None:
            raise MendError(self._failures.last)
        return OutgoingRecord(
            record.topic, record.partition, mended.key, mended.value, mended.headers.to_tuple(), record.timestamp
        )
