"""A header: key, value and equality."""

from __future__ import annotations

import pytest

from kafka_sidecar.codec.records import Header


def test_headers_are_compared_by_value() -> None:
    assert len({Header("a", b"1"), Header(b"a", b"1"), Header("a", None)}) == 2
    assert Header("a", b"1") != ("a", b"1")
    assert repr(Header("a", b"1")) == "Header('a', b'1')"


@pytest.mark.parametrize("key", [b"", b"trace", "Bücher-Ω".encode(), b"\xff\xfe", b"\xed\xa0\x80"])
def test_a_header_key_is_decoded_and_encoded_to_the_same_bytes(key: bytes) -> None:
    assert Header(Header(key, None).key, None).key_bytes == key


def test_a_header_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Header("a", b"1").more = 1  # type: ignore[attr-defined]
