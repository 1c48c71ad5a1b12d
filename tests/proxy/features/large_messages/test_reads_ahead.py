"""The next large message is read while the client receives this one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from support.client import FakeClient
from support.fetches import values_by_partition
from support.large_fetches import ORDERS, Cluster
from support.large_logs import Log

from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.large_messages.reading import MAX_INLINE_BYTES, Fetched, Read
from kafka_sidecar.proxy.features.large_messages.reads_ahead import MAX_AGE_S, Reader, ReadsAhead
from kafka_sidecar.proxy.relay.exchange import Send, Turn, Work

VERSION = 12
READER = Reader(1, "orders", 0, False)
SLICES, SLICE_BYTES = 5, 100_000
VALUES = [bytes([number]) * ((SLICES - 1) * SLICE_BYTES) for number in range(5)]


def batch(offset: int, value: bytes = b"x") -> bytes:
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
    ahead.came(READER, Fetched(0, batch(20) + batch(21) + batch(22)))
    assert ahead.bytes == len(3 * batch(20))
    found = ahead.take(READER, 21)
    assert found is not None
    assert bytes(found.records) == batch(21) + batch(22)
    assert (ahead.take(READER, 21), ahead.bytes) == (None, 0)


@pytest.mark.parametrize("offset", [19, 23])
def test_a_client_that_reads_elsewhere_gets_nothing(offset: int) -> None:
    ahead = Ahead()
    ahead.begin(READER, 10, 19, Read(20, 500))
    ahead.came(READER, Fetched(0, batch(20) + batch(21)))
    assert (ahead.take(READER, offset), ahead.bytes) == (None, 0)


def test_what_has_not_come_is_no_result_and_is_not_kept_when_it_comes() -> None:
    ahead = Ahead()
    ahead.begin(READER, 10, 19, Read(20, 500))
    assert ahead.take(READER, 20) is None
    ahead.came(READER, Fetched(0, batch(20)))
    assert (ahead.take(READER, 20), ahead.bytes) == (None, 0)


def test_no_more_than_the_limit_is_kept_and_old_reads_make_room() -> None:
    ahead, other = Ahead(limit=800), READER._replace(partition=1)
    assert not ahead.begin(other, 0, 10, Read(11, 1))
    assert ahead.begin(READER, 10, 19, Read(20, 500))
    assert not ahead.begin(other, 10, 19, Read(20, 500))
    ahead.now = MAX_AGE_S + 1
    assert ahead.begin(other, 19, 29, Read(30, 500))
    assert ahead.bytes == 500
    ahead.came(READER, Fetched(0, batch(20)))
    assert (ahead.take(READER, 20), ahead.bytes) == (None, 500)


def test_records_that_cannot_be_cut_apart_are_no_result() -> None:
    ahead = Ahead()
    ahead.begin(READER, 10, 19, Read(20, 500))
    ahead.came(READER, Fetched(0, bytes(100)))
    assert ahead.take(READER, 20) is None
