"""A request and its response that somebody takes in hand: how that somebody and the session speak with each other.

The session collects both frames whole, in order, and asks what is to become of them. To end the connection at once,
raise `RouteError`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from kafka_sidecar.codec.errors import CodecError


class RouteError(CodecError):
    """A request that is not relayed; ``cause`` is a label value of kafka_sidecar_disconnects_total."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Answer:
    """The request does not reach the broker; this frame is its response, when its turn comes (design D6)."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Last:
    """What is left of the request goes to the broker, then both connections end: as a broker does with acks=0."""

    frame: bytes  # empty: nothing is left
    cause: str  # a label value of kafka_sidecar_disconnects_total
    detail: str


@dataclass(frozen=True, slots=True)
class Hold:
    """It cannot be said yet: this direction of the connection stands still until ``wait()`` is over."""

    wait: Callable[[], Awaitable[None]]  # must end by itself; what it raises ends the connection
    then: Callable[[], Step]  # asked afterwards; may be another Hold


# Bytes: the frame that goes on to the other peer, the very object that came in where nothing is changed.
Step = bytes | Answer | Last | Hold


class Client(Protocol):
    """Whose request it is, as far as the session knows."""

    number: int  # of the connection, as in log lines
    client_id: str | None
    client_software: str | None  # name and version (KIP-511)
    principal: str | None  # "User:alice", where it has authenticated by name
    notes: dict[str, object]  # what those who take its requests in hand have to remember


class Exchange(Protocol):
    """One request and its response. Frames begin with their length."""

    __slots__ = ()

    def request(self, frame: bytes) -> Step:
        """What becomes of the client's frame. Called once. Raises CodecError."""
        ...

    @property
    def wants_response(self) -> bool:
        """Whether `response` is to be called; known once `request` has answered bytes."""
        ...

    def response(self, frame: bytes) -> bytes | Hold:
        """What becomes of the broker's frame; a Hold must end in bytes. Called once. Raises CodecError."""
        ...

    def lost(self, why: str) -> None:
        """The connection has ended before the response came."""
        return


@dataclass(frozen=True, slots=True)
class Passes:
    """Nobody takes the request in hand, nor any later one of this kind and connection that begins alike."""

    head: bytes  # from the client id on


# Is shown the request of ``size`` bytes that begins at data[at], as much of it as is here: who takes it in hand?
Begin = Callable[[bytes, int, int, Client], Exchange | Passes | None]
