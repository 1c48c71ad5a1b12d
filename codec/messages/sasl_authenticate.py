"""SaslAuthenticate (36): one exchange of a SASL mechanism (KIP-152)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.schema.fields import binary, int16, int64, string


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = binary("0+")


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = binary("0+")
    session_lifetime_ms: int = int64("1+")
