"""What a client must not write itself."""

from __future__ import annotations

import pytest

from kafka_sidecar.codec.records import Header, NewRecord, Records, batches, build_batch
from kafka_sidecar.large_messages import back_pointers, lm_header, object_reference, payload_format
from kafka_sidecar.large_messages.back_pointers import BackPointers
from kafka_sidecar.large_messages.classify import Reader
from kafka_sidecar.large_messages.lm_header import LEGACY_V2, V3, LmHeader
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.large_messages.serializers import DefaultSegmentDeserializer, SegmentDeserializer
from kafka_sidecar.proxy.features.large_messages.segment_stage import find_forbidden

ID = bytes(range(16))
PLAIN = NewRecord(b'{"a":1}', b"k")
DELIVERED = Header(lm_header.KEY, LmHeader(V3, ID, 0, 2, 9).as_delivered().encode())
POINTERS = Header(back_pointers.KEY, BackPointers(bytes(16), 0, (0,)).encode())


def lm(kind: int = V3, number: int = 0, count: int = 2, size: int = 20) -> Header:
    return Header(lm_header.KEY, LmHeader(kind, ID, number, count, size).encode())


def headed(*headers: Header) -> NewRecord:
    return NewRecord(b'{"a":1}', b"k", headers)


def payload(number: int = 0, count: int = 2, size: int = 20) -> NewRecord:
    return NewRecord(payload_format.serialize(Segment(ID, number, count, size, b'{"a":1}')), b"k")


class Marked(SegmentDeserializer):
    def deserialize(self, topic: str, value: bytes) -> Segment | None:
        return Segment(ID, 0, 2, 20, value[1:]) if value[:1] == b"#" else None


def found(
    *sent: NewRecord, is_validated: bool = True, deserializer: SegmentDeserializer | None = None
) -> tuple[str, list[int]] | None:
    """The reason, and the records."""
    (batch,) = batches(build_batch(sent))
    records: Records = batch.records()
    reader = Reader("orders", deserializer or DefaultSegmentDeserializer())
    why = find_forbidden(records, reader, is_validated, 1000)
    return (why.reason, [index for index, _ in why.records]) if why is not None else None


SEGMENTS = {
    "V3": headed(lm()),
    "V3 of one segment": headed(lm(count=1)),
    "V3 under a delivered header": headed(lm(), DELIVERED),
    "V3 over a delivered header": headed(DELIVERED, lm()),
    "V3 twice": headed(lm(), lm(number=1)),
    "an unreadable header": headed(Header(lm_header.KEY, b"short")),
    "an impossible number": headed(lm(number=7)),
    "the payload format": payload(),
    "the payload format of one segment": payload(count=1),
    "the payload format with its header": NewRecord(payload().value, b"k", (lm(LEGACY_V2),)),
    "the payload format with a delivered header": NewRecord(payload().value, b"k", (DELIVERED,)),
}


@pytest.mark.parametrize("segment", SEGMENTS.values(), ids=SEGMENTS)
def test_segments_are_found_in_every_form_where_records_are_validated(segment: NewRecord) -> None:
    assert found(PLAIN, segment, PLAIN, segment) == ("segments", [1, 3])
    assert found(PLAIN, segment, is_validated=False) is None


def test_so_are_those_that_a_plug_in_reads() -> None:
    segment = NewRecord(b'#{"a":1}', b"k")
    assert found(PLAIN, segment, deserializer=Marked()) == ("segments", [1])
    assert found(PLAIN, segment) is None


@pytest.mark.parametrize("is_validated", [True, False])
def test_other_records_are_not_refused(is_validated: bool) -> None:
    others = (
        PLAIN, NewRecord(None, b"k"), NewRecord(b"\0" * 40, b"k"), NewRecord(b"\xff" * 40, None), headed(DELIVERED),
        headed(Header("_lmx", b"v")), headed(Header("_l", b"_lmr _lmo")), NewRecord(b"_lm _lmr _lmo", b"_lmr"),
        headed(lm(LEGACY_V2)),
    )  # fmt: skip
    assert found(*others, is_validated=is_validated) is None


@pytest.mark.parametrize("is_validated", [True, False])
@pytest.mark.parametrize(
    "header", [POINTERS, Header("_lmr", None), Header("_lmo", b"x"), Header(object_reference.KEY, b"")], ids=str
)
def test_what_only_sidecars_write_is_refused_with_policies_and_without(header: Header, is_validated: bool) -> None:
    assert found(PLAIN, headed(header, Header("h", b"v")), headed(lm(), header), is_validated=is_validated) == (
        "forged", [1, 2]
    )  # fmt: skip


def test_segments_of_a_value_that_no_consumer_would_get_are_refused() -> None:
    assert found(PLAIN, headed(lm(size=1001)), headed(lm(size=1000)), is_validated=False) == ("too_large", [1])
    assert found(headed(lm(size=-1)), is_validated=False) is None
