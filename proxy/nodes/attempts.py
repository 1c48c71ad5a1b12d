"""What became of the last connection that was tried to each broker: nothing is tried for it.

A login that a broker rejects is a failure too, though the broker was reached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.proxy.nodes.metadata_client import Address
from kafka_sidecar.proxy.security.tls.broker_access import cause_of
from kafka_sidecar.proxy.telemetry.tls_failures import describe_failure

MAX_ADDRESSES = 2_000
REJECTED_LOGIN = "authentication_failed"


@dataclass(frozen=True, slots=True)
class LastAttempt:
    """Of one address."""

    is_reachable: bool | None = None  # None: none was made
    failure: str | None = None  # of the last that failed
    failed_at: float | None = None  # seconds since 1970


NOT_TRIED = LastAttempt()


class Attempts:
    """The last ones, by address."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock``: seconds since 1970."""
        self._clock = clock
        self._last = Bounded[Address, LastAttempt](MAX_ADDRESSES)

    def record(self, address: Address, error: Exception | None) -> str | None:
        """One that was made; the cause of its failure, as of kafka_sidecar_broker_connect_failures_total."""
        if error is None:
            known = self.last(address)
            if not known.is_reachable:
                self._last[address] = LastAttempt(True, known.failure, known.failed_at)
            return None
        cause = cause_of(error)
        self._last[address] = LastAttempt(cause == REJECTED_LOGIN, describe_failure(error), self._clock())
        return cause

    def last(self, address: Address) -> LastAttempt:
        return self._last.get(address, NOT_TRIED)
