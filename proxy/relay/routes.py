"""What is done with each (api, version): relayed by its header alone, or looked into.

The table is the sidecar's whole view of the protocol: a pair without a row is not relayed. Rows are made on first use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.pieces import Pieces
from kafka_sidecar.codec.response_status import status_fields
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.relay.acks import CLIENT_ID_AT
from kafka_sidecar.proxy.relay.exchange import Begin, Look, Pass, RouteError
from kafka_sidecar.proxy.relay.frames import Edit
from kafka_sidecar.proxy.relay.watch import Tap
from kafka_sidecar.proxy.telemetry.metrics import ApiCounts, Metrics

NEWEST_API_VERSIONS = APIS[ApiKey.API_VERSIONS].max_version

MAX_LOGIN_BYTES = 512 << 10  # of a SASL request, its length not counted: Kafka's sasl.server.max.receive.size
MAX_HEAD_BYTES = 4096  # of a request: client id, transactional id, the name of a topic
EPOCH = Struct(">i")

# Versions that stay hidden although their headers could be relayed.
CAPS: dict[int, tuple[int, int]] = {
    # v0 is followed by tokens that are no Kafka frames: they could not be distinguished from requests.
    ApiKey.SASL_HANDSHAKE: (1, APIS[ApiKey.SASL_HANDSHAKE].max_version),
    # v0 was an early access of Kafka 4.0 and 4.1 that differs; it names brokers too.
    ApiKey.SHARE_FETCH: (1, APIS[ApiKey.SHARE_FETCH].max_version),
    ApiKey.SHARE_ACKNOWLEDGE: (1, APIS[ApiKey.SHARE_ACKNOWLEDGE].max_version),
}

# Spoken between brokers and controllers only; answers of some carry addresses.
HIDDEN = frozenset(
    {
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.ENVELOPE,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """How the response of one (api, version) is edited."""

    apply: Callable[[bytes], bytes]  # the whole frame -> what is sent instead
    # The same of a frame that is long, in which there may be very many brokers, or much to be copied.
    steps: Callable[[bytes], Steps[bytes | Pieces]] | None = None
    # Whether the whole frame data[start:end] has to be edited at all; None: always.
    wanted: Callable[[bytes, int, int], bool] | None = None
    # The edit of a frame that is long and not here yet: it lets the frame pass in pieces, so its size has no limit.
    stream: Callable[[], Edit] | None = None


class ApiVersion(NamedTuple):
    """What may be kept of a row once its requests are done: the row itself refers to policies and interceptors."""

    key: int
    name: str  # as in Kafka's documentation
    version: int


@dataclass(frozen=True, slots=True)
class Route:
    """One row: (api, version)."""

    key: int
    version: int
    counts: ApiCounts
    is_produce: bool = False  # its acks say whether there is an answer
    introduces: bool = False  # says who the client is
    max_bytes: int = sys.maxsize  # of a request
    answer: Callable[[int], bytes] | None = None  # answered here: correlation id -> frame
    rewrite: Rewrite | None = None
    exchange: Begin | None = None
    tap: Tap | None = None  # watches requests and responses
    has_status: bool = False  # its responses begin with throttle time or error code
    api: ApiVersion = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "api", ApiVersion(self.key, self.counts.name, self.version))


def versions(key: int) -> tuple[int, int] | None:
    """Oldest and newest version of an API that is relayed; None: the API is hidden.

    Versions older than Kafka 4 still knows have no flexible fields and no addresses beside those that are read.
    """
    if key not in APIS or key in HIDDEN or APIS[key].max_version < 0:
        return None
    return CAPS.get(key, (0, APIS[key].max_version))


class Routes:
    """The rows of one process, each made once."""

    def __init__(
        self,
        metrics: Metrics,
        rewrite: Callable[[int, int], Rewrite | None],
        answer: Callable[[int, int], Callable[[int], bytes] | None],
        exchange: Callable[[int, int], Begin | None] = lambda key, version: None,
        tap: Callable[[int, int], Tap | None] = lambda key, version: None,
    ) -> None:
        self._metrics = metrics
        self._rewrite = rewrite
        self._answer = answer
        self._exchange = exchange
        self._tap = tap
        self._table: dict[int, Route] = {}
        self.get = self._table.get  # (api key << 16 | version) -> Route | None, where it was made before

    def forget(self) -> None:
        """Make every row again when it is needed next: what is looked into has changed."""
        self._table.clear()

    def add(self, key_version: int) -> Route:
        """The row of a pair that has been asked for the first time; RouteError where it is not relayed."""
        key, version = key_version >> 16, key_version & 0xFFFF
        served = versions(key)
        if served is None:
            raise RouteError("unsupported_api", f"api key {key} is not relayed")
        answer = self._answer(key, version)
        if not served[0] <= version <= served[1] and answer is None:
            raise RouteError(
                "unsupported_version",
                f"{APIS[key].name} version {version} is not relayed, only {served[0]} to {served[1]}",
            )
        route = Route(
            key,
            version,
            self._metrics.api(key, APIS[key].name),
            is_produce=key == ApiKey.PRODUCE,
            introduces=key == ApiKey.API_VERSIONS,
            max_bytes=MAX_LOGIN_BYTES if key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE) else sys.maxsize,
            answer=answer,
            rewrite=None if answer else self._rewrite(key, version),
            exchange=None if answer else self._exchange(key, version),
            tap=None if answer else self._tap(key, version),
            has_status=status_fields(key, version) != "",
        )
        self._table[key_version] = route
        return route


class PrefixMemo:
    """The last prefix of each (api, version) of one connection, valid as long as its `Route` is the same object."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[Route, bytes, Look | Pass]] = {}

    def find(self, route: Route, key_version: int, data: bytes, at: int) -> Look | Pass | None:
        """What is known of requests that begin like the one at data[at]; None: nothing."""
        known = self._known.get(key_version)
        if known is None or known[0] is not route or not data.startswith(known[1], at + CLIENT_ID_AT):
            return None
        found = known[2]
        if found.__class__ is Pass and found.epoch and not _continues(found, data, at + CLIENT_ID_AT):
            return None
        return found

    def note(self, route: Route, key_version: int, new: Look | Pass) -> None:
        """What holds for requests that begin like this one; longer beginnings than clients have are not kept."""
        if len(new.head) > MAX_HEAD_BYTES or (isinstance(new, Pass) and len(new.tail) > MAX_HEAD_BYTES):
            self._known.pop(key_version, None)
            return
        self._known[key_version] = route, new.head, new

    def clear(self) -> None:
        """Forget all that is known."""
        self._known.clear()

    def forget(self, key_version: int) -> None:
        self._known.pop(key_version, None)


def _continues(known: Pass, data: bytes, at: int) -> bool:
    """Whether a fetch session's epoch that is neither its beginning nor its end follows the head, then the tail."""
    at += len(known.head)
    if len(data) < at + EPOCH.size or EPOCH.unpack_from(data, at)[0] <= 0:
        return False
    return data.startswith(known.tail, at + EPOCH.size)
