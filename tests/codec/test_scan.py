"""The scans agree with the decoder: in every field that they return, and in what they reject."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from fuzz.mutations import mutated
from fuzz.samples import sample, versions
from hypothesis import given
from hypothesis import strategies as some
from support.kio_messages import UNKNOWN_TO_KIO, kio_encode, kios_class, random_entity

from kafka_sidecar.codec.errors import CodecError, TruncatedError, UnsupportedVersionError
from kafka_sidecar.codec.message import Struct, decode, encode, field_reader, skipper
from kafka_sidecar.codec.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafka_sidecar.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_sidecar.codec.scan import (
    FetchPartitionSpan,
    FetchSpans,
    FetchTopicSpan,
    PartitionSpan,
    ProduceSpans,
    TopicSpan,
    aborted_transactions,
    scan_fetch,
    scan_produce,
)

Scan = Callable[[bytes, int, int], Any]
SCANS: dict[type[Struct], Scan] = {ProduceRequest: scan_produce, FetchResponse: scan_fetch}
PAIRS = [(cls, version) for cls in SCANS for version in versions(cls)]
FIRST_WITH_IDS = 13


def agree(cls: type[Struct], version: int, data: bytes, at: int = 0) -> bool:
    """Whether both read ``data``; asserts that they find the same or both reject it."""
    try:
        message, end = decode(cls, data, version, at)
    except CodecError:
        with pytest.raises(CodecError):
            SCANS[cls](data, at, version)
        return False
    spans = SCANS[cls](data, at, version)
    assert spans.end == end
    if isinstance(message, ProduceRequest):
        compare_produce(data, at, version, message, spans)
    else:
        assert isinstance(message, FetchResponse)
        compare_fetch(data, at, version, message, spans)
    return True


def compare_produce(data: bytes, at: int, version: int, message: ProduceRequest, spans: ProduceSpans) -> None:
    assert (spans.transactional_id, spans.acks) == (message.transactional_id, message.acks)
    assert spans.topics_at == skipper(ProduceRequest, version, before="topic_data")(data, at)
    assert len(spans.topics) == len(message.topic_data)
    for span, topic in zip(spans.topics, message.topic_data, strict=True):
        assert isinstance(span, TopicSpan)
        assert decode(TopicProduceData, data, version, span.start) == (topic, span.end)
        assert span.key == (topic.topic_id if version >= FIRST_WITH_IDS else topic.name)
        assert span.partitions_at == skipper(TopicProduceData, version, before="partition_data")(data, span.start)
        for part, partition in zip(span.partitions, topic.partition_data, strict=True):
            assert isinstance(part, PartitionSpan)
            assert decode(PartitionProduceData, data, version, part.start) == (partition, part.end)
            assert part.index == partition.index
            compare_records(data, version, part, partition)


def compare_fetch(data: bytes, at: int, version: int, message: FetchResponse, spans: FetchSpans) -> None:
    assert spans.topics_at == skipper(FetchResponse, version, before="responses")(data, at)
    for span, topic in zip(spans.topics, message.responses, strict=True):
        assert isinstance(span, FetchTopicSpan)
        assert decode(FetchableTopicResponse, data, version, span.start) == (topic, span.end)
        assert span.key == (topic.topic_id if version >= FIRST_WITH_IDS else topic.topic)
        assert span.partitions_at == skipper(FetchableTopicResponse, version, before="partitions")(data, span.start)
        for part, partition in zip(span.partitions, topic.partitions, strict=True):
            assert isinstance(part, FetchPartitionSpan)
            assert decode(PartitionData, data, version, part.start) == (partition, part.end)
            assert (part.index, part.error_code) == (partition.partition_index, partition.error_code)
            assert part.high_watermark == partition.high_watermark
            assert integer(data, part.error_code_at, 2) == partition.error_code
            assert integer(data, part.high_watermark_at, 8) == partition.high_watermark
            aborted = field_reader(PartitionData, "aborted_transactions", version)(data, part.aborted_at)
            assert aborted == (partition.aborted_transactions, part.aborted_end)
            assert aborted_transactions(data, part, version) == (partition.aborted_transactions or ())
            compare_records(data, version, part, partition)


def compare_records(
    data: bytes, version: int, part: PartitionSpan | FetchPartitionSpan, partition: PartitionProduceData | PartitionData
) -> None:
    assert field_reader(type(partition), "records", version)(data, part.records_at) == (
        partition.records,
        part.records_end,
    )
    assert part.is_null == (partition.records is None)
    assert data[part.records_start : part.records_end] == (partition.records or b"")


def integer(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big", signed=True)


@given(pair=some.sampled_from(PAIRS), seed=some.integers(0, 2**32))
def test_a_scan_finds_the_same_as_the_decoder(pair: tuple[type[Struct], int], seed: int) -> None:
    data = encode(sample(Random(seed), *pair), pair[1])
    assert agree(*pair, data)
    assert agree(*pair, b"before" + data + b"after", 6)


@pytest.mark.parametrize("cls", SCANS, ids=lambda cls: cls.__name__)
def test_a_scan_finds_the_same_as_kio(cls: type[Struct]) -> None:
    random = Random(cls.__name__)
    for version in (one for one in versions(cls) if (cls.__name__, one) not in UNKNOWN_TO_KIO):
        for _ in range(10):
            assert agree(cls, version, kio_encode(random_entity(random, kios_class(cls, version))))


@given(pair=some.sampled_from(PAIRS), seed=some.integers(0, 2**32))
def test_a_scan_rejects_what_the_decoder_rejects(pair: tuple[type[Struct], int], seed: int) -> None:
    random = Random(seed)
    whole = encode(sample(random, *pair), pair[1])
    other = encode(sample(random, *pair), pair[1])
    for _ in range(10):
        agree(*pair, mutated(random, whole, other))


@given(pair=some.sampled_from(PAIRS), data=some.binary(max_size=200))
def test_random_bytes_are_scanned_or_rejected(pair: tuple[type[Struct], int], data: bytes) -> None:
    agree(*pair, data)


@given(pair=some.sampled_from(PAIRS), seed=some.integers(0, 2**32), data=some.data())
def test_a_message_cut_at_any_byte_raises_truncated_error(
    pair: tuple[type[Struct], int], seed: int, data: some.DataObject
) -> None:
    cls, version = pair
    whole = encode(sample(Random(seed), cls, version), version)
    with pytest.raises(TruncatedError):
        SCANS[cls](whole[: data.draw(some.integers(0, len(whole) - 1))], 0, version)


@pytest.mark.parametrize("cls", SCANS, ids=lambda cls: cls.__name__)
def test_spans_do_not_keep_the_frame_in_memory(cls: type[Struct]) -> None:
    for version in versions(cls):
        data = encode(sample(Random(version), cls, version), version)
        before = sys.getrefcount(data)
        spans = SCANS[cls](data, 0, version)
        assert sys.getrefcount(data) == before
        assert spans.end == len(data)


@pytest.mark.parametrize("cls", SCANS, ids=lambda cls: cls.__name__)
def test_a_version_outside_the_range_is_rejected(cls: type[Struct]) -> None:
    for version in (versions(cls)[0] - 1, versions(cls)[-1] + 1):
        with pytest.raises(UnsupportedVersionError):
            SCANS[cls](bytes(100), 0, version)


@pytest.mark.parametrize("at", [-1, 101])
@pytest.mark.parametrize("cls", SCANS, ids=lambda cls: cls.__name__)
def test_a_start_outside_the_bytes_is_rejected(cls: type[Struct], at: int) -> None:
    with pytest.raises(TruncatedError):
        SCANS[cls](bytes(100), at, 9)
