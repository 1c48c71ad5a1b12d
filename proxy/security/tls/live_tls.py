"""The TLS of one side while the sidecar runs: files that change are read again, for the handshakes from then on.

Open connections keep what they began with. A mounted Secret changes by a symbolic link, other files one by one: they
are read once they have stayed the same for one look.
"""

from __future__ import annotations

import logging
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kafka_sidecar.proxy.config.reload import FileState, state_of
from kafka_sidecar.proxy.security.tls.contexts import Loaded
from kafka_sidecar.proxy.security.tls.stores import StoreError
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
