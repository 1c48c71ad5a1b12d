"""SaslHandshake (17): the mechanism that a client wants to log in with (KIP-43)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.schema.fields import array, int16, string


class SaslHandshakeRequest(Message, api_key=17, versions="0-1", flexible="none"):
    mechanism: str = string("0+")


class SaslHandshakeResponse(Message, api_key=17, versions="0-1", flexible="none"):
    error_code: int = int16("0+")
    mechanisms: tuple[str, ...] = array(string, "0+")
