"""References to objects, as they are in a record's header."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.large_messages.object_reference import ObjectReference, is_key_of, new_key

KEY = "orders/000102030405060708090a0b0c0d0e0f"
SAMPLE = ObjectReference(KEY, 0x01020304, 0xAABBCCDD)


def test_the_bytes_are_these() -> None:
    assert SAMPLE.encode().hex(" ", 4) == (b"\1" + bytes.fromhex("0000000001020304aabbccdd") + KEY.encode()).hex(" ", 4)


@given(st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 32) - 1), st.binary(min_size=16, max_size=16))
def test_every_reference_is_read_as_it_was_written(size: int, crc: int, random: bytes) -> None:
    reference = ObjectReference(new_key("orders", random), size, crc)
    assert ObjectReference.decode(reference.encode(), "orders") == reference


@pytest.mark.parametrize(
    "key",
    [
        "",
        "orders",
        "orders/",
        "orders/../payments/x",
        "payments/000102030405060708090a0b0c0d0e0f",
        KEY.upper(),
        KEY + "0",
    ],
)
def test_an_object_that_is_not_of_the_topic_is_rejected(key: str) -> None:
    assert not is_key_of("orders", key)
    with pytest.raises(CodecError):
        ObjectReference.decode(ObjectReference(key, 1, 2).encode(), "orders")


@pytest.mark.parametrize("data", [None, b"", b"\2" + SAMPLE.encode()[1:], b"\1" + b"\xff" * 8 + SAMPLE.encode()[9:]])
def test_other_bytes_are_rejected(data: bytes | None) -> None:
    with pytest.raises(CodecError):
        ObjectReference.decode(data, "orders")


@given(st.binary(max_size=60))
def test_bytes_raise_nothing_but_codec_errors(data: bytes) -> None:
    with contextlib.suppress(CodecError):
        ObjectReference.decode(data, "orders")
