"""The end of a certificate's validity, as cryptography sees it."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from harness.certificates import authority
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.proxy.security.tls.certificates import not_after

CERTIFICATE = authority().issue("app", days=3).certificate.public_bytes(Encoding.DER)


@pytest.mark.parametrize("days", [-10, 0.5, 30, 366 * 40])  # the last one is after 2049: another type of time
def test_the_end_of_validity_is_that_of_the_library(days: float) -> None:
    issued = authority().issue("app", days=days).certificate
    assert not_after(issued.public_bytes(Encoding.DER)) == issued.not_valid_after_utc.timestamp()


@given(st.binary(max_size=300) | st.integers(0, len(CERTIFICATE) - 1).map(lambda end: CERTIFICATE[:end]))
def test_other_bytes_are_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        not_after(data)


def der(*contents: bytes, tag: int = 0x30) -> bytes:
    data = b"".join(contents)
    return bytes((tag, len(data))) + data


@pytest.mark.parametrize(
    "validity",
    [der(), der(b"\x17\x00"), der(b"\x17\x00", b"\x04\x00"), der(b"\x17\x00", b"\x17\x01x"), der(tag=0x31)],
    ids=["no times", "one time", "another kind", "no date", "no sequence"],
)
def test_a_certificate_without_a_date_is_none(validity: bytes) -> None:
    with pytest.raises(ValueError, match=r"not an X\.509|does not match"):
        not_after(der(der(der(), der(), der(), validity, der(), der())))
