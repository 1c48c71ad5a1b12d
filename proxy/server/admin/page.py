"""One page of the admin port, and who may request it."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Protocol

from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.types import host_port
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter
from kafka_sidecar.proxy.telemetry.metrics import Family, counter

JSON = "application/json"
RENDER_INTERVAL_S = 1.0  # between two renderings of /metrics, which take milliseconds of the event loop


FILES_FOLDER = "/page/"  # of the page for browsers, which is "/"; they have no data
OPEN = ("/livez", "/readyz")  # for probes, which have no token; `/readyz?verbose` is not among them
log = logging.getLogger(__name__)

LOG_INTERVAL_S = 10.0  # for one reason and address
MAX_PATH_CHARS = 249  # of what clients choose
REASONS = {401: "token", 403: "host"}  # by status


@dataclass(frozen=True, slots=True)
class Page:
    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()  # beside those of every page


class Viewer(Protocol):
    """Whoever reads a stream."""

    @property
    def ip(self) -> str:
        """Its address."""

    @property
    def waits(self) -> bool:
        """Whether what was sent before is not taken yet."""

    def send(self, data: bytes) -> None:
        """Where what was sent before is not taken yet, nothing is sent; after many times the stream ends."""

    def leave(self) -> None:
        """End the stream, of which all was sent, unless the reader does not take it."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A response that goes on until its reader leaves."""

    content_type: str
    begin: Callable[[Viewer], None]
    end: Callable[[Viewer], None]  # the reader has left


def is_open(target: str) -> bool:
    """Whether a request target needs no token."""
    path = target.partition("?")[0]
    return target in OPEN or path == "/" or path.startswith(FILES_FOLDER)


class Pages(Protocol):
    """What the admin port serves."""

    refusals: Refusals

    def page(self, target: str, host: str | None = None, asked_at: float = ...) -> Page | Stream | Awaitable[Page]:
        """The page of a request target, for a Host header. ``asked_at``: seconds of `time.monotonic`."""
        ...

    def wait_s(self, target: str) -> float:
        """How long a request has to wait for its page, which would be rendered too often otherwise."""
        ...


def json_page(status: int, value: object) -> Page:
    """A value as a page."""
    return Page(status, JSON, json.dumps(value).encode() + b"\n")


def is_host_allowed(host: str, config: Config) -> bool:
    """Whether a Host header is not that of a web page whose name was made to resolve to this host.

    An address is none: a browser sends the name that the page was loaded by.
    """
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and not host.endswith("]") else host
    name = name.removeprefix("[").removesuffix("]").lower()
    try:
        ip_address(name)
    except ValueError:
        listen = host_port(config.admin.listen)[0] if config.admin.listen else "localhost"
        allowed = ["localhost", listen, config.advertised_host, *config.admin.allowed_hosts]
        return matches(name, [pattern.lower() for pattern in allowed])
    return True


FORBIDDEN = json_page(403, {"error": "the Host header names another host: see the setting admin.allowed_hosts"})


class Refusals:
    """Those of one port."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(REASONS.values(), 0))
        self._lines = LogLimiter(LOG_INTERVAL_S, clock)

    def note(self, status: int, target: str, address: str) -> None:
        """A response to a request for ``target``, path and query, from an address."""
        if (reason := REASONS.get(status)) is None:
            return
        self.counts[reason] += 1
        if (suppressed := self._lines.due(("admin request refused", reason, address))) is not None:
            path = target.partition("?")[0][:MAX_PATH_CHARS]
            log.warning(
                "admin request refused",
                extra={"reason": reason, "detail": path, "client": address, "suppressed": suppressed},
            )

    def families(self) -> Iterable[Family]:
        """Their metric."""
        return [counter("admin_requests_refused", "Requests that the admin port refused", dict(self.counts), "reason")]
