"""Large messages in Fetch responses, as a dialogue with a client and a broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from support.client import FakeClient
from support.driven import Driven
from support.fetches import (
    FIRST_WITH_IDS,
    KAFKA_GO,
    VERSIONS,
    fetch_request,
    offsets_in,
    partitions_in,
    values_by_partition,
)
from support.interception import fetch_response
from support.large_fetches import ORDERS, Cluster
from support.large_logs import TOPIC_ID, Log, carrier_record, cut, lm, message_id, sliced
from support.produce_requests import batch

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.large_messages.cache import SegmentCache
from kafka_sidecar.large_messages.reading import MAX_INLINE_BYTES
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Need, TimeLimit, Turn, Work
from kafka_sidecar.proxy.features.large_messages.assemble_stage import AssembleStage
from kafka_sidecar.proxy.relay.exchange import Send, TopicIds
from kafka_sidecar.proxy.relay.memory_budget import Account, MemoryBudget
from kafka_sidecar.proxy.telemetry.metrics import Buffered

VALUE = bytes(range(256)) * 40
NEWEST = VERSIONS[-1]
each_version = pytest.mark.parametrize("version", VERSIONS)


def large_log() -> Log:
    log = Log()
    log.add(b"first")
    log.add_large(VALUE, 11, 1, topic_id=ORDERS)
    log.add(b"last")
    return log


SHOWN = [(0, b"first"), (11, VALUE), (12, b"last")]


@each_version
def test_a_message_comes_out_whole(version: int) -> None:
    cluster = Cluster({0: large_log(), 3: large_log()})
    response = cluster.fetch(version, {0: 0, 3: 12})
    assert values_by_partition(version, response) == {("orders", 0): SHOWN, ("orders", 3): SHOWN[2:]}
    assert cluster.reads == []
    assert (cluster.stats.assembled, cluster.stats.assembled_bytes, cluster.stats.hidden) == (1, len(VALUE), 10)


@each_version
def test_slices_that_the_response_lacks_are_read_from_the_broker(version: int) -> None:
    cluster = Cluster({0: large_log()})
    assert values_by_partition(version, cluster.fetch(version, {0: 5})) == {("orders", 0): SHOWN[1:]}
    ((at, offset, size),) = cluster.reads
    assert (at, offset) == (0, 1)
    assert size < 0.6 * len(VALUE)
    assert cluster.stats.intervals.safe_offset(ORDERS, 0, 9) == 1


@each_version
@pytest.mark.parametrize("isolation_level", [0, 1])
def test_where_only_slices_have_come_the_log_is_read_on(version: int, isolation_level: int) -> None:
    cluster = Cluster({0: large_log()})
    response = cluster.fetch(version, {0: 1}, isolation_level=isolation_level, max_bytes=1)
    assert values_by_partition(version, response) == {("orders", 0): SHOWN[1:]}
    assert [offset for _, offset, _ in cluster.reads] == [2]
    assert partitions_in(version, response)["orders", 0].high_watermark == 13


@each_version
@pytest.mark.parametrize("isolation_level", [0, 1])
def test_the_end_of_the_log_is_that_of_what_was_read_last(version: int, isolation_level: int) -> None:
    """Or the consumer would seem to have read after the end."""
    log, whole = Log(), large_log()
    cluster = Cluster({0: log})
    log.batches, log.end = whole.batches[:4], 5
    exchange = cluster.begin(version)
    exchange.request(cluster.request(version, {0: 1}, isolation_level))
    response = fetch_response(version, {"orders": {0: cluster.partition(0, 1, 1, isolation_level == 1)}})
    log.batches, log.end = whole.batches, whole.end
    settled = cluster.settle(version, exchange, exchange.response(response))
    assert values_by_partition(version, settled) == {("orders", 0): SHOWN[1:]}
    one = partitions_in(version, settled)["orders", 0]
    assert (one.high_watermark, one.last_stable_offset) == (13, 13)


def test_not_where_another_partition_has_something_to_show() -> None:
    slices = Log()
    for data in sliced(VALUE, 11, message_id(2)):
        slices.append(data)
    cluster = Cluster({0: slices, 1: large_log()})
    response = cluster.fetch(NEWEST, {0: 0, 1: 0}, max_bytes=1)
    assert values_by_partition(NEWEST, response) == {("orders", 0): [], ("orders", 1): SHOWN[:1]}
    assert cluster.reads == []
    (marker,) = batches(partitions_in(NEWEST, response)["orders", 0].records)
    assert marker.header.is_control


def test_aborted_transactions_of_what_is_read_in_addition_are_in_the_response() -> None:
    log = large_log()
    start = log.end
    for data in sliced(VALUE, 3, message_id(2)):
        log.append(data)
    log.aborted.append(AbortedTransaction(producer_id=7, first_offset=log.end))
    log.append(batch("aborted", attributes=0x10, producer_id=7))
    log.append(batch("shown"))
    cluster = Cluster({0: log})
    response = cluster.fetch(NEWEST, {0: start}, isolation_level=1, max_bytes=1)
    one = partitions_in(NEWEST, response)["orders", 0]
    assert [(each.producer_id, each.first_offset) for each in one.aborted_transactions] == [(7, start + 2)]
    assert values_by_partition(NEWEST, response)["orders", 0][-1] == (start + 3, b"shown")


def test_aborted_transactions_of_before_stay_in_the_response() -> None:
    log = Log()
    log.append(batch("aborted", attributes=0x10, producer_id=8))
    for data in sliced(VALUE, 3, message_id(2)):
        log.append(data)
    log.append(batch("aborted", attributes=0x10, producer_id=7))
    log.append(batch("shown"))
    cluster = Cluster({0: log})
    exchange = cluster.begin(NEWEST)
    exchange.request(cluster.request(NEWEST, {0: 0}, 1))
    log.aborted = [AbortedTransaction(producer_id=8, first_offset=0)]
    first = {**cluster.partition(0, 0, 1, is_committed_only=True), "records": b"".join(log.batches[:2])}
    log.aborted = [AbortedTransaction(producer_id=7, first_offset=3)]  # a read from 2 on does not say more
    step = exchange.response(fetch_response(NEWEST, {"orders": {0: first}}))
    one = partitions_in(NEWEST, cluster.settle(NEWEST, exchange, step))["orders", 0]
    assert [(each.producer_id, each.first_offset) for each in one.aborted_transactions] == [(8, 0), (7, 3)]


def test_a_copy_of_a_carrier_does_not_change_where_its_message_begins() -> None:
    """Who has committed an offset before the first carrier still needs the slices."""
    log = Log()
    log.add(b"first")
    at = log.add_large(VALUE, 5, 1, topic_id=ORDERS)
    log.batches.append((at + 1).to_bytes(8, "big") + log.batches[-1][8:])
    log.end += 1
    cluster = Cluster({0: log})
    response = cluster.fetch(NEWEST, {0: 0})
    assert values_by_partition(NEWEST, response)["orders", 0] == [(0, b"first"), (at, VALUE)]
    assert cluster.stats.dropped == {"copy": 1}
    intervals = cluster.stats.intervals
    for offset in range(2, at + 1):
        assert (intervals.safe_offset(ORDERS, 0, offset), intervals.deletable(ORDERS, 0, offset)) == (1, 1)


def test_nothing_is_open_after_a_message_whose_transaction_was_aborted() -> None:
    """Or its group would seem to lag for ever: what is stored for it is the offset of the first slice."""
    log = Log()
    for data in sliced(VALUE, 3, message_id(2)):
        log.append(data)
    log.aborted.append(AbortedTransaction(producer_id=7, first_offset=log.end))
    (record,) = batches(build_batch([carrier_record(VALUE, 3, message_id(2), range(2), topic_id=ORDERS)]))[0].records()
    carrier = NewRecord(record.value, record.key, tuple(record.headers))
    log.append(build_batch([carrier], attributes=0x10, producer_id=7, producer_epoch=0))
    log.append(batch("last"))
    cluster = Cluster({0: log})
    response = cluster.fetch(NEWEST, {0: 0}, isolation_level=1, max_bytes=1)
    assert values_by_partition(NEWEST, response)["orders", 0] == [(3, b"last")]
    assert cluster.stats.intervals.safe_offset(ORDERS, 0, 4) == 4


def test_an_aborted_message_holds_no_commit_while_another_reader_is_in_the_middle_of_it() -> None:
    """One of uncommitted records, which is slow. In li's form all segments are part of the transaction."""
    log = Log(aborted=[AbortedTransaction(producer_id=7, first_offset=0)])
    for number, part in enumerate(cut(VALUE, 3)):
        segment = NewRecord(part, b"key", (lm(message_id(1), number, 3, len(VALUE)),))
        log.append(build_batch([segment], attributes=0x10, producer_id=7, producer_epoch=0))
    log.append(batch("last"))
    cluster = Cluster({0: log})
    committed = cluster.fetch(NEWEST, {0: 0}, isolation_level=1)
    assert values_by_partition(NEWEST, committed)["orders", 0] == [(3, b"last")]
    cluster.read_s, log.max_read = 0.5, 1  # after one segment more it must get its response
    assert values_by_partition(NEWEST, cluster.fetch(NEWEST, {0: 0}, max_bytes=1))["orders", 0] == []
    assert cluster.stats.intervals.safe_offset(ORDERS, 0, 4) == 4
    assert values_by_partition(NEWEST, cluster.fetch(NEWEST, {0: 2}, max_bytes=1))["orders", 0] == [(2, VALUE)]
    assert cluster.stats.intervals.safe_offset(ORDERS, 0, 2) == 0


