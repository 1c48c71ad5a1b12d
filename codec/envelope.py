"""Frames: the header and the message of one, and edits in its bytes.

    request frame:   length int32 | api key int16 | api version int16 | correlation id int32 |
                     client id nullable string | [tags] | body
    response frame:  length int32 | correlation id int32 | [tags] | body

A frame here is complete and begins with its length. Bytes outside of an edit are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from struct import Struct as Format
from typing import Generic, TypeVar

from kafka_sidecar.codec.apis import request_header_version, response_header_version
from kafka_sidecar.codec.cursor import cursor_at
from kafka_sidecar.codec.headers import RequestHeader, ResponseHeader
from kafka_sidecar.codec.large_bytes import join
from kafka_sidecar.codec.message import Buffer, Message, decode, encode
from kafka_sidecar.codec.messages.produce import ProduceRequest
from kafka_sidecar.codec.scan import ProduceSpans
from kafka_sidecar.codec.wire import CLIENT_ID_AT, LENGTH, LENGTH_SIZE, write_uvarint

M = TypeVar("M", bound=Message)
Edit = tuple[int, int, Buffer]  # start, end, replacement

_ROUTE = Format(">hh")
_CORRELATION_AT = _RESPONSE_BODY_AT = 8
MIN_VIEW_BYTES = 64 << 10  # from this size on slices of a memoryview are cheaper than copies


class OpenRequest:
    """The header of a request, whose fields are read on access."""

    __slots__ = ("body_at", "frame")

    frame: bytes
    body_at: int  # where the message begins

    @property
    def api_key(self) -> int:
        return self._integer(LENGTH_SIZE, 2)

    @property
    def api_version(self) -> int:
        return self._integer(LENGTH_SIZE + 2, 2)

    @property
    def correlation_id(self) -> int:
        return self._integer(_CORRELATION_AT, 4)

    @property
    def client_id(self) -> str | None:
        return cursor_at(self.frame, CLIENT_ID_AT, len(self.frame), False).string(True, "client_id")

    @property
    def header(self) -> bytes:
        """Everything between the length and the message."""
        return self.frame[LENGTH_SIZE : self.body_at]

    def _integer(self, at: int, size: int) -> int:
        return cursor_at(self.frame, at, len(self.frame), False).integer(size)


def open_request(frame: bytes) -> OpenRequest:
    """The header of a request frame.

    Raises:
        CodecError: these bytes are no header of a known API.
    """
    cursor = cursor_at(frame, CLIENT_ID_AT, len(frame), False)
    cursor.skip(cursor.length(2, True, "client_id"))
    cursor.flexible = _request_has_tags(frame[LENGTH_SIZE:_CORRELATION_AT])
    cursor.skip_tags()
    request = OpenRequest.__new__(OpenRequest)
    request.frame = frame
    request.body_at = cursor.at
    return request


@lru_cache(1024)
def _request_has_tags(route: bytes) -> bool:
    return request_header_version(*_ROUTE.unpack(route)) > 1


def response_body_at(key: int, version: int, data: bytes, start: int = 0) -> int:
    """The position of the message of the response frame at ``start``.

    Raises:
        CodecError: the bytes end before it, or there is no such API.
    """
    cursor = cursor_at(data, start + _RESPONSE_BODY_AT, len(data), _response_has_tags(key, version))
    cursor.skip_tags()
    return cursor.at


@lru_cache(1024)
def _response_has_tags(key: int, version: int) -> bool:
    return response_header_version(key, version) > 0


class Opened(Generic[M]):
    """The decoded message of a frame, and its position."""

    __slots__ = ("_end", "_start", "_version", "frame", "message")

    def __init__(self, frame: bytes, message: M, start: int, end: int, version: int) -> None:
        self.frame = frame
        self.message = message
        self._start = start
        self._end = end
        self._version = version

    def with_message(self, message: M) -> bytes:
        """The frame with another message in place of this one; the same object if the bytes are equal."""
        return replace_span(self.frame, self._start, self._end, encode(message, self._version))


def decode_request(cls: type[M], frame: bytes) -> tuple[OpenRequest, Opened[M]]:
    """The header and the message of a request frame; the version is the header's.

    Raises:
        CodecError: these bytes are no such request.
    """
    request = open_request(frame)
    version = request.api_version
    message, end = decode(cls, frame, version, request.body_at)
    return request, Opened(frame, message, request.body_at, end, version)


def decode_response(cls: type[M], frame: bytes, version: int) -> Opened[M]:
    """The message of a response frame.

    Raises:
        CodecError: these bytes are no such response.
    """
    start = response_body_at(_key(cls), version, frame)
    message, end = decode(cls, frame, version, start)
    return Opened(frame, message, start, end, version)


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The frame of a request."""
    key = _key(type(message))
    header = RequestHeader(api_key=key, api_version=version, correlation_id=correlation_id, client_id=client_id)
    return join_frame(encode(header, request_header_version(key, version)), encode(message, version))


