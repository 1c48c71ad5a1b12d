"""What the supervisor and a worker send each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.server.admin.page import Page

Broker = tuple[int, str, int]  # node id, host, port


# To a worker


@dataclass(frozen=True, slots=True)
class Start:
    """The first message: what to serve."""

    config: Config  # with the worker's place
    path: Path | None  # of the file, for reloads
    flags: Mapping[str, object]
    import_path: tuple[str, ...]
    brokers: tuple[Broker, ...] = ()  # that the worker before it had listeners for
    is_replacement: bool = False


@dataclass(frozen=True, slots=True)
class Serve:
    """Listen: all workers are prepared, so that none gets all connections."""


@dataclass(frozen=True, slots=True)
class HangUp:
    """As SIGHUP."""


@dataclass(frozen=True, slots=True)
class Drain:
    """As SIGTERM; ``hurry``: as a second one."""

    hurry: bool = False


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page of this worker. They are answered in the order of the requests."""

    target: str


# From a worker


@dataclass(frozen=True, slots=True)
class Prepared:
    """The configuration is loaded, with all that it names."""


@dataclass(frozen=True, slots=True)
class Serving:
    """Clients are accepted."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """The configuration is; the worker ends."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alive:
    """The event loop runs."""


@dataclass(frozen=True, slots=True)
class Applied:
    """This configuration applies after a reload."""

    config: Config


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """For these there are listeners."""

    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class PageResponse:
    page: Page


ToWorker = Start | Serve | HangUp | Drain | PageRequest
FromWorker = Prepared | Serving | Invalid | Alive | Applied | BrokersChanged | PageResponse
