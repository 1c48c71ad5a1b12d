"""What a Fetch request says before its topics: whether its session is continued, and which records it wants.

    header | [replica id int32] | max wait int32 | min bytes int32 | max bytes int32 | isolation level int8 |
    [session id int32 | session epoch int32] | topics (count; name or id, partitions, [tags]) | ...

A client that keeps a fetch session (KIP-227) names its topics once; what it reads is only seen in the responses.
Before version 4, which brokers before Kafka 4.0 take, only formats without headers come back (KIP-82): interceptors do
not look into these. Topics of which something is hidden are refused, all others are relayed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import NamedTuple

from kafka_sidecar.codec.envelope import replace_span
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.fetch_positions import FetchHead, open_fetch
from kafka_sidecar.codec.glance import FetchGlance, check_fetch_partitions, glance_fetch
from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.fetch import FetchRequest, FetchTopic
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.relay.exchange import Begin, Client, Exchange, Forward, Outcome, RouteError

OLDEST = FetchRequest.declaration_.versions.low  # type: ignore[union-attr] # older ones have no headers (KIP-82)
FIRST_FLEXIBLE = FetchRequest.declaration_.first_flexible
FIRST_WITH_IDS = first_version(FetchTopic, "topic_id")
REPLICAS_LAST = first_version(FetchRequest, "replica_state")  # who they are is a tagged field from here on
_INT32 = Struct(">i")


class FetchStart(NamedTuple):
    """The beginning of a Fetch request."""

    isolation_level: int  # 1: only committed records (KIP-98)
    session_epoch: int  # 0: a session begins; -1: there is none; otherwise it is continued
    topics_at: int  # of their count
    max_bytes_at: int

    @property
    def continues_session(self) -> bool:
        """Whether the response may have topics that the request does not name."""
        return self.session_epoch > 0


def read_start(version: int, data: bytes, at: int) -> FetchStart:
    """The beginning of the request at data[at].

    Raises:
        CodecError: it is not all there, or cannot be read.
    """
    head = FetchHead.__new__(FetchHead)
    open_fetch(data, at, len(data), version, head)
    return FetchStart(head.isolation_level, head.session_epoch, head.topics_at, head.max_bytes_at)


def limit_size(version: int, frame: bytes, start: FetchStart, max_bytes: int) -> bytes:
    """The request, which asks for no larger response than this: the same object if it did not."""
    at = start.max_bytes_at
    if _INT32.unpack_from(frame, at)[0] <= max_bytes:
        return frame
    return replace_span(frame, at, at + _INT32.size, _INT32.pack(max_bytes))


Hides = Callable[[str], bool]  # whether something of a topic is hidden


def old_exchange(version: int, hides: Hides, max_partitions: int) -> Begin:
    """What looks into requests of this version."""
    return partial(begin_old, version, hides, max_partitions)


def begin_old(
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
