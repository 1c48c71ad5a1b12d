"""The text for a connection to a broker that failed."""

from __future__ import annotations

import pytest

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.telemetry.failures import describe_failure


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "refused the connection"),
        (EOFError(), "closed the connection without a response"),
        (TimeoutError(), "timed out"),
        (OSError(113, "No route to host"), "No route to host"),
        (OSError("is this sidecar itself"), "is this sidecar itself"),
        (CodecError("sent a frame of -1 bytes"), "sent a frame of -1 bytes"),
    ],
)
def test_a_failure_is_described_in_words(error: Exception, text: str) -> None:
    assert describe_failure(error) == text
