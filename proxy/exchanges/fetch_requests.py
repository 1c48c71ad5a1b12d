"""What a Fetch request says before its topics: whether its session is continued, and which records it wants.

    header | [replica id int32] | max wait int32 | min bytes int32 | max bytes int32 | isolation level int8 |
    [session id int32 | session epoch int32] | topics (count; name or id, partitions, [tags]) | ...

A client that keeps a fetch session (KIP-227) names its topics once; what it reads is only seen in the responses.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from kafka_sidecar.codec.envelope import replace_span
from kafka_sidecar.codec.errors import TruncatedError
from kafka_sidecar.codec.fetch_positions import NO_SESSION
from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.fetch import FetchRequest, FetchTopic, ReplicaState
from kafka_sidecar.codec.wire import skip_tags
from kafka_sidecar.proxy.relay.acks import CLIENT_ID_AT

OLDEST = FetchRequest.declaration_.versions.low  # type: ignore[union-attr] # older ones have no headers (KIP-82)
FIRST_FLEXIBLE = FetchRequest.declaration_.first_flexible
FIRST_WITH_SESSIONS = first_version(FetchRequest, "session_epoch")
FIRST_WITH_IDS = first_version(FetchTopic, "topic_id")
FIRST_WITHOUT_REPLICA = first_version(ReplicaState, "replica_id")
EPOCH_SIZE = 4
_INT16, _INT32 = Struct(">h"), Struct(">i")
BETWEEN, BETWEEN_WITHOUT_SESSION = 9, 1  # bytes between max bytes and topics: isolation level, session
_START, _START_WITHOUT_SESSION, _START_WITHOUT_REPLICA = Struct(">16xb4xi"), Struct(">16xb"), Struct(">12xb4xi")


class FetchStart(NamedTuple):
    """The beginning of a Fetch request."""

    isolation_level: int  # 1: only committed records (KIP-98)
    session_epoch: int  # 0: a session begins; -1: there is none; otherwise it is continued
    topics_at: int  # of their count, which follows the epoch

    @property
    def continues_session(self) -> bool:
        """Whether the response may have topics that the request does not name."""
        return self.session_epoch > 0


def read_start(version: int, data: bytes, at: int) -> FetchStart:
    """The beginning of the request at data[at].

    Raises:
        CodecError: it is not all there, or cannot be read.
    """
    try:
        (length,) = _INT16.unpack_from(data, at + CLIENT_ID_AT)
        here = at + CLIENT_ID_AT + _INT16.size + max(length, 0)
        if version >= FIRST_FLEXIBLE:
            here = skip_tags(data, here) if data[here] else here + 1
        if version < FIRST_WITH_SESSIONS:
            (isolation_level,) = _START_WITHOUT_SESSION.unpack_from(data, here)
            return FetchStart(isolation_level, NO_SESSION, here + _START_WITHOUT_SESSION.size)
        start = _START if version < FIRST_WITHOUT_REPLICA else _START_WITHOUT_REPLICA
        isolation_level, epoch = start.unpack_from(data, here)
        return FetchStart(isolation_level, epoch, here + start.size)
    except (IndexError, struct_error):
        raise TruncatedError("a Fetch request ends before its topics") from None


def limit_size(version: int, frame: bytes, start: FetchStart, max_bytes: int) -> bytes:
    """The request, which asks for no larger response than this: the same object if it did not."""
    at = start.topics_at - (BETWEEN if version >= FIRST_WITH_SESSIONS else BETWEEN_WITHOUT_SESSION) - _INT32.size
    if _INT32.unpack_from(frame, at)[0] <= max_bytes:
        return frame
    return replace_span(frame, at, at + _INT32.size, _INT32.pack(max_bytes))


def no_topics(version: int) -> bytes:
    """The count of a request that names no topic."""
    return b"\1" if version >= FIRST_FLEXIBLE else bytes(4)
