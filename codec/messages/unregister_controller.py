"""UnregisterController (94): a controller that is gone for good."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.schema.fields import int16, int32, string


class UnregisterControllerResponse(Message, api_key=94, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
