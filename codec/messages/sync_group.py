"""SyncGroup (14): the response with a member's assignment."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.schema.fields import binary, int16, int32, string


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignment: bytes = binary("0+")
