"""Where the records of a response are intercepted: on the loop, or in a thread where that would take long."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, ClassVar

import pytest
from support.commit_requests import PLAIN, THREE, begin_commit, commit_request, intercept, place
from support.fetches import (
    KAFKA_GO,
    begin_fetch,
    fetch_exchanges,
    fetch_request,
    offsets_in,
    partitions_in,
    respond,
    values_by_partition,
)
from support.interception import Commits, Intercepting, fetch_response, values_in
from support.produce_requests import batch

from kafka_sidecar.codec.records import Batch, Records, batches
from kafka_sidecar.plugins.effects import Work
from kafka_sidecar.plugins.values import OffsetAndMetadata, Offsets
from kafka_sidecar.proxy.exchanges import fetched_records
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_CONSUMED_BYTES
from kafka_sidecar.proxy.relay.exchange import TopicIds

UNKNOWN_SERVER_ERROR = -1


@pytest.mark.parametrize(
    ("size", "in_thread"),
    [(MAX_INLINE_CONSUMED_BYTES - 200, False), (MAX_INLINE_CONSUMED_BYTES, True), (4 << 20, True)],
)
async def test_a_large_partition_is_intercepted_in_a_thread(size: int, in_thread: bool) -> None:
    intercepting = Intercepting("Reads", limit=100 << 20)
    exchange = begin_fetch(intercepting)
    exchange.request(fetch_request(12, {"orders": {0: 0}}))
    frame = fetch_response(12, {"orders": {0: batch("edit " + "x" * size)}, "free": {0: batch("x" * size)}})
    out = await exchange.finish(exchange.response(frame), intercepting.perform)
    assert values_by_partition(12, out)["orders", 0] == [(0, b"edited")]
    assert [type(need) for need in intercepting.needs] == [Work] * in_thread
    assert (threading.get_ident() not in intercepting.interceptors[0].threads) is in_thread


class CountedBatch:
    """Counts how often it is inflated."""

    inflated: ClassVar[Counter[int]] = Counter()  # by base offset

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.batch, name)

    def records(self, limit: int, max_records: int) -> Records:
        records = self.batch.records(limit, max_records)
        self.inflated[self.batch.header.base_offset] += 1
        return records


def test_a_partition_that_is_begun_again_in_a_thread_is_seen_and_inflated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted_batches(data: memoryview, *, may_end_early: bool) -> list[CountedBatch]:
        return [CountedBatch(one) for one in batches(data, may_end_early=may_end_early)]

    monkeypatch.setattr(fetched_records, "batches", counted_batches)
    monkeypatch.setattr(CountedBatch, "inflated", inflated := Counter[int]())
    intercepting = Intercepting("Reads", limit=100 << 20)
    exchange = begin_fetch(intercepting)
    exchange.request(fetch_request(12, {"orders": {0: 0}}))
    large = batch("keep", "x" * (MAX_INLINE_CONSUMED_BYTES + 1), codec=4, base_offset=1)
    frame = fetch_response(12, {"orders": {0: batch("keep") + large, 1: batch("keep", base_offset=9)}})
    step = exchange.response(frame)
    assert isinstance(step, Work)
    assert inflated == {0: 1}
    assert intercepting.interceptors[0].seen == []
    assert exchange.answer(step.run()) is frame
    assert inflated == {0: 1, 1: 1, 9: 1}
    seen = [("orders", 0, 0), ("orders", 0, 1), ("orders", 0, 2), ("orders", 1, 9)]
    assert intercepting.interceptors[0].seen == seen


def test_a_batch_over_the_limit_is_relayed_as_it_is() -> None:
    intercepting = Intercepting("Reads", limit=1000)
    frame = fetch_response(12, {"orders": {0: batch("edit " * 5000, codec=4)}})
    step = respond(intercepting, 12, frame)
    assert isinstance(step, Work)
    exchange = begin_fetch(intercepting)
    exchange.request(fetch_request(12, {"orders": {0: 0}}))
    step = exchange.response(frame)
    assert isinstance(step, Work)
    assert exchange.answer(step.run()) is frame
    assert intercepting.stats.batches == {("Fetch", "too_large"): 1}


@pytest.mark.parametrize(("types", "expected"), [(("Reads",), False), (("Reads", "Hides"), True)])
def test_records_that_an_interceptor_hides_must_not_pass_unseen(types: tuple[str, ...], expected: bool) -> None:
    assert fetch_exchanges(Intercepting(*types)).fail_closed is expected


def damaged(base_offset: int = 0) -> bytes:
    data = bytearray(batch("secret", base_offset=base_offset))
    data[-3] ^= 1
    return bytes(data)


def test_a_batch_that_cannot_be_looked_into_is_hidden_and_those_around_it_are_shown() -> None:
    good = batch("secret", base_offset=6)
    frame = fetch_response(12, {"orders": {0: damaged(5) + good, 1: damaged(5), 2: good + damaged(7)}})
    found = partitions_in(12, respond(Intercepting("Hides"), 12, frame))
    assert {one.error_code for one in found.values()} == {0}
    masked = batch("***", base_offset=6)
    assert found["orders", 0].records == masked
    assert values_in(found["orders", 1].records) == []
    (marker,) = batches(found["orders", 1].records)
    assert (marker.header.base_offset, marker.header.is_control) == (5, True)
    assert found["orders", 2].records.startswith(masked)


def test_a_client_without_markers_continues_after_a_batch_that_cannot_be_looked_into() -> None:
    intercepting = Intercepting("Hides")
    exchange = begin_fetch(intercepting, 10, KAFKA_GO)
    exchange.request(fetch_request(10, {"orders": {0: 5}}))
    step = exchange.response(fetch_response(10, {"orders": {0: damaged(5)}}))
    assert step == TopicIds(("orders",))
    found = partitions_in(10, exchange.answer())
    assert (found["orders", 0].records or b"", found["orders", 0].error_code) == (b"", 0)
    again = begin_fetch(intercepting, 10, KAFKA_GO).request(fetch_request(10, {"orders": {0: 5}}))
    assert offsets_in(10, again) == {"orders": {0: 6}}


def test_where_unreadable_batches_fail_a_partition_that_begins_with_one_is_answered_with_an_error() -> None:
    frame = fetch_response(12, {"orders": {0: damaged(), 1: batch("secret")}, "free": {0: damaged()}})
    found = partitions_in(12, respond(Intercepting("Hides", hides_unreadable=False), 12, frame))
    assert (int(found["orders", 0].error_code), found["orders", 0].records) == (UNKNOWN_SERVER_ERROR, b"")
    assert (int(found["orders", 1].error_code), found["orders", 1].records) == (0, batch("***"))
    assert found["free", 0].records == damaged()


@pytest.mark.parametrize("hides", [False, True])
def test_records_that_are_not_intercepted_in_time_are_shown_only_if_nothing_hides_them(hides: bool) -> None:
    intercepting = Intercepting("Hides" if hides else "Reads", limit=100 << 20)
    exchange = begin_fetch(intercepting)
    exchange.request(fetch_request(12, {"orders": {0: 0}}))
    large = batch("edit " + "x" * MAX_INLINE_CONSUMED_BYTES)
    frame = fetch_response(12, {"orders": {0: large, 1: batch("keep", base_offset=9)}})
    step = exchange.response(frame)
    assert isinstance(step, Work)
    out = exchange.fail(TimeoutError())
    assert isinstance(out, bytes)
    codes = {place: one.error_code for place, one in partitions_in(12, out).items()}
    assert codes == {("orders", 0): UNKNOWN_SERVER_ERROR if hides else 0, ("orders", 1): 0}
    values = values_by_partition(12, out)
    assert len(values["orders", 0]) == (not hides)
    assert values["orders", 1] == [(9, b"***" if hides else b"keep")]
    assert intercepting.stats.batches["Fetch", "timed_out"] == 1


@pytest.mark.parametrize("size", [10, MAX_INLINE_CONSUMED_BYTES])
async def test_an_interceptor_may_wait_and_sees_no_batch_twice_but_that_one(size: int) -> None:
    intercepting = Intercepting("Waits", limit=100 << 20)
    exchange = begin_fetch(intercepting)
    exchange.request(fetch_request(12, {"orders": {0: 0}}))
    data = batch("x" * size) + batch("ask a", base_offset=1) + batch("ask b", "ask a", base_offset=2)
    frame = fetch_response(12, {"orders": {0: data, 1: batch("ask b", base_offset=9)}})
    out = await exchange.finish(exchange.response(frame), intercepting.perform)
    assert values_by_partition(12, out) == {
        ("orders", 0): [(offset, b"***") for offset in range(4)],
        ("orders", 1): [(9, b"***")],
    }
    (waiting,) = intercepting.interceptors
    assert waiting.fetched == [b"a", b"b"]
    assert waiting.seen == [("orders", 0, offset) for offset in range(4)] + [("orders", 1, 9)]
    assert intercepting.stats.batches == {("Fetch", "changed"): 4}
    assert intercepting.catalog.guards[0].failures == {}


@pytest.mark.parametrize("key", ["unavailable", "in vain"])
async def test_what_cannot_be_fetched_is_a_failure_and_the_records_are_withheld(key: str) -> None:
    intercepting = Intercepting("Waits")
    exchange = begin_fetch(intercepting)
    exchange.request(fetch_request(12, {"orders": {0: 0}}))
    frame = fetch_response(12, {"orders": {0: batch("a") + batch(f"ask {key}", base_offset=1), 1: batch(f"ask {key}")}})
    out = await exchange.finish(exchange.response(frame), intercepting.perform)
    assert values_by_partition(12, out)["orders", 0] == [(0, b"***")]
    codes = {place: one.error_code for place, one in partitions_in(12, out).items()}
    assert codes == {("orders", 0): 0, ("orders", 1): UNKNOWN_SERVER_ERROR}
    assert intercepting.catalog.guards[0].failures == {"on_consume": 2}


@pytest.mark.parametrize(
    "what", ["raises", "no mapping", "no offset", "too much metadata", "negative", "changes its own"]
)
def test_an_interceptor_that_fails_changes_nothing(what: str) -> None:
    def change(offsets: Offsets) -> Any:
        match what:
            case "raises":
                raise RuntimeError("a bug")
            case "changes its own":
                offsets.clear()
                raise RuntimeError("a bug")
            case "no mapping":
                return [*offsets]
            case "no offset":
                return {place("orders", 0): 7}
            case "too much metadata":
                return {place("orders", 0): OffsetAndMetadata(7, "x" * 4097)}
        return {place("orders", 0): OffsetAndMetadata(-7)}

    intercepting, _ = intercept(change)
    frame = commit_request(PLAIN, 8, THREE)
    assert begin_commit(intercepting, PLAIN, 8).request(frame) is frame
    assert intercepting.catalog.guards[0].failures == {"pre_commit": 1}


def test_without_on_commit_the_response_to_an_unchanged_commit_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(Commits, "on_commit")
    intercepting, _ = intercept()
    exchange = begin_commit(intercepting, PLAIN, 8)
    exchange.request(commit_request(PLAIN, 8, THREE))
    assert not exchange.wants_response


def test_each_interceptor_sees_the_topics_that_it_is_for() -> None:
    intercepting = Intercepting("Commits")
    (interceptor,) = intercepting.interceptors
    interceptor.change = lambda offsets: {}
    exchange = begin_commit(intercepting, PLAIN, 8)
    out = exchange.request(commit_request(PLAIN, 8, THREE))
    assert out == commit_request(PLAIN, 8, {"free": THREE["free"]})
    assert {at.topic for at in interceptor.asked[0]} == {"orders"}
