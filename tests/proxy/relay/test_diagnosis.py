"""What bytes that are not Kafka probably are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.dialogue import request

from kafka_sidecar.codec.apis import APIS
from kafka_sidecar.proxy.relay.introduction import diagnose

OPENINGS = {
    b"\x16\x03\x01\x02\x00\x01": "a TLS handshake",
    b"\x16\x03\x03\x00\x7a": "a TLS handshake",
    b"\x15\x03\x03\x00\x02\x02\x50": "a TLS alert",
    b"GET / HTTP/1.0\r\n": "an HTTP request",
    b"HEAD /readyz HTTP/1.1": "an HTTP request",
    b"POST /x": "an HTTP request",
    b"PUT /x": "an HTTP request",
    b"OPTIONS * HTTP/1.1": "an HTTP request",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": "an HTTP/2 request",
    b"HTTP/1.1 503 Service Unavailable": "an HTTP answer",
    b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n": "a PROXY protocol header",
    b"\r\n\r\n\x00\r\nQUIT\n\x21": "a PROXY protocol (version 2) header",
    b"SSH-2.0-Go": "an SSH client",
}


@pytest.mark.parametrize("opening", OPENINGS)
def test_another_protocol_is_recognised_by_its_first_bytes(opening: bytes) -> None:
    sentence = diagnose(opening)
    assert sentence is not None
    assert sentence.startswith("not Kafka: " + OPENINGS[opening])


@pytest.mark.parametrize("opening", OPENINGS)
def test_two_bytes_are_enough_and_one_is_not(opening: bytes) -> None:
    assert diagnose(opening[:2]) is not None
    assert diagnose(opening[:1]) is None
    assert diagnose(b"") is None


@pytest.mark.parametrize("key", APIS)
def test_no_kafka_request_is_taken_for_something_else(key: int) -> None:
    for version in range(20):
        assert diagnose(request(key, version, 1, bytes(100))) is None


def test_no_kafka_response_is_taken_for_something_else() -> None:
    assert diagnose(oracle.response_frame(oracle.response(3, 12), 0)) is None


@given(st.binary(max_size=40))
def test_the_sentence_is_one_line_or_there_is_none(data: bytes) -> None:
    sentence = diagnose(data)
    assert sentence is None or "\n" not in sentence
