"""Every message in every version: reader, writer, skipper and span must agree on the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from fuzz.samples import sample, structs, versions
from support.examples import for_each, rounds, some, sparse

from kafka_sidecar.codec.cursor import cursor_at
from kafka_sidecar.codec.errors import TruncatedError, UnsupportedVersionError
from kafka_sidecar.codec.headers import RequestHeader
from kafka_sidecar.codec.message import (
    TAGS,
    Struct,
    decode,
    encode,
    field_plan,
    field_reader,
    field_writer,
    plan,
    plans,
    read_tags,
    skipper,
    span,
    write_tags,
)
from kafka_sidecar.codec.messages.produce import TopicProduceData

ROUNDS = rounds(5)
WALKED = ("produce", "fetch", "share_fetch")  # messages of which parts are read, and the others stepped over
each_struct = for_each(structs(), lambda cls: f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}")


def encoded(cls: type[Struct], of: int = 1) -> Iterator[tuple[int, Struct, bytes]]:
    """Samples of all versions, or of one of so many and the newest: (version, value, its bytes)."""
    random = Random(f"{cls.__module__}.{cls.__name__}")
    for version in sorted({*some(versions(cls), of), versions(cls)[-1]}):
        for _ in range(ROUNDS):
            value = sample(random, cls, version)
            yield version, value, encode(value, version)


@each_struct
def test_every_message_is_decoded_as_it_was_encoded(cls: type[Struct]) -> None:
    for version, value, data in encoded(cls):
        assert decode(cls, data, version) == (value, len(data))
        assert decode(cls, memoryview(b"before" + data + b"after"), version, 6) == (value, 6 + len(data))
        assert encode(decode(cls, data, version)[0], version) == data


@each_struct
def test_skipping_ends_where_decoding_ends(cls: type[Struct]) -> None:
    for version, _, data in encoded(cls):
        assert skipper(cls, version)(data, 0) == len(data)
        assert skipper(cls, version)(memoryview(b"before" + data + b"after"), 6) == 6 + len(data)


@pytest.mark.bulk
@each_struct
def test_spans_and_partial_skips_cover_every_byte_once(cls: type[Struct]) -> None:
    for version, value, data in encoded(cls, of=4):
        at = 0
        for field in (declared.name for declared in cls.declaration_.plain(version)):
            start, end = span(cls, field, version)(data, 0)
            assert start == at == skipper(cls, version, before=field)(data, 0)
            assert field_reader(cls, field, version)(data, start) == (getattr(value, field), end)
            assert field_writer(cls, field, version)(getattr(value, field)) == data[start:end]
            assert skipper(cls, version, after=field)(data, end) == len(data)
            at = end
        assert span(cls, TAGS, version)(data, 0) == (at, len(data))
        assert skipper(cls, version, before=TAGS)(data, 0) == at


@pytest.mark.parametrize("cls", [cls for cls in structs() if cls.__module__.rpartition(".")[2] in WALKED])
def test_a_cursor_follows_a_plan_to_where_skipping_ends(cls: type[Struct]) -> None:
    for version, _, data in encoded(cls, of=20):
        fields = [declared.name for declared in cls.declaration_.plain(version)]
        flexible, before = cls.declaration_.is_flexible(version), [*fields, TAGS, None]
        for after, start in ((None, 0), *((field, span(cls, field, version)(data, 0)[1]) for field in fields)):
            for to in before[0 if after is None else fields.index(after) + 1 :]:
                end = skipper(cls, version, after=after, before=to)(data, start)
                cursor = cursor_at(b"before" + data + b"after", 6 + start, 6 + len(data), flexible)
                cursor.follow(plan(cls, version, after=after, before=to))
                assert cursor.at == 6 + end
                for cut in sparse(some(range(start, end), of=4, at=end), of=5):
                    with pytest.raises(TruncatedError):
                        cursor_at(data, start, cut, flexible).follow(plan(cls, version, after=after, before=to))
        for field in fields:
            start, end = span(cls, field, version)(data, 0)
            cursor = cursor_at(data, start, len(data), flexible)
            cursor.follow(field_plan(cls, version, field))
            assert cursor.at == end


def test_plans_name_no_field_that_a_version_does_not_have() -> None:
    with pytest.raises(UnsupportedVersionError):
        plan(TopicProduceData, 12, before="topic_id")
    assert plans(TopicProduceData, 12, "topic_id", "partition_data")[0] is None


def test_a_header_whose_strings_are_never_compact_has_no_plan() -> None:
    with pytest.raises(NotImplementedError):
        plan(RequestHeader, 2)


@each_struct
def test_a_tag_section_is_split_into_known_payloads_and_unknown_tags(cls: type[Struct]) -> None:
    for version, value, data in encoded(cls):
        known = {field.tag: field.name for field in cls.declaration_.tagged(version)}
        if not cls.declaration_.is_flexible(version):
            assert span(cls, TAGS, version)(data, 0) == (len(data), len(data))
            continue
        start, end = span(cls, TAGS, version)(data, 0)
        tags, at = read_tags(data, start)
        assert (at, write_tags(reversed(tags))) == (end, data[start:end])
        assert value.unknown_tags == tuple(tag for tag in tags if tag[0] not in known)
        for number, payload in tags:
            if number in known:
                field = getattr(value, known[number])
                assert field_reader(cls, known[number], version)(payload, 0) == (field, len(payload))
                assert field_writer(cls, known[number], version)(field) == payload


@each_struct
def test_a_truncated_message_is_rejected(cls: type[Struct]) -> None:
    for version, _, data in encoded(cls):
        for size in {0, 1, 2, len(data) // 2, len(data) - 2, len(data) - 1} & set(range(len(data))):
            with pytest.raises(TruncatedError):
                decode(cls, data[:size], version)
            with pytest.raises(TruncatedError):
                skipper(cls, version)(data[:size], 0)


@each_struct
def test_a_version_outside_the_range_is_rejected(cls: type[Struct]) -> None:
    covered = cls.declaration_.versions
    assert covered is not None
    for version in (covered.low - 1, covered.high + 1):
        with pytest.raises(UnsupportedVersionError):
            decode(cls, bytes(100), version)
        with pytest.raises(UnsupportedVersionError):
            encode(cls(), version)
        with pytest.raises(UnsupportedVersionError):
            skipper(cls, version)
