"""A request and its response as messages: decoded within limits, taken through stages, encoded again if one changed it.

    request --> counted --> decoded once --> each stage, in order --> encoded once --> broker
    client <-- encoded once <-- each stage, in reverse <-- decoded once <-- broker's response

All APIs but Produce and Fetch, of whose frames only parts are decoded, are looked into like this. A stage cannot read a
message in any other way, so none is without limits: elements are counted from the bytes before one is decoded, many are
decoded and encoded in a thread, and a frame that no stage changes is the same object (D1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import (
    Opened,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    open_request,
    response_body_at,
)
from kafka_sidecar.codec.errors import TooManyError
from kafka_sidecar.codec.message import Message, counter
from kafka_sidecar.codec.pieces import Pieces, whole
from kafka_sidecar.codec.wire import NO_ID, UNLIMITED
from kafka_sidecar.plugins.effects import Steps, Work
from kafka_sidecar.proxy.config.principal_rules import UNKNOWN_LOGIN
from kafka_sidecar.proxy.exchanges.limits import DEFAULT_LIMITS, MAX_INLINE_ELEMENTS, Limits, offload
from kafka_sidecar.proxy.relay.exchange import (
    Begin,
    Client,
    Exchange,
    FindsLarge,
    Forward,
    Outcome,
    Respond,
    Send,
    StagedExchange,
    TopicNames,
)

M = TypeVar("M", bound=Message)
SMALL_BYTES = 4 << 10  # of a frame that cannot have many elements, whatever it says


def resolve(ids: Iterable[bytes], name_of: Callable[[bytes], str | None]) -> Steps[None]:
    """Ask the cluster for the names of those topic ids (16 bytes each) that are not known here."""
    if unknown := tuple(dict.fromkeys(one for one in ids if one != NO_ID and name_of(one) is None)):
        yield TopicNames(unknown)


class OpenMessage:
    """A request or a response as the stages before have left it."""

    __slots__ = ("_changed", "_frame", "_limit", "_opened", "_version", "correlation_id", "elements")

    def __init__(self, frame: bytes, version: int, limit: int | None, correlation_id: int) -> None:
        """``limit``: how many elements arrays of one name may have in a request; None: it is a response."""
        self._frame = frame
        self._version = version
        self._limit = limit
        self._opened: Opened[Any] | None = None
        self._changed: Message | None = None
        self.correlation_id = correlation_id
        self.elements = 0  # of its arrays, once it is read

    def read(self, of: type[M]) -> Steps[M]:
        """The message, decoded at the first call.

        Raises:
            TooManyError: it has too many elements. Nothing of it is decoded.
            CodecError: it is no such message.
        """
        if self._changed is not None:
            return cast("M", self._changed)
        if self._opened is None:
            limit = UNLIMITED if self._limit is None else self._limit
            inline = min(limit, MAX_INLINE_ELEMENTS) if len(self._frame) > SMALL_BYTES else limit
            try:
                self.elements = self._count(of, inline)
            except TooManyError:
                if inline == limit:
                    raise  # otherwise they are many, and counted in a thread
                count_and_decode = Work(lambda: (self._count(of, limit), self._decode(of)), is_light=True)
                self.elements, self._opened = yield count_and_decode
            else:
                self._opened = yield from offload(partial(self._decode, of), self.elements)
        return cast("M", self._opened.message)

    def _count(self, of: type[Message], limit: int) -> int:
        frame, version = self._frame, self._version
        if self._limit is not None:
            at = open_request(frame).body_at
        else:
            at = response_body_at(of.declaration_.api_key or 0, version, frame)
        return counter(of, version)(frame, at, limit)

    def _decode(self, of: type[M]) -> Opened[M]:
        if self._limit is not None:
            return decode_request(of, self._frame)[1]
        return decode_response(of, self._frame, self._version)

    @property
    def size(self) -> int:
        """Bytes of the frame, as the last stage that has asked for it has seen it."""
        return len(self._frame)

    def replace(self, message: Message) -> None:
        """Send this message instead. The stages that follow see it."""
        self._changed = message

    def ask(self, question: Message, version: int, client: Client) -> Steps[bytes]:
        """The broker's response to a request of the sidecar's own, which has about as many elements as this one."""
        encode = partial(encode_request, question, version, self.correlation_id, client.client_id)
        (answer,) = yield Send(((yield from offload(encode, self.elements)),))
        return cast("bytes", answer)

    def frame(self) -> Steps[bytes]:
        """The frame with what the stages up to now have changed."""
        if (message := self._changed) is not None:
            if self._opened is not None:
                self._frame = yield from offload(partial(self._opened.with_message, message), self.elements)
            else:
                encode = partial(encode_response, message, self._version, self.correlation_id)
                self._frame = yield from offload(encode, self.elements)
            self._changed = self._opened = None
        return self._frame

    def replace_frame(self, frame: bytes) -> None:
        """Send this frame instead, which was made of `frame`'s."""
        if frame is not self._frame:
            self._frame, self._opened = frame, None


