"""A fake broker that requires PLAIN with one password."""

from __future__ import annotations

from datetime import timedelta

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import decode_request
from kafka_sidecar.codec.messages.sasl_authenticate import SaslAuthenticateRequest
from support import oracle
from support.fake_broker import FakeBroker, Request

PASSWORD = "hush-hush"
FAILED, ILLEGAL_STATE = 58, 34
SASL = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


def secured(broker: FakeBroker, lifetime_s: float = 0.0) -> FakeBroker:
    """Let the broker accept one password."""

    async def handshake(_: FakeBroker, asked: Request) -> bytes:
        answer = oracle.response(ApiKey.SASL_HANDSHAKE, asked.version, mechanisms=["PLAIN"])
        return oracle.response_frame(answer, asked.correlation_id)

    async def authenticate(_: FakeBroker, asked: Request) -> bytes:
        is_right = decode_request(SaslAuthenticateRequest, asked.frame)[1].message.auth_bytes.endswith(
            b"\0" + PASSWORD.encode()
        )
        answer = oracle.response(
            ApiKey.SASL_AUTHENTICATE,
            asked.version,
            error_code=0 if is_right else FAILED,
            error_message=None if is_right else "Invalid username or password",
            session_lifetime=timedelta(seconds=lifetime_s),
        )
        return oracle.response_frame(answer, asked.correlation_id)

    broker.answers |= {ApiKey.SASL_HANDSHAKE: handshake, ApiKey.SASL_AUTHENTICATE: authenticate}
    return broker
