"""A look at a Fetch request that costs little: which topics it names, and whether its session may bring others.

A client that keeps a fetch session (KIP-227) names its topics once; what it reads is only seen in the responses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from struct import Struct
from struct import error as struct_error

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.headers import decode_request_header
from kafka_sidecar.codec.message import Skipper, skipper
from kafka_sidecar.codec.messages.fetch import FetchRequest, FetchTopic
from kafka_sidecar.proxy.exchanges.request_topics import number_of_topics, topic_named

FIRST_WITH_SESSIONS, FIRST_FLEXIBLE, FIRST_WITH_IDS = 7, 12, 13
OLDEST = 4  # which interceptors can read: what is older carries no headers (KIP-82)
SESSION = Struct(">ii")
LENGTH_SIZE = 4
NO_SESSION = -1  # an epoch: the request stands for itself


@dataclass(frozen=True, slots=True)
class Glance:
    """What a request says of what is wanted."""

    session_epoch: int  # 0: a session begins; -1: none; more: it goes on
    topics: tuple[str | bytes, ...]  # names, or since v13 ids
    epoch_at: int = 0  # where the session's epoch is; 0: there is none
    named_to: int = 0  # where the name of the first topic ends

    @property
    def goes_on(self) -> bool:
        """Whether the response may hold topics that this request does not name."""
        return self.session_epoch > 0


@cache
def _steps(version: int) -> tuple[Skipper | None, Skipper, Skipper]:
    """From the start of the body to the session id, from there to the topics, over a topic behind its name."""
    to_session = skipper(FetchRequest, version, before="session_id") if version >= FIRST_WITH_SESSIONS else None
    to_topics = skipper(FetchRequest, version, "session_epoch" if to_session else None, before="topics")
    named = "topic_id" if version >= FIRST_WITH_IDS else "topic"
    return to_session, to_topics, skipper(FetchTopic, version, after=named)


def glance(version: int, data: bytes, at: int, size: int) -> Glance | None:
    """The request of ``size`` bytes at data[at]; None: not all of it is here, or it cannot be read."""
    if len(data) < at + size:
        return None
    try:
        to_session, to_topics, over_topic = _steps(version)
        _, here = decode_request_header(data, at + LENGTH_SIZE)
        epoch, epoch_at, named_to = NO_SESSION, 0, 0
        if to_session is not None:
            here = to_session(data, here)
            _, epoch = SESSION.unpack_from(data, here)
            here, epoch_at = here + SESSION.size, here + SESSION.size // 2
        here = to_topics(data, here)
        count, here = number_of_topics(data, here, version >= FIRST_FLEXIBLE)
        topics: list[str | bytes] = []
        for _ in range(count):
            name, here = topic_named(data, here, version >= FIRST_FLEXIBLE, version >= FIRST_WITH_IDS)
            topics.append(name)
            named_to = named_to or here
            here = over_topic(data, here)
    except (CodecError, IndexError, ValueError, struct_error):
        return None
    return Glance(epoch, tuple(topics), epoch_at, named_to)


def no_topics(version: int) -> bytes:
    """How a request says that it names no topic."""
    return bytes((1,)) if version >= FIRST_FLEXIBLE else bytes(4)