class MessageRun(FindsLarge):
    """One stage at work on one request and its response. A stage defines what it does; all else passes."""

    __slots__ = ()

    @property
    def wants_response(self) -> bool:
        """Whether `response` is to be called."""
        return False

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        """Do the stage's part: look, change, remember. A message: the response, instead of the broker's.

        Raises RouteError where the connection has to end; CodecError.
        """
        return None
        yield

    def response(self, response: OpenMessage) -> Steps[None]:
        """Do the stage's part in the broker's response, or in one of a stage that comes later. Raises CodecError."""
        return
        yield

    def unhidden(self, frame: bytes) -> bytes:
        """As `Exchange.unhidden`, of one stage."""
        return frame

    def lost(self, why: str) -> Work | None:
        """The connection has ended before the response came."""
        return None


# What a feature does with the requests of one or several APIs: begins with one of this client and version. None: it and
# its response are of no interest.
MessageStage = Callable[[Client, int], MessageRun | None]


class MessageRuns:
    """The stages at work on one request and its response."""

    __slots__ = ("_limits", "_version", "runs")

    def __init__(self, runs: Sequence[MessageRun], version: int, limits: Limits) -> None:
        self.runs = runs
        self._version = version
        self._limits = limits

    def request(self, frame: bytes) -> Steps[Forward | Respond]:
        """What becomes of the client's frame."""
        correlation_id = open_request(frame).correlation_id
        request = OpenMessage(frame, self._version, self._limits.max_partitions, correlation_id)
        for at, run in enumerate(self.runs):
            if (answer := (yield from run.request(request))) is not None:
                self.runs = self.runs[:at]  # the others have not seen the request
                response = OpenMessage(b"", self._version, None, correlation_id)
                response.elements = request.elements
                response.replace(answer)
                return Respond((yield from self._answered(response)))
        frame = yield from request.frame()
        return Forward(frame, self.wants_response)

    @property
    def wants_response(self) -> bool:
        return any(run.wants_response for run in self.runs)

    def response(self, frame: bytes) -> Steps[bytes]:
        """What becomes of the broker's frame."""
        return (yield from self._answered(OpenMessage(frame, self._version, None, 0)))

    def _answered(self, response: OpenMessage) -> Steps[bytes]:
        for run in reversed(self.runs):
            if run.wants_response:
                yield from run.response(response)
        return (yield from response.frame())


class MessageExchanges:
    """The exchanges of one API. The stages are those of D8, in their order."""

    def __init__(self, stages: Sequence[MessageStage], limits: Limits = DEFAULT_LIMITS) -> None:
        self.stages = stages
        self._limits = limits

    def exchange(self, version: int) -> Begin:
        """The beginning of an exchange of this version."""
        return partial(self.begin, version)

    def begin(self, version: int, data: bytes, at: int, size: int, client: Client) -> Exchange | None:
        """As `exchange.Begin`, for one version."""
        runs = [run for stage in self.stages if (run := stage(client, version)) is not None]
        return MessageExchange(runs, version, self._limits) if runs else None


class MessageExchange(StagedExchange[MessageRun]):
    """One request and its response."""

    __slots__ = ("_messages",)

    def __init__(self, runs: Sequence[MessageRun], version: int, limits: Limits = DEFAULT_LIMITS) -> None:
        self._runs = runs
        self._messages = MessageRuns(runs, version, limits)

    def request(self, frame: bytes) -> Steps[Outcome]:
        return (yield from self._messages.request(frame))

    def response(self, frame: bytes) -> Steps[bytes | Pieces]:
        return (yield from self._messages.response(frame))

    def unhidden(self, frame: bytes) -> bytes | Pieces:
        for run in self._messages.runs:
            frame = run.unhidden(whole(frame))
        return frame

    def lost(self, why: str) -> Work | None:
        works = [work for run in self._messages.runs if (work := run.lost(why)) is not None]
        return Work(lambda: [work.run() for work in works], must_run=True) if works else None


ANONYMOUS = "User:ANONYMOUS"  # a client that has not logged in, as in Kafka
UNKNOWN = UNKNOWN_LOGIN  # one whose name only the broker knows; no user is called so: these begin with User:
TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32  # Kafka's ConfigResource.Type
NO_TOPIC = "-/-"  # no topic can have this name, so no broker creates it


@dataclass(frozen=True, slots=True)
class Rejection:
    """The error that a client gets for a request, or for an element of one."""

    error_code: int
    message: str


UNKNOWN_ID = Rejection(ErrorCode.UNKNOWN_TOPIC_ID, "the topic's id is not known here")
