"""Clients that log in although the sidecar does it for them: answered as brokers do where no login is expected."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import encode_response
from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.messages.sasl_authenticate import SaslAuthenticateResponse
from kafka_sidecar.codec.messages.sasl_handshake import SaslHandshakeResponse
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter

log = logging.getLogger(__name__)

LOG_EVERY_S = 10.0
REMEDY = "the sidecar logs in for its clients (brokers.sasl): set their security.protocol to PLAINTEXT, or SSL"
RESPONSES: dict[int, Message] = {
    ApiKey.SASL_HANDSHAKE: SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
    ApiKey.SASL_AUTHENTICATE: SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=REMEDY),
}

# The sidecar's own response to requests of this API and version: correlation id -> frame; None: it has none.
Answer = Callable[[int, int], Callable[[int], bytes] | None]


def reject_logins(answer: Answer) -> Answer:
    """The same, with errors for clients that log in."""
    lines = LogLimiter(LOG_EVERY_S, time.monotonic)

    def reject(key: int, version: int) -> Callable[[int], bytes] | None:
        response = RESPONSES.get(key)
        return answer(key, version) if response is None else partial(_reject, response, version, lines)

    return reject


def _reject(response: Message, version: int, lines: LogLimiter, correlation_id: int) -> bytes:
    if (suppressed := lines.due(("client logs in",))) is not None:
        log.warning("client logs in", extra={"detail": REMEDY, "suppressed": suppressed or None})
    return encode_response(response, version, correlation_id)
