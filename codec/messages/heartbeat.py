"""Heartbeat (12): the response to a member of a group."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.schema.fields import int16, int32


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")