def test_what_a_client_does_not_get_now_was_not_seen() -> None:
    """What is after it is committed by no group, and counts for no safe offset."""
    log = Log()
    for number in (1, 2):
        log.add_large(bytes(600_000), 3, number, topic_id=ORDERS)
    log.add(b"last")
    cluster = Cluster({0: log})
    assert values_by_partition(NEWEST, cluster.fetch(NEWEST, {0: 0}, max_bytes=2 << 20))["orders", 0] == [
        (2, bytes(600_000))
    ]
    assert cluster.stats.intervals.first_unseen(ORDERS, 0, 0, log.end) == 5


def test_reading_on_ends_in_time() -> None:
    log = Log()
    for data in sliced(VALUE * 100, 101, message_id(1)):
        log.append(data)
    cluster = Cluster({0: log}, read_s=0.2)
    cluster.services = replace(cluster.services, read_ahead=30_000)
    cluster.fetch(NEWEST, {0: 0}, max_bytes=1)
    assert len(cluster.reads) == 1  # 0.7 of the half second that the client waits are over


def test_a_response_without_large_messages_is_the_brokers_frame() -> None:
    cluster = Cluster({})
    for topics in ({"orders": {0: batch("a", "b"), 1: b""}}, {"other": {0: large_log().fetch(0, 1 << 20)}}):
        exchange = cluster.begin(NEWEST)
        frame = fetch_request(NEWEST, {name: dict.fromkeys(one, 0) for name, one in topics.items()})
        assert exchange.request(frame) is frame
        response = fetch_response(NEWEST, topics)
        assert exchange.response(response) is response


