"""What a client sends first on a listener with TLS: a whole ClientHello, or something else."""

from __future__ import annotations

import ssl
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dialogue import request

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.runtime.client_hello import NotTlsError, bytes_needed


def client_hello() -> bytes:
    """What OpenSSL sends."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


HELLO = client_hello()


@given(st.integers(1, len(HELLO)))
def test_all_bytes_of_a_client_hello_are_needed(end: int) -> None:
    assert bytes_needed(HELLO[:end]) == (9 if end < 9 else len(HELLO))


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (request(ApiKey.API_VERSIONS, 3, 1), "the client does not speak TLS: set its security.protocol"),
        (b"GET / HTTP/1.1", "the client does not speak TLS: an HTTP request"),
        (b"SSH-2.0-OpenSSH", "the client does not speak TLS: an SSH client"),
        (b"\x16\x02", "the client does not speak TLS"),
        (b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", "is not a whole ClientHello"),
        (b"\x16\x03\x01\xff\xff\x01\x00\xff\x00", "is not a whole ClientHello"),
        (HELLO[:3] + b"\x00\x10" + HELLO[5:], "is not a whole ClientHello"),
    ],
)
def test_anything_else_is_refused(start: bytes, why: str) -> None:
    with pytest.raises(NotTlsError, match=why):
        bytes_needed(start)


@given(st.binary(min_size=1, max_size=40))
def test_any_bytes_have_a_bounded_need_or_are_refused(start: bytes) -> None:
    with suppress(NotTlsError):
        assert 9 <= bytes_needed(start) <= 5 + (1 << 14)