def encode_response(message: Message, version: int, correlation_id: int) -> bytes:
    """The frame of a response."""
    header = ResponseHeader(correlation_id=correlation_id)
    before = encode(header, response_header_version(_key(type(message)), version))
    return join_frame(before, encode(message, version))


def _key(cls: type[Message]) -> int:
    key = cls.declaration_.api_key
    if key is None:
        raise TypeError(f"{cls.__name__} has no API key")
    return key


def join_frame(header: bytes, body: bytes) -> bytes:
    """A complete frame.

    >>> join_frame(b"head", b"body")
    b'\\x00\\x00\\x00\\x08headbody'
    """
    return join((LENGTH.pack(len(header) + len(body)), header, body))


def splice(frame: bytes, edits: Iterable[Edit]) -> bytes:
    """The frame with ``frame[start:end]`` replaced for each edit, and its length corrected; the same object if none.

    Raises:
        ValueError: the edits are not in order, or overlap.
    """
    parts = spliced(frame, edits)
    return frame if len(parts) == 1 else join(parts)


def spliced(frame: bytes, edits: Iterable[Edit]) -> list[Buffer]:
    """As `splice`, in parts that are not joined: the frame alone if there are no edits.

    Raises:
        ValueError: the edits are not in order, or overlap.
    """
    data = frame if len(frame) < MIN_VIEW_BYTES else memoryview(frame)
    parts: list[Buffer] = [b""]
    at, size = LENGTH_SIZE, len(frame) - LENGTH_SIZE
    for start, end, new in edits:
        if not at <= start <= end <= len(frame):
            raise ValueError(f"an edit of {start} to {end} after {at}, of {len(frame)} bytes")
        parts += (data[at:start], new)
        size += len(new) - (end - start)
        at = end
    if len(parts) == 1:
        return [frame]
    parts[0] = LENGTH.pack(size)
    parts.append(data[at:])
    return parts


def replace_span(frame: bytes, start: int, end: int, new: bytes) -> bytes:
    """The frame with ``new`` in place of ``frame[start:end]``; the same object if these are equal."""
    is_same = end - start == len(new) and frame[start:end] == new
    return frame if is_same else splice(frame, [(start, end, new)])


def records_field(records: bytes | memoryview | None, flexible: bool) -> bytes:
    """A records field, from ``records_at`` to ``records_end``: its length, and the records."""
    if records is None:
        return b"\0" if flexible else b"\xff\xff\xff\xff"
    size = len(records)
    return join((write_uvarint(size + 1) if flexible else LENGTH.pack(size), records))


def array_count(count: int, flexible: bool) -> bytes:
    """The number of elements before an array."""
    return write_uvarint(count + 1) if flexible else LENGTH.pack(count)


def edits_without(spans: ProduceSpans, version: int, dropped: Collection[tuple[int, int]]) -> list[Edit] | None:
    """The edits that remove partitions from a Produce request, and topics without any left; None if none is left.

    Args:
        spans: from `scan_produce` of the frame.
        dropped: (index of the topic, index of the partition in the topic), as in ``spans``.
    """
    if not dropped:
        return []
    flexible = ProduceRequest.declaration_.is_flexible(version)
    edits: list[Edit] = []
    kept_topics = 0
    for topic_at, topic in enumerate(spans.topics):
        gone = [partition for at, partition in enumerate(topic.partitions) if (topic_at, at) in dropped]
        kept = len(topic.partitions) - len(gone)
        if not kept:
            edits.append((topic.start, topic.end, b""))
            continue
        kept_topics += 1
        if gone:
            edits.append((topic.partitions_at, topic.partitions[0].start, array_count(kept, flexible)))
            edits += [(partition.start, partition.end, b"") for partition in gone]
    if not kept_topics:
        return None
    if kept_topics < len(spans.topics):
        edits.insert(0, (spans.topics_at, spans.topics[0].start, array_count(kept_topics, flexible)))
    return edits


def without(frame: bytes, spans: ProduceSpans, version: int, dropped: Collection[tuple[int, int]]) -> bytes:
    """A Produce request frame without some of its partitions; empty if no partition is left."""
    edits = edits_without(spans, version, dropped)
    return splice(frame, edits) if edits is not None else b""