@pytest.mark.parametrize("version", [11, 12, NEWEST])
def test_what_else_a_response_says_survives(version: int) -> None:
    log = large_log()
    cluster = Cluster({0: log})
    data = log.fetch(0, 1 << 20)
    more: dict[str, Any] = {"preferred_read_replica": 4}
    if version >= 12:
        more["diverging_epoch"] = {"epoch": 3, "end_offset": 17}
        more["current_leader"] = {"leader_id": 2, "leader_epoch": 9}
    whole: dict[str, Any] = {"session_id": 77}
    if version >= 16:
        whole["node_endpoints"] = [{"node_id": 2, "host": "b", "port": 9, "rack": None}]
    begun = cluster.begin(version)
    begun.request(cluster.request(version, {0: 0}))
    topics: dict[str, Any] = {"orders": {0: {"records": data, **more}, 1: {"records": b""}, 2: {"records": None}}}
    response = cluster.settle(version, begun, begun.response(fetch_response(version, topics, **whole)))
    found = partitions_in(version, response)
    expected = found["orders", 0].records
    topics["orders"][0]["records"] = expected
    assert response == fetch_response(version, topics, **whole)
    assert expected != data


def test_the_time_limit_counts_from_the_response_on() -> None:
    cluster = Cluster({0: large_log()}, read_s=3.0)
    cluster.services = replace(cluster.services, time_limit=TimeLimit("large_messages", 20.0, 1.0))
    exchange = cluster.begin(NEWEST)
    exchange.request(cluster.request(NEWEST, {0: 5}))
    cluster.now_s = 30.0  # the broker has waited for records
    response = fetch_response(NEWEST, {"orders": {0: cluster.partition(0, 5, 1 << 20)}})
    settled = cluster.settle(NEWEST, exchange, exchange.response(response))
    assert values_by_partition(NEWEST, settled) == {("orders", 0): SHOWN[1:]}


