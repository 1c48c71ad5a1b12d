"""The end of a certificate's validity, as cryptography sees it."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from harness.certificates import authority
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.proxy.security.certificates import not_after

CERTIFICATE = authority().issue("app", days=3).certificate.public_bytes(Encoding.DER)


@pytest.mark.parametrize("days", [-10, 0.5, 30, 366 * 40])  # the last one is after 2049: another type of time
def test_the_end_of_validity_is_that_of_the_library(days: float) -> None:
    issued = authority().issue("app", days=days).certificate
    assert not_after(issued.public_bytes(Encoding.DER)) == issued.not_valid_after_utc.timestamp()


@given(st.binary(max_size=300) | st.integers(0, len(CERTIFICATE) - 1).map(lambda end: CERTIFICATE[:end]))
def test_other_bytes_are_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        not_after(data)
