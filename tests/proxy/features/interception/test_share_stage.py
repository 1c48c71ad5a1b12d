"""ShareFetch responses through interceptors: what a member of a share group gets."""

from __future__ import annotations

import pytest
from support.interception import Intercepting, values_in
from support.produce_requests import batch
from support.share_fetches import acquired_in, begin, partition, partitions_in, share_response

from kafka_sidecar.codec.records import batches
from kafka_sidecar.plugins.effects import Work

UNKNOWN_SERVER_ERROR = -1


@pytest.mark.parametrize("version", [1, 2])
def test_records_are_changed_and_dropped_and_what_is_acquired_stays_acquired(version: int) -> None:
    intercepting = Intercepting("Reads")
    data = batch("keep", "drop", "edit", base_offset=5) + batch("drop", base_offset=8)
    topics = {"orders": [partition(data, (5, 8)), partition(b"")], "free": [partition(data, (5, 8))]}
    found = partitions_in(version, begin(intercepting, version).response(share_response(version, topics)))
    assert values_in(found["orders", 0].records) == [(5, b"keep"), (7, b"edited")]
    assert acquired_in(found["orders", 0]) == [(5, 8)]  # what is not among the records is a gap to the client
    assert (found["orders", 1].records, found["free", 0].records) == (b"", data)
    assert intercepting.interceptors[0].seen == [("orders", 0, offset) for offset in range(5, 9)]
    assert intercepting.stats.batches == {("ShareFetch", "changed"): 1, ("ShareFetch", "dropped"): 1}


def test_where_all_is_dropped_a_marker_stays_with_which_the_client_acknowledges_the_gap() -> None:
    frame = share_response(1, {"orders": [partition(batch("drop", "drop", base_offset=5), (5, 6))]})
    found = partitions_in(1, begin(Intercepting("Reads")).response(frame))["orders", 0]
    (marker,) = batches(found.records)
    assert (marker.header.is_control, marker.header.base_offset, marker.header.last_offset_delta) == (True, 5, 1)
    assert acquired_in(found) == [(5, 6)]


@pytest.mark.parametrize(("kind", "is_there"), [("Reads", True), ("Hides", False)])
def test_batches_that_others_have_acquired_are_not_seen_and_not_sent_where_something_is_hidden(
    kind: str, is_there: bool
) -> None:
    intercepting = Intercepting(kind)
    data = batch("secret", base_offset=4) + batch("keep", "keep", base_offset=5) + batch("secret", base_offset=7)
    frame = share_response(1, {"orders": [partition(data, (6, 6))]})
    found = partitions_in(1, begin(intercepting).response(frame))["orders", 0]
    assert (b"secret" in found.records) is is_there
    assert sum(intercepting.stats.batches.values()) == 1
    assert acquired_in(found) == [(6, 6)]


def damaged(base_offset: int) -> bytes:
    data = bytearray(batch("secret", base_offset=base_offset))
    data[-3] ^= 1
    return bytes(data)


def test_a_batch_that_cannot_be_looked_into_is_a_gap() -> None:
    intercepting = Intercepting("Hides")
    frame = share_response(1, {"orders": [partition(damaged(5) + batch("a", base_offset=6), (5, 6))]})
    found = partitions_in(1, begin(intercepting).response(frame))["orders", 0]
    assert (values_in(found.records), acquired_in(found), found.error_code) == ([(6, b"***")], [(5, 6)], 0)
    assert intercepting.stats.batches["ShareFetch", "hidden_unreadable"] == 1


def test_where_such_batches_fail_nothing_from_there_on_is_acquired_so_that_no_member_acknowledges_it() -> None:
    intercepting = Intercepting("Hides", hides_unreadable=False)
    good, after = batch("a", "a", base_offset=3), batch("a", base_offset=6)
    partitions = [
        partition(good + damaged(5) + after, (3, 3), (4, 6), (7, 9)),
        partition(damaged(5) + after, (5, 6)),
        partition(bytes(80), (5, 6)),
    ]
    found = partitions_in(1, begin(intercepting).response(share_response(1, {"orders": partitions})))
    assert values_in(found["orders", 0].records) == [(3, b"***"), (4, b"***")]
    assert (acquired_in(found["orders", 0]), found["orders", 0].error_code) == ([(3, 3), (4, 4)], 0)
    for place in (("orders", 1), ("orders", 2)):
        one = found[place]
        assert (one.records, acquired_in(one), one.error_code) == (b"", [], UNKNOWN_SERVER_ERROR)


@pytest.mark.parametrize("hides", [False, True])
def test_records_that_are_not_intercepted_in_time_are_shown_only_if_nothing_hides_them(hides: bool) -> None:
    intercepting = Intercepting("Hides" if hides else "Reads", limit=100 << 20)
    exchange = begin(intercepting)
    large = batch("edit " + "x" * (64 << 10))
    assert isinstance(exchange.response(share_response(1, {"orders": [partition(large, (0, 0))]})), Work)
    found = partitions_in(1, exchange.fail(TimeoutError()))["orders", 0]
    assert (found.records, acquired_in(found)) == ((b"", []) if hides else (large, [(0, 0)]))
    assert found.error_code == (UNKNOWN_SERVER_ERROR if hides else 0)
    assert intercepting.stats.batches["ShareFetch", "timed_out"] == 1


async def test_a_large_partition_is_intercepted_in_a_thread() -> None:
    intercepting = Intercepting("Reads", limit=100 << 20)
    frame = share_response(1, {"orders": [partition(batch("edit " + "x" * (64 << 10)), (0, 0))]})
    exchange = begin(intercepting)
    out = await exchange.finish(exchange.response(frame), intercepting.perform)
    assert values_in(partitions_in(1, out)["orders", 0].records) == [(0, b"edited")]
    assert [type(need) for need in intercepting.needs] == [Work]


async def test_an_interceptor_may_wait_for_what_it_has_to_fetch() -> None:
    intercepting = Intercepting("Waits")
    exchange = begin(intercepting)
    frame = share_response(1, {"orders": [partition(batch("ask a", base_offset=5), (5, 5))]})
    out = await exchange.finish(exchange.response(frame), intercepting.perform)
    assert values_in(partitions_in(1, out)["orders", 0].records) == [(5, b"***")]
    assert intercepting.interceptors[0].fetched == [b"a"]
