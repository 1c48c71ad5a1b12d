"""What a running sidecar gives to the stages of interception."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafka_sidecar.interceptors.contract import UNKNOWN, Context
from kafka_sidecar.proxy.exchanges.fetched_stages import FetchServices
from kafka_sidecar.proxy.exchanges.messages import client_context
from kafka_sidecar.proxy.relay.exchange import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Services(FetchServices):
    clock: Callable[[], int]  # ms since 1970
    stopwatch: Callable[[], float]  # seconds of a clock that is never set
    message_max_bytes: int  # that a batch may grow to

    def context(self, client: Client, version: int, generation_id: int = UNKNOWN, **of_request: str | None) -> Context:
        """Whose request it is."""
        return client_context(self.clock, client, version, generation_id, **of_request)
