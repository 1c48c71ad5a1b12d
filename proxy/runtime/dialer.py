"""Connects clients' sessions to brokers: one candidate after the other, and all of them again while none is reached."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.proxy.security.sasl.broker_logins import BrokerLogins
from kafka_sidecar.proxy.security.sasl.conversation import LoginError
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess, cause_of
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter
from kafka_sidecar.proxy.telemetry.tls_failures import describe_failure

log = logging.getLogger(__name__)

Address = tuple[str, int]
REJECTED_PAUSE_S = 1.0  # before the client's connection is closed: clients connect again at once, and for ever
FIRST_PAUSE_S, MAX_PAUSE_S = 0.1, 1.0
MAX_ADDRESSES = 2_000  # whose last attempt is remembered
REJECTED_LOGIN = "authentication_failed"  # a cause

# Connects the protocol that it is given to a broker, for a client with this principal. Raises BrokerUnreachableError.
Dial = Callable[[Callable[[], asyncio.Protocol], str | None], Awaitable[None]]


class BrokerUnreachableError(Exception):
    """No broker could be connected to; ``cause`` is a label value of kafka_sidecar_disconnects_total."""

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause


class Attempts(Protocol):
    """Which addresses are tried, and what is known of them."""

    def is_own(self, address: Address) -> bool:
        """Whether it leads back to this sidecar."""
        ...

    def record_attempt(self, address: Address, error: Exception | None) -> None:
        """``error``: why it failed."""
        ...


@dataclass(frozen=True, slots=True)
class LastAttempt:
    """Of one address. A login that the broker rejects has failed too, though the broker was reached."""

    is_reachable: bool | None = None  # None: none was made
    failure: str | None = None  # of the last that failed
    failed_at: float | None = None  # seconds since 1970


NOT_TRIED = LastAttempt()


class LastAttempts:
    """What became of the last connection that was tried to each broker: nothing is tried for it."""

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


class Dialer:
    """Opens the connections to brokers of all clients."""

    def __init__(
        self,
        attempts: Attempts,
        limiter: LogLimiter,
        access: BrokerAccess,
        timeout_s: float,
    ) -> None:
        self._attempts = attempts
        self._limiter = limiter
        self._access = access
        self._timeout_s = timeout_s  # of one attempt

    async def dial(
        self,
        candidates: Callable[[], list[Address]],
        factory: Callable[[], asyncio.Protocol],
        wait_s: float,
        logins: BrokerLogins | None = None,
    ) -> None:
        """Connect a protocol to one of the candidates, trying again for ``wait_s``. Raises BrokerUnreachableError."""
        access = replace(self._access, logins=logins)
        now = asyncio.get_running_loop().time
        give_up_at, pause = now() + wait_s, FIRST_PAUSE_S
        while True:
            addresses = candidates()
            error = BrokerUnreachableError("broker_unreachable", "the broker has left the cluster")
            for address in addresses:
                failed = await self._try(address, factory, access)
                if failed is None:
                    return
                error = failed
            if not addresses or now() >= give_up_at:
                raise error
            await asyncio.sleep(min(pause, give_up_at - now()))
            pause = min(pause * 2, MAX_PAUSE_S)

    async def _try(
        self, address: Address, factory: Callable[[], asyncio.Protocol], access: BrokerAccess
    ) -> BrokerUnreachableError | None:
        host, port = address
        if self._attempts.is_own(address):
            return BrokerUnreachableError("connects_to_itself", f"{host}:{port} leads back to this sidecar")
        try:
            async with asyncio.timeout(self._timeout_s):
                await access.connect(factory, host, port)
        except LoginError as error:  # which is logged already; no broker takes what another one rejects
            self._attempts.record_attempt(address, error)
            await asyncio.sleep(REJECTED_PAUSE_S)
            raise BrokerUnreachableError(cause_of(error), f"{host}:{port}: {error}") from error
        except (OSError, ValueError, OverflowError) as error:  # the latter two: an invalid host or port
            self._attempts.record_attempt(address, error)
            if (suppressed := self._limiter.due(("broker unreachable", host, str(port)))) is not None:
                log.warning(
                    "broker unreachable",
                    extra={
                        "address": f"{host}:{port}",
                        "detail": describe_failure(error),
                        "suppressed": suppressed,
                    },
                )
            return BrokerUnreachableError(cause_of(error), f"{host}:{port}: {describe_failure(error)}")
        self._attempts.record_attempt(address, None)
        return None
