"""Requests of our own for the log of one partition. kio is the reference."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from support import oracle
from support.client import FakeClient
from support.fetches import VERSIONS, fetch_request, offsets_in, request_in, values_by_partition
from support.interception import fetch_response
from support.large_fetches import ORDERS, Cluster
from support.large_logs import Log
from support.produce_requests import batch, topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.large_messages.reading import MAX_INLINE_BYTES, Fetched, Read, UnreadableError
from kafka_sidecar.plugins.effects import Turn, Work
from kafka_sidecar.proxy.features.large_messages.reads import (
    MAX_AGE_S,
    NOWHERE,
    FetchPosition,
    FetchPositions,
    Reader,
    ReadsAhead,
    read_request,
    read_response,
)
from kafka_sidecar.proxy.relay.exchange import Send

MIB = 1 << 20
VERSION = 12
READER = Reader(1, "orders", 0, False)
SLICES, SLICE_BYTES = 5, 100_000
VALUES = [bytes([number]) * ((SLICES - 1) * SLICE_BYTES) for number in range(5)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_read_is_a_fetch_without_a_session(version: int) -> None:
    key = topic_id("orders") if version >= 13 else "orders"
    frame = read_request(Read(7, 3000, committed_only=True), version, key, 4, "app")
    assert offsets_in(version, frame) == {"orders": {4: 7}}
    request = request_in(version, frame)
    [topic] = request.topics
    [one] = topic.partitions
    assert (request.max_bytes, one.partition_max_bytes, request.min_bytes) == (3000, 3000, 0)
    assert int(request.isolation_level) == 1
    if version >= 7:
        assert (request.session_id, request.session_epoch) == (0, -1)
    assert (one.fetch_offset, request.max_wait.total_seconds()) == (7, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_its_response_is_read(version: int) -> None:
    data = batch("a", base_offset=7)
    fetched = read_response(fetch_response(version, {"orders": {4: data}}), version)
    assert fetched is not None
    assert batches(fetched.records)[0].header.base_offset == 7
    assert (fetched.error_code, fetched.high_watermark) == (0, 1000)
    empty = read_response(fetch_response(version, {"orders": {4: None}}), version)
    assert empty is not None
    assert empty.records == b""


def test_another_response_means_that_the_log_cannot_be_read_now() -> None:
    frames = [
        fetch_response(12, topics)
        for topics in ({}, {"orders": {0: b"", 1: b""}}, {"orders": {0: b""}, "other": {0: b""}})
    ]
    for frame in (*frames, frames[1][:-1], b"\0\0\0\4"):
        with pytest.raises(UnreadableError):
            read_response(frame, 12)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_that_throttles_has_not_responded_yet(version: int) -> None:
    assert read_response(fetch_response(version, {}, throttle_time=timedelta(milliseconds=900)), version) is None


def test_an_error_of_the_whole_response_is_that_of_the_read() -> None:
    assert read_response(fetch_response(12, {}, error_code=70), 12) == Fetched(70)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_says_where_its_client_reads(version: int) -> None:
    positions = FetchPositions(fetch_request(version, {"orders": {0: 5, 3: 7}}, isolation_level=1), version, None)
    key = topic_id("orders") if version >= 13 else "orders"
    assert positions.of(key, 0) == FetchPosition(5, MIB)
    assert positions.of(key, 3) == FetchPosition(7, MIB)
    assert positions.of(key, 4) == NOWHERE
    assert (positions.is_committed_only, positions.max_bytes) == (True, MIB)


def test_a_session_keeps_what_is_not_named_again() -> None:
    first = FetchPositions(fetch_request(12, {"orders": {0: 5, 1: 7}, "other": {0: 1}}, epoch=0), 12, None)
    second = FetchPositions(fetch_request(12, {"orders": {1: 8}}, epoch=1, session=9), 12, first)
    found = [second.of(*place).offset for place in (("orders", 0), ("orders", 1), ("other", 0))]
    assert found == [5, 8, 1]
    assert first.of("orders", 1).offset == 7


def test_a_session_forgets_what_it_is_asked_to() -> None:
    first = FetchPositions(fetch_request(12, {"orders": {0: 5, 1: 7}}, epoch=0), 12, None)
    request = oracle.request(
        ApiKey.FETCH, 12, replica_id=-1, session_id=9, session_epoch=1, rack_id="",
        forgotten_topics_data=[{"topic": "orders", "partitions": [0]}],
    )  # fmt: skip
    second = FetchPositions(oracle.request_frame(request, 1), 12, first)
    assert (second.of("orders", 0), second.of("orders", 1).offset) == (NOWHERE, 7)


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_new_session_knows_nothing_of_the_one_before(epoch: int) -> None:
    first = FetchPositions(fetch_request(12, {"orders": {0: 5}}, epoch=0), 12, None)
    assert FetchPositions(fetch_request(12, {"orders": {1: 8}}, epoch=epoch), 12, first).of("orders", 0) == NOWHERE


def test_bytes_that_are_no_request_raise_codec_error() -> None:
    with pytest.raises(CodecError):
        FetchPositions(fetch_request(12, {"orders": {0: 5}})[:-9], 12, None)


def batch_at(offset: int, value: bytes = b"x") -> bytes:
    return build_batch([NewRecord(value)], base_offset=offset)


class Ahead(ReadsAhead):
    """Of a reader that has got large messages alone up to the offset 10."""

    def __init__(self, limit: int = 1000) -> None:
        self.now = 0.0
        super().__init__(limit, lambda: self.now)
        assert not self.begin(READER, 0, 10, Read(11, 1))


def log_of(values: Sequence[bytes], between: Sequence[bytes] = ()) -> Log:
    log = Log()
    for number, value in enumerate(values, 1):
        log.add_large(value, SLICES, number, topic_id=ORDERS)
        if between:
            log.add(*between)
    return log


def responses(cluster: Cluster, client: FakeClient) -> Iterator[list[bytes | None]]:
    """The values in each response, which has one slice before the sidecar reads on."""
    offset, end = 0, cluster.logs[0].end
    while offset < end:
        response = cluster.fetch(VERSION, {0: offset}, max_bytes=SLICE_BYTES, client=client)
        shown = values_by_partition(VERSION, response)["orders", 0]
        yield [value for _, value in shown]
        offset = shown[-1][0] + 1


def consume(cluster: Cluster, client: FakeClient) -> list[bytes | None]:
    """All values."""
    return [value for response in responses(cluster, client) for value in response]


def test_after_two_large_messages_the_next_one_is_read_before_it_is_asked_for() -> None:
    cluster = Cluster({0: log_of(VALUES)})
    reads = [(values, len(cluster.reads)) for values in responses(cluster, FakeClient())]
    assert [count for _, count in reads] == [1, 3, 4, 5, 5]


def test_no_slice_is_read_twice() -> None:
    cluster = Cluster({0: log_of(VALUES)})
    assert consume(cluster, FakeClient()) == VALUES
    assert [offset for _, offset, _ in cluster.reads] == list(range(1, len(VALUES) * SLICES, SLICES))
    assert all(size < SLICES * SLICE_BYTES for *_, size in cluster.reads)


def test_it_is_asked_for_before_the_checksums_of_this_one_are_computed() -> None:
    size = MAX_INLINE_BYTES + 1000  # slices that are looked into in threads
    values = [bytes([number]) * (2 * size) for number in range(4)]
    log = Log()
    for number, value in enumerate(values, 1):
        log.add_large(value, 3, number, topic_id=ORDERS)
    cluster, client = Cluster({0: log}), FakeClient()
    cluster.services = replace(cluster.services, ahead=ReadsAhead(32 << 20, lambda: 0.0))
    for number in range(2):
        cluster.fetch(VERSION, {0: 3 * number}, max_bytes=1000, client=client)
    cluster.needs.clear()
    cluster.fetch(VERSION, {0: 6}, max_bytes=1000, client=client)
    assert [type(need) for need in cluster.needs if not isinstance(need, Turn)] == [Work, Send, Work]


@pytest.mark.parametrize("counts", [[5, 5, 5, 9, 5, 3, 3], [3, 9, 3, 9, 3, 9], [9, 9, 2, 2, 9, 2]])
def test_messages_of_other_sizes_than_those_before_are_whole(counts: Sequence[int]) -> None:
    values = [os.urandom((count - 1) * SLICE_BYTES) for count in counts]
    log = Log()
    for number, (value, count) in enumerate(zip(values, counts, strict=True), 1):
        log.add_large(value, count, number, topic_id=ORDERS)
    cluster = Cluster({0: log})
    cluster.services = replace(cluster.services, ahead=ReadsAhead(32 << 20, lambda: 0.0))
    assert consume(cluster, FakeClient()) == values


def test_nothing_is_read_before_it_is_asked_for_where_small_messages_are_between() -> None:
    cluster = Cluster({0: log_of(VALUES, between=[b"small"])})
    assert [value for value in consume(cluster, FakeClient()) if value != b"small"] == VALUES
    assert [offset % (SLICES + 1) for _, offset, _ in cluster.reads] == [1] * len(VALUES)


def test_nothing_is_read_before_it_is_asked_for_where_nothing_may_be_kept() -> None:
    cluster = Cluster({0: log_of(VALUES)})
    cluster.services = replace(cluster.services, ahead=ReadsAhead(0, lambda: 0.0))
    assert consume(cluster, FakeClient()) == VALUES
    assert [offset % SLICES for _, offset, _ in cluster.reads] == [1] * len(VALUES)


def test_nothing_is_read_before_it_is_asked_for_where_it_has_come_and_has_no_room() -> None:
    log = Log()
    for number in range(1, 6):
        log.add_large(bytes(600_000), SLICES, number, topic_id=ORDERS)
    cluster, client, offset = Cluster({0: log}), FakeClient(), 0
    cluster.services = replace(cluster.services, ahead=ReadsAhead(32 << 20, lambda: 0.0))
    for number in range(5):
        response = cluster.fetch(VERSION, {0: offset}, max_bytes=8 << 20, client=client)
        ((at, value),) = values_by_partition(VERSION, response)["orders", 0]
        assert (at, value) == ((number + 1) * SLICES - 1, bytes(600_000))
        offset = at + 1
    assert cluster.reads == []


def test_another_client_does_not_get_what_one_has_read() -> None:
    cluster = Cluster({0: log_of(VALUES)})
    first, second = FakeClient(), FakeClient()
    second.number = first.number + 1
    for offset in (0, SLICES):
        cluster.fetch(VERSION, {0: offset}, max_bytes=SLICE_BYTES, client=first)
    before = len(cluster.reads)
    cluster.services.cache.resize(0)
    cluster.fetch(VERSION, {0: 2 * SLICES}, max_bytes=SLICE_BYTES, client=second)
    assert len(cluster.reads) > before


def test_a_read_is_taken_once_from_the_batch_that_is_asked_for() -> None:
    ahead = Ahead()
    assert ahead.begin(READER, 10, 19, Read(20, 500))
    assert ahead.bytes == 500
    ahead.came(READER, Fetched(0, batch_at(20) + batch_at(21) + batch_at(22)))
    assert ahead.bytes == len(3 * batch_at(20))
    found = ahead.take(READER, 21)
    assert found is not None
    assert bytes(found.records) == batch_at(21) + batch_at(22)
    assert (ahead.take(READER, 21), ahead.bytes) == (None, 0)


@pytest.mark.parametrize("offset", [19, 23])
def test_a_client_that_reads_elsewhere_gets_nothing(offset: int) -> None:
    ahead = Ahead()
    ahead.begin(READER, 10, 19, Read(20, 500))
    ahead.came(READER, Fetched(0, batch_at(20) + batch_at(21)))
    assert (ahead.take(READER, offset), ahead.bytes) == (None, 0)


def test_what_has_not_come_is_no_result_and_is_not_kept_when_it_comes() -> None:
    ahead = Ahead()
    ahead.begin(READER, 10, 19, Read(20, 500))
    assert ahead.take(READER, 20) is None
    ahead.came(READER, Fetched(0, batch_at(20)))
    assert (ahead.take(READER, 20), ahead.bytes) == (None, 0)


def test_no_more_than_the_limit_is_kept_and_old_reads_make_room() -> None:
    ahead, other = Ahead(limit=800), READER._replace(partition=1)
    assert not ahead.begin(other, 0, 10, Read(11, 1))
    assert ahead.begin(READER, 10, 19, Read(20, 500))
    assert not ahead.begin(other, 10, 19, Read(20, 500))
    ahead.now = MAX_AGE_S + 1
    assert ahead.begin(other, 19, 29, Read(30, 500))
    assert ahead.bytes == 500
    ahead.came(READER, Fetched(0, batch_at(20)))
    assert (ahead.take(READER, 20), ahead.bytes) == (None, 500)


def test_records_that_cannot_be_cut_apart_are_no_result() -> None:
    ahead = Ahead()
    ahead.begin(READER, 10, 19, Read(20, 500))
    ahead.came(READER, Fetched(0, bytes(100)))
    assert ahead.take(READER, 20) is None