# Clients that would show a marker


def test_a_held_client_gets_nothing_in_place_of_slices_and_goes_on_after_them() -> None:
    log = Log()
    log.add(b"first")
    for data in sliced(VALUE, 11, message_id(1)):
        log.append(data)
    cluster = Cluster({0: log})
    cluster.fetch(10, {0: 1}, max_bytes=1, client=KAFKA_GO)  # after which it is known which topic it is
    response = cluster.fetch(10, {0: 1}, max_bytes=1, client=KAFKA_GO)
    one = partitions_in(10, response)["orders", 0]
    assert (one.records or b"", one.high_watermark) == (b"", 1)
    log.add(b"last")
    again = cluster.begin(10, replace(KAFKA_GO, number=8))
    assert offsets_in(10, again.request(cluster.request(10, {0: 1}))) == {"orders": {0: 11}}


def test_a_message_that_takes_longer_than_a_held_client_waits_is_delivered_in_the_end() -> None:
    log = Log()
    log.add_large(VALUE, 11, 1, topic_id=ORDERS)
    log.add(b"last")
    cluster = Cluster({0: log}, read_s=0.2)
    cluster.services = replace(cluster.services, cache=SegmentCache(0))
    cluster.logs[0].max_read = 1
    attempts, shown = 0, list[Any]()
    while not shown:
        response = cluster.fetch(10, {0: 10}, client=KAFKA_GO)
        shown = values_by_partition(10, response)["orders", 0]
        attempts += 1
        assert attempts < 20
    assert shown == [(10, VALUE), (11, b"last")]
    assert attempts > 1


def test_lis_own_clients_get_the_segments() -> None:
    cluster = Cluster({0: large_log()})
    cluster.services = replace(cluster.services, li_clients=("li-*",))
    client = FakeClient(client_id="li-7")
    exchange = cluster.begin(NEWEST, client)
    exchange.request(cluster.request(NEWEST, {0: 0}))
    response = fetch_response(NEWEST, {"orders": {0: large_log().fetch(0, 1 << 20)}})
    assert exchange.response(response) is response


# Memory


def test_memory_is_reserved_for_a_message_and_released_after_it() -> None:
    budget = MemoryBudget(1 << 40, Buffered())
    client = FakeClient(account=Account(budget))
    cluster = Cluster({0: large_log()})
    cluster.fetch(NEWEST, {0: 5}, client=client)
    assert budget.peak == 2 * len(VALUE)
    assert budget.spent == 0


