"""Messages out of whole frames, and back into them."""

from __future__ import annotations

from typing import TypeVar

from kafka_sidecar.codec.apis import response_header_version
from kafka_sidecar.codec.headers import RequestHeader, ResponseHeader, decode_request_header
from kafka_sidecar.codec.message import Message, decode, encode
from kafka_sidecar.proxy.nodes.rewrites import body_of, splice
from kafka_sidecar.proxy.relay.frames import LENGTH, framed

M = TypeVar("M", bound=Message)


class Body:
    """Where one message stands in its frame."""

    __slots__ = ("_end", "_frame", "_start", "_version")

    def __init__(self, frame: bytes, start: int, end: int, version: int) -> None:
        self._frame, self._start, self._end, self._version = frame, start, end, version

    def replaced(self, message: Message) -> bytes:
        """The frame with another message in this one's place; the frame itself where it is the same."""
        return splice(self._frame, self._start, self._end, encode(message, self._version))


def request_in(frame: bytes, cls: type[M], version: int) -> tuple[RequestHeader, M, Body]:
    """Raises CodecError."""
    header, start = decode_request_header(frame, LENGTH.size)
    message, end = decode(cls, frame, version, start)
    return header, message, Body(frame, start, end, version)


def response_in(frame: bytes, cls: type[M], key: int, version: int) -> tuple[M, Body]:
    """Raises CodecError."""
    start = body_of(key, version)(frame, 0)
    message, end = decode(cls, frame, version, start)
    return message, Body(frame, start, end, version)


def response_frame(header: RequestHeader, response: Message) -> bytes:
    """The whole response to the request with this header."""
    key, version = header.api_key, header.api_version
    begin = encode(ResponseHeader(correlation_id=header.correlation_id), response_header_version(key, version))
    return framed(begin, encode(response, version))
