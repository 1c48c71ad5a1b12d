"""Ids of schemas in the forms that serializers write."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.records import Header, NewRecord, Records, batches, build_batch
from kafka_sidecar.schemas.ids import NO_ID, NULL, PREFIX, Reader, SchemaId

GUID = UUID("3f2504e0-4f89-41d3-9a0c-0305e82c3301")
PREFIXED = b"\0\0\0\0\7"
IN_HEADER = b"\1" + GUID.bytes


def records(*new: NewRecord) -> Records:
    (batch,) = batches(build_batch(list(new), base_timestamp=0))
    return batch.records(1 << 20)


def value(data: bytes | None, **headers: bytes | None) -> NewRecord:
    return NewRecord(data, None, [Header(name, content) for name, content in headers.items()], 0)


def read(reader: Reader, of: Records) -> list[tuple[int, int, object, object]]:
    found = []
    for first, end, place, start, stop in reader.runs(of):
        read = reader.read(place, of.payload[start:stop]) if place >= PREFIX else place
        found.append((first, end, *(read if isinstance(read, tuple) else (read, stop - start))))
    return found


def test_ids_are_found_in_runs_and_a_header_precedes_a_prefix() -> None:
    of = records(
        value(PREFIXED + b"a"), value(PREFIXED + b"bc"), value(None), value(b"{}"), value(b"\0\0\0\0"),
        value(PREFIXED, __value_schema_id=IN_HEADER + b"\2\4"), value(b"", __value_schema_id=b"\0\0\0\0\x09"),
        value(PREFIXED, __value_schema_id=None), value(PREFIXED, __key_schema_id=IN_HEADER),
    )  # fmt: skip
    assert read(Reader(["confluent_header", "confluent"], of_key=False), of) == [
        (0, 2, SchemaId("id", 7), b""),
        (2, 3, NULL, 0),
        (3, 5, NO_ID, 0),
        (5, 6, SchemaId("guid", str(GUID)), b"\2\4"),
        (6, 7, SchemaId("id", 9), b""),
        (7, 9, SchemaId("id", 7), b""),
    ]


def test_keys_have_a_header_of_their_own() -> None:
    of = records(NewRecord(b"", b"k", [Header("__key_schema_id", IN_HEADER)], 0), NewRecord(b"", PREFIXED, [], 0))
    assert read(Reader(["confluent_header", "confluent"], of_key=True), of) == [
        (0, 1, SchemaId("guid", str(GUID)), b""),
        (1, 2, SchemaId("id", 7), b""),
    ]


@pytest.mark.parametrize(
    ("form", "record", "expected"),
    [
        ("confluent", value(b"\1" + GUID.bytes + b"x"), SchemaId("guid", str(GUID))),
        ("apicurio", value(PREFIXED), SchemaId("content_id", 7)),
        ("apicurio_header", value(b"", **{"apicurio.value.contentId": (7).to_bytes(8)}), SchemaId("content_id", 7)),
        (
            "apicurio_header",
            value(b"", **{"apicurio.value.globalId": (1 << 40).to_bytes(8)}),
            SchemaId("global_id", 1 << 40),
        ),
        ("glue", value(b"\3\5" + GUID.bytes), SchemaId("glue", str(GUID))),
    ],
)  # fmt: skip
def test_other_forms(form: str, record: NewRecord, expected: SchemaId) -> None:
    assert read(Reader([form], of_key=False), records(record)) == [(0, 1, expected, b"")]


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b"\2" + GUID.bytes, b"\1" + GUID.bytes[:-1]])
def test_a_header_that_holds_no_id_is_none(content: bytes) -> None:
    of = records(value(PREFIXED, __value_schema_id=content))
    assert read(Reader(["confluent_header", "confluent"], of_key=False), of) == [(0, 1, None, len(content))]


def test_an_id_is_one_of_its_context_but_a_guid_is_everywhere_the_same() -> None:
    of = records(value(PREFIXED), value(b"\1" + GUID.bytes))
    assert [found[2] for found in read(Reader(["confluent"], of_key=False, context=".test"), of)] == [
        SchemaId("id", 7, ".test"),
        SchemaId("guid", str(GUID)),
    ]


PARTS = st.one_of(st.none(), st.binary(max_size=8), st.sampled_from([PREFIXED, IN_HEADER, b"\3\0" + GUID.bytes]))


@given(st.lists(st.tuples(PARTS, PARTS), max_size=20))
def test_runs_are_all_records_in_order_each_with_the_id_that_it_has_alone(parts: list[tuple[bytes, bytes]]) -> None:
    new = [value(data, **({} if header is None else {"__value_schema_id": header})) for data, header in parts]
    reader = Reader(["confluent_header", "confluent", "glue"], of_key=False)
    of = records(*new) if new else Records(b"", 0)
    found = reader.runs(of)
    assert [index for first, end, *_ in found for index in range(first, end)] == list(range(len(new)))
    for first, end, place, start, stop in found:
        for index in range(first, end):
            alone = records(new[index])
            ((_, _, place_alone, start_alone, stop_alone),) = reader.runs(alone)
            assert (place_alone, alone.payload[start_alone:stop_alone]) == (place, of.payload[start:stop])