def test_memory_is_released_if_the_connection_ends() -> None:
    budget = MemoryBudget(1 << 40, Buffered())
    cluster = Cluster({0: large_log()})
    exchange = cluster.begin(NEWEST, FakeClient(account=Account(budget)))
    exchange.request(cluster.request(NEWEST, {0: 5}))
    response = fetch_response(NEWEST, {"orders": {0: large_log().fetch(5, 1 << 20)}})
    assert isinstance(exchange.response(response), Send)
    assert budget.spent == 2 * len(VALUE)
    exchange.lost("the client closed its connection")
    assert budget.spent == 0


def test_the_id_of_a_topic_is_asked_for_where_frames_have_its_name() -> None:
    cluster = Cluster({0: large_log()})
    cluster.services = replace(cluster.services, id_of=lambda name: bytes(16))
    assert values_by_partition(12, cluster.fetch(12, {0: 5})) == {("orders", 0): SHOWN[1:]}
    assert cluster.needs[0] == TopicIds(("orders",))
    assert TOPIC_ID != ORDERS
    assert FIRST_WITH_IDS > 12


def test_fetches_too_old_for_headers_are_not_relayed() -> None:
    stage = AssembleStage(lambda topic: TopicSettings() if topic == "orders" else None, Cluster({}).services)
    assert (stage.hides("orders"), stage.hides("other"), stage.fail_closed) == (True, False, False)


@each_version
def test_a_read_that_the_broker_throttles_is_sent_again(version: int) -> None:
    cluster = Cluster({0: large_log()}, throttled=3)
    assert values_by_partition(version, cluster.fetch(version, {0: 5})) == {("orders", 0): SHOWN[1:]}
    assert len([need for need in cluster.needs if isinstance(need, Send)]) == 4


@each_version
def test_no_slice_is_shown_however_long_the_broker_throttles(version: int) -> None:
    cluster = Cluster({0: large_log()}, read_s=1.0, throttled=1000)
    cluster.services = replace(cluster.services, time_limit=TimeLimit("large_messages", 5.0, 1.0))
    response = cluster.fetch(version, {0: 5})
    assert values_by_partition(version, response) == {("orders", 0): []}
    assert cluster.now_s < 8
    cluster.throttled = 0
    assert values_by_partition(version, cluster.fetch(version, {0: 5})) == {("orders", 0): SHOWN[1:]}


