"""The fields of a record, decoded when they are accessed."""

from __future__ import annotations

import pytest

from kafka_sidecar.codec.records import Header, NewRecord, Record, batches, build_batch


def read(record: NewRecord) -> Record:
    (batch,) = batches(build_batch([NewRecord(b"before"), record, NewRecord(b"after")]))
    return batch.records()[1]


def test_a_record_is_read_as_it_was_written() -> None:
    record = read(NewRecord(b"value", b"key", [Header("name", b"x")], -7, 99, 255))

    assert (record.index, record.attributes, record.timestamp_delta, record.offset_delta) == (1, 255, -7, 99)
    assert (record.key, record.key_size, record.value, record.value_size) == (b"key", 3, b"value", 5)
    assert record.headers == (Header("name", b"x"),)


def test_a_null_key_or_value_is_not_empty() -> None:
    null, empty = read(NewRecord(None)), read(NewRecord(b"", b""))

    assert (null.key, null.key_size, null.value, null.value_size) == (None, -1, None, -1)
    assert (empty.key, empty.key_size, empty.value, empty.value_size) == (b"", 0, b"", 0)
    assert (null.key_prefix(3), null.value_prefix(-1)) == (None, None)


@pytest.mark.parametrize(("size", "key"), [(0, b""), (2, b"ke"), (3, b"key"), (4, b"key"), (-1, b"key")])
def test_a_prefix_has_at_most_the_requested_size(size: int, key: bytes) -> None:
    record = read(NewRecord(b"v" + b"key", b"key"))

    assert record.key_prefix(size) == key
    assert record.value_prefix(size) == (b"vkey" if size < 0 else b"vkey"[:size])


def test_the_last_of_several_headers_with_the_same_key_is_returned() -> None:
    record = read(NewRecord(b"", headers=[Header("a", b"1"), Header("b", b"2"), Header("a", b"3"), Header("aa", b"4")]))

    assert record.header("a") == record.header(b"a") == Header("a", b"3")
    assert record.header("c") is None
    assert read(NewRecord(b"")).header("a") is None


def test_a_header_value_can_be_null_or_empty_and_a_key_can_be_empty() -> None:
    headers = (Header("null", None), Header("empty", b""), Header("", b"x"))
    record = read(NewRecord(b"", headers=headers))

    assert record.headers == headers
    assert [record.header(header.key) for header in headers] == list(headers)


def test_a_header_key_that_is_not_utf_8_is_kept_in_text() -> None:
    record = read(NewRecord(b"", headers=[Header(b"\xff\xfe", b"x")]))

    (header,) = record.headers
    assert header.key == "\udcff\udcfe"
    assert header.key_bytes == b"\xff\xfe"
    assert record.header(header.key) == Header(header.key, b"x") == header


def test_the_repr_of_a_record_has_no_payload() -> None:
    assert repr(read(NewRecord(b"secret", b"word"))) == "Record(index=1, key_size=4, value_size=6)"


@pytest.mark.parametrize(
    ("base", "delta", "time"),
    [
        (2**63 - 1, 1, -(2**63)),
        (-(2**63), -(2**63), 0),
        (-(2**63), -1, 2**63 - 1),
        (-1, 1, 0),
        (10**12, -5, 10**12 - 5),
    ],
)
def test_timestamps_overflow_in_64_bits_as_in_consumers(base: int, delta: int, time: int) -> None:
    (batch,) = batches(build_batch([NewRecord(b"", timestamp_delta=delta)], base_timestamp=base, max_timestamp=0))

    assert batch.records()[0].timestamp == time


def test_a_record_is_immutable() -> None:
    record = read(NewRecord(b"value"))

    for name in ("index", "key", "value", "headers", "timestamp"):
        with pytest.raises(AttributeError):
            setattr(record, name, 1)


def test_a_record_is_valid_after_its_batch_was_released() -> None:
    kept = list(batches(build_batch([NewRecord(b"a"), NewRecord(b"b")]))[0].records())

    assert [record.value for record in kept] == [b"a", b"b"]


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
