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
from kafka_sidecar.proxy.relay.exchange import Begin, Client, Exchange, Look, Pass, RouteError
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


class Seen(NamedTuple):
    """Whether a tap is to be shown a request, and which later ones of this connection and version besides."""

    is_watched: bool
    alike: Pass | None = None  # those that begin alike; None: it is not known


ANY = Pass(b"")  # all requests of this connection and version
UNWATCHED, WATCHED = Seen(False, ANY), Seen(True, ANY)


class GlancingTap(Tap):
    """A tap that need not be shown requests whose beginning says that nothing in them matters to it."""

    __slots__ = ()

    def glance(self, client: Client, data: bytes, at: int, size: int) -> Seen:
        """Look at a request of ``size`` bytes that begins at data[at], as much of it as has arrived.

        What it says holds as long as the client's names and software, and the route, stay the same.
        """
        raise NotImplementedError


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
    glances: bool = field(init=False)  # the beginning of a request says what has to see it
    passes: bool = field(init=False)  # its requests are relayed and counted, whatever is in them

    def __post_init__(self) -> None:
        object.__setattr__(self, "api", ApiVersion(self.key, self.counts.name, self.version))
        object.__setattr__(self, "glances", self.exchange is not None or isinstance(self.tap, GlancingTap))
        is_looked_into = self.introduces or self.answer is not None or self.exchange is not None or self.tap is not None
        object.__setattr__(self, "passes", not is_looked_into and self.max_bytes == sys.maxsize)

    def seen(self, client: Client, data: bytes, at: int, size: int) -> Seen:
        """What its tap, if it has one, says of a request, as `GlancingTap.glance`."""
        tap = self.tap
        if isinstance(tap, GlancingTap):
            return tap.glance(client, data, at, size)
        return UNWATCHED if tap is None else WATCHED


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


class Known:
    """What is known of requests that begin alike."""

    __slots__ = ("acks", "end", "epoch", "fits", "head", "is_watched", "relays", "route", "start", "tail")

    def __init__(self, route: Route, alike: Pass, start: Callable[[], Exchange] | None) -> None:
        self.route = route
        self.head, self.epoch, self.tail, self.fits = alike.head, alike.epoch, alike.tail, alike.fits
        self.end = CLIENT_ID_AT + len(alike.head)  # in a frame
        self.start = start  # the exchange of each; None: none is needed
        self.relays = False  # whether it looks at the responses alone
        self.is_watched = True  # by the route's tap
        self.acks: int | None = None  # of Produce requests, if they are in the head; any number but 0: not 0

    @property
    def is_kept(self) -> bool:
        """Whether it is no longer than what clients have."""
        return len(self.head) <= MAX_HEAD_BYTES and len(self.tail) <= MAX_HEAD_BYTES


class PrefixMemo:
    """The last prefix of each (api, version) of one connection, valid as long as its `Route` is the same object.

    One comparison says all that is known of a request that begins alike: which exchange it needs, whether it is
    watched, and its acks.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, Known] = {}

    def find(self, route: Route, key_version: int, data: bytes, at: int, size: int) -> Known | None:
        """What is known of requests that begin like the one of ``size`` bytes at data[at]; None: nothing."""
        known = self._known.get(key_version)
        if (
            known is None
            or known.route is not route
            or known.end > size
            or not data.startswith(known.head, at + CLIENT_ID_AT)
            or (known.epoch and not _continues(known, data, at))
            or (known.fits is not None and not known.fits(data, at, size))
        ):
            return None
        return known

    def note(self, key_version: int, new: Known) -> None:
        """What holds for requests that begin like this one; longer beginnings than clients have are not kept."""
        if new.is_kept:
            self._known[key_version] = new
        else:
            self.forget(key_version)

    def clear(self) -> None:
        """Forget all that is known."""
        self._known.clear()

    def forget(self, key_version: int) -> None:
        self._known.pop(key_version, None)


def known_of(route: Route, found: Look | Pass, seen: Seen) -> Known | None:
    """What an exchange's `Begin` and a tap have said of one request, together; None: a later one may be otherwise."""
    alike = seen.alike
    if alike is None:
        return None
    mine = Pass(found.head) if isinstance(found, Look) else found
    # Both hold for the request, so that the longer beginning has the other one in it.
    head, tail = max(mine.head, alike.head, key=len), max(mine.tail, alike.tail, key=len)
    both = Pass(head, mine.epoch or alike.epoch, tail, mine.fits or alike.fits)
    known = Known(route, both, found.start if isinstance(found, Look) else None)
    known.is_watched = seen.is_watched
    known.relays = isinstance(found, Look) and found.relays
    return known


def _continues(known: Known, data: bytes, at: int) -> bool:
    """Whether a fetch session's epoch that is neither its beginning nor its end follows the head, then the tail."""
    at += known.end
    if len(data) < at + EPOCH.size or EPOCH.unpack_from(data, at)[0] <= 0:
        return False
    return data.startswith(known.tail, at + EPOCH.size)
