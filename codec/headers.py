"""The headers of requests and responses."""

from __future__ import annotations

from struct import Struct as Format

from kafka_sidecar.codec.apis import request_header_version
from kafka_sidecar.codec.errors import TruncatedError
from kafka_sidecar.codec.message import Buffer, Message, reader
from kafka_sidecar.codec.schema.fields import int16, int32, string

_ROUTE = Format(">hh")


class RequestHeader(Message, versions="1-2", flexible="2+"):
    api_key: int = int16("0+")
    api_version: int = int16("0+")
    correlation_id: int = int32("0+")
    # Not compact in any version: a broker must be able to read it also in versions that it does not support.
    client_id: str | None = string("1+", nullable="1+", flexible="none")


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    correlation_id: int = int32("0+")


def decode_request_header(data: Buffer, at: int = 0) -> tuple[RequestHeader, int]:
    """The header of the request at ``at`` (after the frame's length), and the position of its body.

    Raises:
        CodecError: these bytes are not a header of a known API.
    """
    if len(data) - at < _ROUTE.size:
        raise TruncatedError("a request ends before its API version")
    key, version = _ROUTE.unpack_from(data, at)
    return reader(RequestHeader, request_header_version(key, version))(data, at)
