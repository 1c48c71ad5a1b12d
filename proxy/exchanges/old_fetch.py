"""Fetch before version 4, which brokers before Kafka 4.0 take: only formats without headers come back (KIP-82).

Interceptors do not look into these. Topics of which something is hidden are refused, all others are relayed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.glance import FetchGlance, check_fetch_partitions, glance_fetch
from kafka_sidecar.proxy.relay.exchange import Begin, Client, Exchange, Forward, Outcome, RouteError, Steps

Hides = Callable[[str], bool]  # whether something of a topic is hidden


def exchange(version: int, hides: Hides, max_partitions: int) -> Begin:
    """What looks into requests of this version."""
    return partial(begin, version, hides, max_partitions)


def begin(
    version: int, hides: Hides, max_partitions: int, data: bytes, at: int, size: int, client: Client
) -> Exchange | None:
    """As `exchange.Begin`, for one version."""
    seen = glance_fetch(data, at, size, version, max_partitions)
    if seen is None:
        return OldFetchExchange(version, hides, max_partitions)
    _check(version, hides, seen)
    return None


class OldFetchExchange(Exchange):
    """A request of which not all has arrived, or with too many partitions."""

    __slots__ = ("_hides", "_max_partitions", "_version")

    def __init__(self, version: int, hides: Hides, max_partitions: int) -> None:
        self._max_partitions = max_partitions
        self._version = version
        self._hides = hides

    def request(self, frame: bytes) -> Steps[Outcome]:
        yield from ()  # nothing is needed
        check_fetch_partitions(frame, self._version, self._max_partitions)
        seen = glance_fetch(frame, 0, len(frame), self._version)
        if seen is None:
            raise CodecError(f"a Fetch request of version {self._version} that cannot be read")
        _check(self._version, self._hides, seen)
        return Forward(frame)

    def response(self, frame: bytes) -> Steps[bytes]:
        yield from ()
        return frame


def _check(version: int, hides: Hides, seen: FetchGlance) -> None:
    for topic in seen.topics:
        if isinstance(topic, str) and hides(topic):
            why = f"Fetch version {version} is not relayed for topics of which interceptors hide something"
            raise RouteError("unsupported_version", why)
