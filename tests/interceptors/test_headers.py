"""The headers of KIP-82: search, add, remove, and when they are read-only."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.records import Header
from kafka_sidecar.interceptors.headers import Headers, Journal, ReadOnlyError, undo

MANY = [("a", b"1"), ("b", b"2"), ("a", None), ("", b""), ("a", b"1")]


def pairs(headers: Headers) -> list[tuple[str, bytes | None]]:
    return [(header.key, header.value) for header in headers]


def test_order_and_duplicates_are_kept() -> None:
    assert pairs(Headers(MANY)) == MANY


def test_add_puts_a_header_at_the_end() -> None:
    assert pairs(Headers(MANY, []).add("a", b"3").add("c", b"")) == [*MANY, ("a", b"3"), ("c", b"")]


def test_a_header_object_can_be_added() -> None:
    assert pairs(Headers((), []).add(Header(b"\xff", b"x"))) == [("\udcff", b"x")]


def test_remove_removes_all_headers_of_a_key() -> None:
    assert pairs(Headers(MANY, []).remove("a")) == [("b", b"2"), ("", b"")]


def test_last_header_returns_the_last_header_of_a_key_or_none() -> None:
    headers = Headers([*MANY, ("a", b"3")])
    assert headers.last_header("a") == Header("a", b"3")
    assert headers.last_header("c") is None


def test_headers_returns_all_headers_of_a_key_in_order() -> None:
    assert Headers(MANY).headers("a") == (Header("a", b"1"), Header("a", None), Header("a", b"1"))
    assert Headers(MANY).headers("c") == ()


def test_a_header_value_can_be_null_which_is_not_empty() -> None:
    headers = Headers([("a", None), ("a", b"")], [])
    assert [header.value for header in headers.headers("a")] == [None, b""]
    assert Headers([("a", None)]) != Headers([("a", b"")])


def test_a_header_key_can_be_empty() -> None:
    assert Headers(MANY).last_header("") == Header("", b"")


def test_header_keys_that_are_not_utf_8_are_kept_byte_for_byte_and_can_be_found() -> None:
    headers = Headers([Header(b"\xfc", b"1"), Header("ü", b"2")], [])
    assert headers.last_header("\udcfc") == Header(b"\xfc", b"1")
    headers.add("\udcfc", b"3")
    assert [header.key_bytes for header in headers] == [b"\xfc", "ü".encode(), b"\xfc"]
    assert [header.key_bytes for header in headers.remove("ü")] == [b"\xfc", b"\xfc"]


@pytest.mark.parametrize("key", [None, b"a", 1])
def test_a_header_key_that_is_not_text_raises_type_error(key: Any) -> None:
    headers = Headers(MANY, [])
    for use in (headers.add, headers.remove, headers.last_header, headers.headers):
        with pytest.raises(TypeError, match="the key of a header is"):
            use(key)
    assert pairs(headers) == MANY


@pytest.mark.parametrize("value", ["text", 1, bytearray(b"x"), memoryview(b"x")])
def test_a_header_value_that_is_not_bytes_raises_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="the value of a header is"):
        Headers(MANY, []).add("a", value)
    with pytest.raises(TypeError, match="the value of a header is"):
        Headers([("a", value)])


def test_adding_a_header_object_without_a_key_raises_type_error() -> None:
    nameless = Header(None, b"")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the key of a Header"):
        Headers(MANY, []).add(nameless)
    with pytest.raises(TypeError, match="the key of a Header"):
        Headers([nameless])


def test_headers_are_read_only_after_the_chain() -> None:
    headers = Headers(MANY, [])
    headers.close()
    with pytest.raises(ReadOnlyError, match="read-only after the last interceptor"):
        headers.add("c", b"")
    for key in ("a", "not there"):
        with pytest.raises(ReadOnlyError, match="read-only after the last interceptor"):
            headers.remove(key)
    assert pairs(headers) == MANY
    assert headers.last_header("b") == Header("b", b"2")


def test_results_of_reads_are_immutable() -> None:
    headers = Headers(MANY, [])
    assert isinstance(headers.to_tuple(), tuple)
    assert isinstance(headers.headers("a"), tuple)
    assert not hasattr(iter(headers), "remove")
    assert len(headers) == len(MANY)


def test_headers_that_are_only_read_are_the_same_object_and_not_marked_as_changed() -> None:
    read = (Header("a", b"1"),)
    journal: Journal = []
    headers = Headers.of(read, journal)
    headers.remove("b")
    assert headers.last_header("a") == read[0]
    assert headers.to_tuple() is read
    assert journal == []


def test_headers_are_equal_if_their_contents_are_equal() -> None:
    assert Headers(MANY) == Headers(MANY, [])
    assert Headers(MANY) != MANY
    assert "('a', b'1')" in repr(Headers(MANY))


steps = st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.none() | st.binary(max_size=2)), max_size=8)


@given(steps, steps, st.integers(0, 8))
def test_all_changes_in_the_journal_can_be_undone(one: Any, other: Any, upto: int) -> None:
    journal: Journal = []
    both = Headers(MANY, journal), Headers((), journal)
    expected: list[list[tuple[str, bytes | None]]] = [list(MANY), []]
    before = [list(each) for each in expected]
    for at, (which, (add, key, value)) in enumerate([*((0, step) for step in one), *((1, step) for step in other)]):
        if at == upto:
            journal.clear()
            before = [list(each) for each in expected]
        if add:
            both[which].add(key, value)
            expected[which].append((key, value))
        else:
            both[which].remove(key)
            expected[which] = [pair for pair in expected[which] if pair[0] != key]
    assert [pairs(each) for each in both] == expected
    undo(journal)
    assert [pairs(each) for each in both] == before
