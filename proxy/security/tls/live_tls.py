"""TLS of both sides from the configuration: files that change are read again, for the handshakes from then on.

Open connections keep what they began with. A mounted Secret changes by a symbolic link, other files one by one: they
are read once they have stayed the same for one look.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Mistake
from kafka_sidecar.proxy.config.reload import POLL_INTERVAL_S, FileState, state_of
from kafka_sidecar.proxy.config.tls import PASSWORDS, Tls
from kafka_sidecar.proxy.security.tls.contexts import Loaded, StoreError, broker_context, listener_context
from kafka_sidecar.proxy.telemetry.metrics import LATENCY_BUCKETS, Durations, Family, counter, gauge, histogram


@dataclass(slots=True)
class TlsStats:
    handshakes: int = 0
    failures: Counter[str] = field(default_factory=Counter)  # by reason: telemetry/tls_failures.py
    durations: list[int] = field(default_factory=lambda: [0] * LATENCY_BUCKETS)
    duration_s: float = 0.0
    is_current: bool = True  # whether the files that are there now apply

    def succeeded(self, seconds: float) -> None:
        """A handshake has ended well."""
        self.handshakes += 1
        self.duration_s += seconds
        self.durations[max(0, int(seconds * 1e6)).bit_length()] += 1


log = logging.getLogger(__name__)

Side = Literal["client", "broker", "admin"]
SECTIONS: dict[Side, str] = {"client": "clients.tls", "broker": "brokers.tls", "admin": "admin.tls"}


class LiveTls:
    """What new handshakes of one side use. `look` at intervals."""

    def __init__(self, side: Side, load: Callable[[], Loaded], files: Sequence[Path]) -> None:
        """Raises StoreError."""
        self.side = side
        self.stats = TlsStats()
        self._load = load
        self._files = files
        self._seen = self._applied = self._states()
        self.loaded = load()

    @property
    def context(self) -> ssl.SSLContext:
        return self.loaded.context

    def look(self) -> None:
        """Read the files again if they have changed."""
        before, self._seen = self._seen, self._states()
        if self._seen == self._applied or self._seen != before or None in self._seen:
            return
        self._applied = self._seen
        try:
            self.loaded = self._load()
        except StoreError as error:
            self.stats.is_current = False
            detail = f"{SECTIONS[self.side]}.{error.setting}: {error}"
            log.error("certificates rejected, the previous ones stay applied", extra={"detail": detail})
            return
        self.stats.is_current = True
        log.info(
            "certificates applied",
            extra={"settings": [f"{SECTIONS[self.side]}.{name}" for name in self.loaded.not_after]},
        )

    def _states(self) -> list[FileState | None]:
        return [state_of(path) for path in self._files]


def families_of_tls(sides: Sequence[LiveTls], now: float) -> Iterator[Family]:
    """Their metrics. ``now``: seconds since 1970."""
    handshakes = [side for side in sides if side.side != "admin"]  # whose handshakes asyncio makes
    yield counter(
        "tls_handshakes",
        "Successful TLS handshakes",
        {side.side: side.stats.handshakes for side in handshakes},
        "side",
    )
    yield counter(
        "tls_handshake_failures",
        "TLS handshakes that failed",
        {(side.side, reason): number for side in sides for reason, number in side.stats.failures.items()},
        "side",
        "reason",
    )
    yield histogram(
        "tls_handshake_seconds",
        "Time from the connection to the end of its handshake",
        {side.side: Durations(side.stats.durations, side.stats.duration_s) for side in handshakes},
        "side",
    )
    yield gauge(
        "tls_certificate_expiry_seconds",
        "Seconds until the first certificate in a file expires",
        {(side.side, setting): at - now for side in sides for setting, at in side.loaded.not_after.items()},
        "side",
        "setting",
    )
    yield gauge(
        "tls_last_reload_successful",
        "1 if the files of TLS apply, 0 if changed ones were rejected",
        {side.side: int(side.stats.is_current) for side in sides},
        "side",
    )


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """What is wrong with the settings of TLS together, and with its files."""
    yield from _find_missing(config)
    for tls, load in _loads(config):
        try:
            load()
        except StoreError as error:
            yield _mistake(tls, error)


class TlsSides:
    """TLS towards clients, towards brokers and of the admin port; None for a side without."""

    def __init__(self, config: Config) -> None:
        """Raises ConfigError if a file cannot be used."""
        self.clients: LiveTls | None = None
        self.brokers: LiveTls | None = None
        self.admin: LiveTls | None = None
        if mistakes := list(find_mistakes(config)):
            raise config.error(mistakes)
        for tls, load in _loads(config):
            if tls is config.clients.tls:
                self.clients = LiveTls("client", load, tls.files)
            elif tls is config.brokers.tls:
                self.brokers = LiveTls("broker", load, tls.files)
            else:
                self.admin = LiveTls("admin", load, tls.files)

    @property
    def all(self) -> list[LiveTls]:
        return [side for side in (self.clients, self.brokers, self.admin) if side is not None]

    async def watch(self) -> None:
        """Look at the files until cancelled."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            for side in self.all:
                side.look()


def _find_missing(config: Config) -> Iterator[Mistake]:
    brokers = config.brokers
    for listener in (config.clients.tls, config.admin.tls):
        if listener.is_set and not listener.is_used:
            yield Mistake(listener.at, "certificate is missing: name the file with the certificate of the listeners")
        if listener.client_certificates != "none" and listener.ca is None:
            yield Mistake((*listener.at, "ca"), "is missing: name the file with the CA of the clients' certificates")
    if brokers.tls.is_set and not brokers.uses_tls:
        yield Mistake(brokers.tls.at, "is set, but not used: set brokers.security_protocol to SSL, or remove it")
    if brokers.tls.certificate is None and brokers.tls.key is not None:
        yield Mistake(brokers.tls.at, "certificate is missing: name the file with the certificate of the key")
    for tls in (config.clients.tls, brokers.tls, config.admin.tls):
        for name in PASSWORDS:
            if getattr(tls, name) is not None and getattr(tls, f"{name}_file") is not None:
                yield Mistake((*tls.at, name), f"is set, and {name}_file too: remove one of them")


def _loads(config: Config) -> Iterator[tuple[Tls, Callable[[], Loaded]]]:
    """For each side with TLS: its section, and what reads its files. Raises StoreError when called."""
    clients, brokers, admin = config.clients.tls, config.brokers, config.admin.tls
    if clients.is_used:
        yield clients, lambda: listener_context(clients)
    if brokers.uses_tls:
        yield brokers.tls, lambda: broker_context(brokers.tls)
    if admin.is_used:
        yield admin, lambda: listener_context(admin)


def _mistake(tls: Tls, error: StoreError) -> Mistake:
    return Mistake((*tls.at, error.setting), str(error))
