"""A request and its response that the sidecar looks into: what an exchange needs from outside, and what it decides.

All of it is plain values. An exchange is a pair of generators: each `yield` names a `Need` and gets its result back,
`return` says what becomes of the frame. `exchange_driver.py` runs them; no exchange reads a clock, waits or logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.pieces import Pieces
from kafka_sidecar.plugins.effects import Need, Steps, Work
from kafka_sidecar.proxy.relay.memory_budget import Account


@dataclass(frozen=True, slots=True)
class Closing:
    """Why a connection must end."""

    cause: str  # a label value of kafka_sidecar_disconnects_total
    detail: str  # one sentence for a person
    reason: str = ""  # within the cause, a short fixed word; none: the detail says


class RouteError(CodecError):
    """A request that is not relayed; ``cause`` is a label value of kafka_sidecar_disconnects_total."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class TopicNames(Need):
    """Ask the cluster for the names of these topic ids (16 bytes each). Answered with nothing: look them up again."""

    topic_ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TopicIds(Need):
    """Ask the cluster for the ids of these topics: a dict of those that exist; None where the cluster does not say."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Send(Need):
    """Send requests of our own on this session's connection to the broker, one after the other.

    Answered with the tuple of the broker's response frames, in the same order. Frames begin with their length; each
    is a whole request that gets a response. The client never sees either. If the connection ends first, the exchange
    is closed and `Exchange.lost` is called.

    With ``take`` the exchange goes on at once, and ``take`` is called with each response frame when it comes. The
    exchange may have ended then; nothing may be raised.
    """

    frames: tuple[bytes, ...]
    take: Callable[[bytes], None] | None = None


@dataclass(slots=True)  # a frozen one takes three times as long to create, and each request has one
class Forward:
    """The request goes to the broker: the same object that came in where nothing is changed."""

    frame: bytes
    wants_response: bool = False  # whether `Exchange.response` is to be called


@dataclass(frozen=True, slots=True)
class Respond:
    """The request does not reach the broker; this frame is its response, in the order of the requests (design D6)."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Last:
    """What is left of the request goes to the broker, then both connections end: as a broker does with acks=0."""

    frame: bytes  # empty: nothing is left
    cause: str  # a label value of kafka_sidecar_disconnects_total
    detail: str


Outcome = Forward | Respond | Last

NO_OFFSET = -1
# Large messages by topic (its name or id, as in the frame) and partition: of each its offset, `NO_OFFSET` in a request,
# and the number of its segments in the log, 0 if it is stored as an object.
LargeByPartition = Mapping[tuple[str | bytes, int], Sequence[tuple[int, int]]]
NO_LARGE: LargeByPartition = MappingProxyType({})


class Client(Protocol):
    """The client of a session, as far as it has introduced itself."""

    number: int  # of the connection, as in log lines
    client_id: str | None
    client_software: str | None  # name and version (KIP-511)
    principal: str | None  # "User:alice", once it has logged in
    login: object | None  # what is known of a login that the broker has not finished
    opened: object | None  # the sessions that it has begun here, which rules let it go on with
    fetch_session: FetchSession | None
    host: str | None  # its address
    has_closed: bool  # it sends no more: Kafka's clients read no more then either
    tap_state: object | None  # what taps know of this client id and principal: None again where one changes
    limited: object | None  # the rate limits of this client id and principal: None again where one changes
    fetch_state: object | None  # what stages know of where it reads
    account: Account  # of the memory that is used for it
    reports_running: int  # works that notify interceptors of results and may not have ended
    gates: Sequence[Gate]  # that its requests have to pass now

    def mute(self, until: float, why: str) -> None:
        """Read nothing more of it until then, by the sessions' clock, for the rate limit of this name."""


@dataclass(frozen=True, slots=True)
class FetchSession:
    """What is known of a client's fetch session (KIP-227): its later requests name no topics."""

    began_under: object  # the interceptors that were asked when it began
    is_wanted: bool  # whether they look into one of its topics


class Exchange(Protocol):
    """One request and its response. Frames begin with their length."""

    __slots__ = ()

    def request(self, frame: bytes) -> Steps[Outcome]:
        """What becomes of the client's frame. Called once. Raises CodecError; RouteError ends the connection."""
        ...

    def response(self, frame: bytes) -> Steps[bytes | Pieces]:
        """What the client gets in place of the broker's frame. Called once. Raises CodecError.

        In pieces only if nothing in it has a broker's address: these are replaced in whole frames.
        """
        return frame
        yield

    def unhidden(self, frame: bytes) -> bytes | Pieces:
        """The broker's response with all that producers have sent in its place: large messages whole, their slices
        not there, but nothing hidden from this client. Called after `response`, with the same frame.
        """
        return frame

    def large_messages(self) -> LargeByPartition:
        """Those that it has split, stored or assembled up to now: of the request after `request`, of the response after
        `response`.
        """
        return NO_LARGE

    def lost(self, why: str) -> Work | None:
        """The connection has ended before the response came. `Work` is done in a thread, and not waited for."""
        return None


class FindsLarge(Protocol):
    """A stage at work on one request and its response."""

    large: LargeByPartition = NO_LARGE  # the messages that it has split, stored or assembled


def all_large(runs: Iterable[FindsLarge]) -> LargeByPartition:
    """Those of several stages."""
    found: dict[tuple[str | bytes, int], Sequence[tuple[int, int]]] = {}
    for run in runs:
        for key, messages in run.large.items():
            if messages:
                found[key] = (*found.get(key, ()), *messages)
    return found


R = TypeVar("R", bound=FindsLarge)


class StagedExchange(Exchange, Generic[R]):
    """An exchange that is taken through stages."""

    __slots__ = ("_runs",)

    _runs: Sequence[R]

    def large_messages(self) -> LargeByPartition:
        return all_large(self._runs)


class Gate(Protocol):
    """What requests have to wait for, whatever looks into them: a login that is due on this connection."""

    def holds(self, key: int, is_local: bool) -> bool:
        """Whether requests of this API have to pass. ``is_local``: the sidecar answers them itself."""
        ...

    def enter(self, frame: bytes) -> Steps[Outcome | None]:
        """Let a request pass, or answer it. Raises CodecError; RouteError ends the connection."""
        ...


@dataclass(frozen=True, slots=True)
class Pass:
    """No exchange is needed for the request, nor for later ones of this connection and version that begin alike.

    They begin alike where ``head`` follows the correlation id; if ``epoch`` is set, a positive int32 and ``tail``
    follow after it: the epoch of a fetch session that is continued (KIP-227). ``fits`` is asked besides, if it is
    set, of the request of ``size`` bytes at data[at]: False where not all of it has arrived.
    """

    head: bytes  # from the client id on
    epoch: bool = False
    tail: bytes = b""
    fits: Callable[[bytes, int, int], bool] | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """An exchange is needed for the request, and for later ones of this connection and version that begin alike."""

    head: bytes  # from the client id on
    start: Callable[[], Exchange]  # a new one for each request
    # Whether it looks at their responses alone: later ones go to the broker as they come, and `Exchange.request` is not
    # called.
    relays: bool = False


# Is shown the request of ``size`` bytes that begins at data[at], as much of it as has arrived.
# Answers with the exchange that looks into it, or None: the request is relayed.
Begin = Callable[[bytes, int, int, Client], Exchange | Look | Pass | None]
