"""The header `traceparent` of W3C Trace Context."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.interceptors.builtin.traceparent import TraceParent, parse_traceparent

TRACE, SPAN = b"12345678901234567890123456789012", b"1234567890123456"


def header(version: bytes = b"00", trace: bytes = TRACE, span: bytes = SPAN, flags: bytes = b"00") -> bytes:
    return b"-".join((version, trace, span, flags))


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        (header(), 0),
        (header(flags=b"01"), 1),
        (header(flags=b"03"), 3),
        (header(flags=b"ff"), 3),  # what is not known must be zero when it is sent on
        (header(b"cc", flags=b"01"), 1),
        (header(b"01", flags=b"ff"), 1),  # of a higher version only this one may be used
        (header(b"01") + b"-what-the-future-will-be-like", 0),
        (header(b"01") + b"-", 0),
    ],
)
def test_a_valid_traceparent_is_parsed_without_unknown_flags(value: bytes, flags: int) -> None:
    assert parse_traceparent(value) == TraceParent(TRACE, SPAN, flags)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        header(b"ff"),
        header(b"0"),
        header(b"000"),
        header(b"0x"),
        header() + b"-",
        header() + b"-what-the-future-will-be-like",
        header(b"01") + b".what-the-future-will-be-like",
        header(b"01") + b"0",
        header(trace=TRACE[1:]),
        header(trace=TRACE + b"0"),
        header(trace=b"0" * 32),
        header(trace=b"." + TRACE[1:]),
        header(trace=b"A" + TRACE[1:]),
        header(span=SPAN[1:]),
        header(span=SPAN + b"0"),
        header(span=b"0" * 16),
        header(span=b"F" + SPAN[1:]),
        header(flags=b"1"),
        header(flags=b"0g"),
        header(flags=b"0A"),
        b" " + header(),
        header() + b"\n",
    ],
)
def test_an_invalid_traceparent_is_not_parsed(value: bytes | None) -> None:
    assert parse_traceparent(value) is None


@given(st.binary(max_size=70))
def test_random_bytes_never_raise(value: bytes) -> None:
    assert parse_traceparent(value) is None


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 3))
def test_a_traceparent_is_parsed_as_it_was_written(trace: int, span: int, flags: int) -> None:
    one = TraceParent(b"%032x" % trace, b"%016x" % span, flags)
    assert parse_traceparent(bytes(one)) == one
    assert one.is_sampled == bool(flags & 1)