@each_version
def test_no_slice_is_shown_where_the_response_to_a_read_cannot_be_understood(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster({0: large_log()})
    nonsense = fetch_response(version, {"orders": {0: b"", 1: b""}})
    monkeypatch.setattr(cluster, "answer", lambda version, frame: nonsense)
    one = partitions_in(version, cluster.fetch(version, {0: 5}))["orders", 0]
    assert (values_of_records(one.records), int(one.error_code)) == ([], 0)  # a marker for slices 5 to 10
    one = partitions_in(version, cluster.fetch(version, {0: 11}))["orders", 0]
    assert (values_of_records(one.records), int(one.error_code)) == ([], -1)


@pytest.mark.parametrize("at", range(1, 12))
def test_a_damaged_batch_of_a_response_is_an_error_and_not_a_record(at: int) -> None:
    log = large_log()
    data = bytearray(log.batches[at])
    data[-1] ^= 1
    log.batches[at] = bytes(data)
    cluster = Cluster({0: log})
    assert values_by_partition(NEWEST, cluster.fetch(NEWEST, {0: 0})) == {("orders", 0): SHOWN[:1]}
    one = partitions_in(NEWEST, cluster.fetch(NEWEST, {0: at}))["orders", 0]
    assert (one.records, int(one.error_code)) == (b"", ErrorCode.CORRUPT_MESSAGE)
    assert cluster.stats.withheld["damaged"] == 2


def test_so_is_a_damaged_batch_that_is_looked_into_in_a_thread() -> None:
    log = large_log()
    data = bytearray(build_batch([NewRecord(bytes(MAX_INLINE_BYTES + 1))]))
    data[-1] ^= 1
    log.batches.append(log.end.to_bytes(8, "big") + data[8:])
    at, log.end = log.end, log.end + 1
    cluster = Cluster({0: log})
    one = partitions_in(NEWEST, cluster.fetch(NEWEST, {0: at}))["orders", 0]
    assert (one.records, int(one.error_code)) == (b"", ErrorCode.CORRUPT_MESSAGE)


def test_a_message_whose_checksum_is_wrong_is_dropped_where_a_thread_computes_it() -> None:
    log = Log()
    log.add_large(bytes(300_000), 3, 1, codec=1, topic_id=ORDERS, crc=1)  # where segments have no checksums
    log.add(b"last")
    cluster = Cluster({0: log})
    response = cluster.fetch(NEWEST, {0: 0})
    assert values_by_partition(NEWEST, response) == {("orders", 0): [(3, b"last")]}


def values_of_records(data: bytes) -> list[bytes | None]:
    return [record.value for found in batches(data) if not found.header.is_control for record in found.records()]


@each_version
@pytest.mark.parametrize("isolation_level", [0, 1])
def test_what_is_read_on_shows_the_end_of_the_log_as_it_is_then(version: int, isolation_level: int) -> None:
    """Consumers compute their lag, and where the partition ends, from it."""
    log = large_log()
    cluster = Cluster({0: log})
    exchange = cluster.begin(version)
    step = cluster.settle(version, exchange, exchange.request(cluster.request(version, {0: 1}, isolation_level)))
    answer = fetch_response(version, {"orders": {0: cluster.partition(0, 1, 1)}})
    log.add(*[b"later"] * 5)  # after the broker has responded
    step = cluster.settle(version, exchange, exchange.response(answer))
    partition = partitions_in(version, step)["orders", 0]
    assert values_by_partition(version, step)["orders", 0][0] == (11, VALUE)
    assert partition.high_watermark == 18
    if version >= 4:
        assert partition.last_stable_offset == 18


# Clients that go away


@each_version
@pytest.mark.parametrize("client_id", ["app", "kafka-go"])
def test_a_client_may_go_away_at_any_moment_of_a_fetch(version: int, client_id: str) -> None:
    """Before the whole request is there, and while each of the needs is met."""
    for met in range(100):
        cluster = Cluster({0: large_log()})
        cluster.services = replace(cluster.services, cache=SegmentCache(0), hold_for=("kafka-go",))
        account = Account(MemoryBudget(1 << 30, Buffered()))
        exchange = cluster.begin(version, FakeClient(account=account, client_id=client_id))
        exchange.turns = True
        steps = goes_on(cluster, version, exchange)
        is_over = len([*islice(steps, met)]) < met
        exchange.lost("the client has gone")
        assert account.bytes == 0
        if is_over:
            return
    raise AssertionError("it does not end")


def goes_on(cluster: Cluster, version: int, exchange: Driven) -> Iterator[None]:
    """A Fetch, from one moment to the next."""
    yield
    step = exchange.request(cluster.request(version, {0: 5}))
    for frame in (None, fetch_response(version, {"orders": {0: cluster.partition(0, 5, 1)}})):
        step = step if frame is None else exchange.response(frame)
        while isinstance(step, Need):
            yield
            if isinstance(step, Turn):
                step = exchange.answer()
            elif isinstance(step, Send):
                step = exchange.answer(tuple(cluster.answer(version, one) for one in step.frames))
            elif isinstance(step, TopicIds):
                step = exchange.answer({"orders": ORDERS})
            else:
                assert isinstance(step, Work)
                step = cluster.work(exchange, step)
        yield
