"""Fetch responses: what is spliced into them, in every version. kio is the reference."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle
from support.driven import Driven
from support.fetches import VERSIONS, begin_fetch, fetch_request, partitions_in, respond, values_by_partition
from support.interception import Intercepting, fetch_response
from support.produce_requests import batch, topic_id

from kafka_sidecar.codec.envelope import decode_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import decode, encode, replace_fields
from kafka_sidecar.codec.messages.fetch import FetchRequest, FetchResponse
from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.plugins.effects import TURN, Need, Steps
from kafka_sidecar.proxy.exchanges.fetch import FetchedPartition, FetchExchange, FetchStart, StageRun
from kafka_sidecar.proxy.exchanges.limits import Limits
from kafka_sidecar.proxy.relay.exchange import TopicNames

FEWER = settings(max_examples=settings().max_examples // 2)
each_version = pytest.mark.parametrize("version", VERSIONS)
UNKNOWN_TOPIC_ID, OUT_OF_RANGE = 100, 1


@each_version
def test_a_request_is_forwarded_unchanged(version: int) -> None:
    frame, exchange = (
        fetch_request(version, {"orders": {0: 5}, "free": {1: 6}}),
        begin_fetch(Intercepting("Reads"), version),
    )
    assert exchange.request(frame) is frame
    assert exchange.wants_response


@each_version
def test_only_changed_records_are_spliced_in(version: int) -> None:
    intercepting = Intercepting("Reads")
    two = batch("edit", "keep", base_offset=5) + batch("drop", "keep", base_offset=7)
    topics: dict[str, dict[int, Any]] = {
        "free": {0: batch("edit")},
        "orders": {4: batch("keep"), 2: two, 3: b"", 5: None},
        "payments": {0: two},
    }
    out = respond(intercepting, version, fetch_response(version, topics))
    edited = build_batch([NewRecord(b"edited"), NewRecord(b"keep")], base_offset=5)
    left = build_batch([NewRecord(b"keep", offset_delta=1)], base_offset=7)
    assert out == fetch_response(version, {**topics, "orders": {**topics["orders"], 2: edited + left}})
    assert intercepting.stats.batches == {("Fetch", "changed"): 2, ("Fetch", "unchanged"): 1}


@each_version
def test_a_response_without_changes_is_the_brokers_frame(version: int) -> None:
    intercepting = Intercepting("Reads")
    for topics in ({"orders": {0: batch("keep")}, "free": {0: batch("edit")}}, {"free": {0: batch("edit")}}, {}):
        frame = fetch_response(version, topics)
        assert respond(intercepting, version, frame) is frame


@each_version
def test_dropped_records_at_the_end_become_a_marker(version: int) -> None:
    intercepting = Intercepting("Reads")
    data = batch("keep", base_offset=3) + batch("drop", "drop", base_offset=4)
    out = respond(intercepting, version, fetch_response(version, {"orders": {0: data}}))
    one = partitions_in(version, out)["orders", 0]
    last = batches(one.records)[-1].header
    assert (last.base_offset, last.last_offset_delta, last.is_control, last.producer_id) == (4, 1, True, -1)
    assert values_by_partition(version, out) == {("orders", 0): [(3, b"keep")]}
    assert one.high_watermark == 1000


@each_version
@pytest.mark.parametrize("isolation", [0, 1])
def test_aborted_records_are_not_intercepted_for_clients_that_read_committed_ones(version: int, isolation: int) -> None:
    intercepting = Intercepting("Reads")
    aborted = batch("edit", attributes=0x10, producer_id=7, base_sequence=0, base_offset=5)
    data = aborted + batch("edit", base_offset=6)
    one = {"records": data, "aborted_transactions": [{"producer_id": 7, "first_offset": 5}]}
    out = respond(intercepting, version, fetch_response(version, {"orders": {0: one}}), isolation_level=isolation)
    seen = [(6, b"edited")] if isolation else [(5, b"edited"), (6, b"edited")]
    assert values_by_partition(version, out)["orders", 0][-len(seen) :] == seen
    assert [offset for _, _, offset in intercepting.interceptors[0].seen] == [at for at, _ in seen]
    if isolation:
        assert isinstance(out, bytes)
        assert aborted in out


@each_version
def test_partitions_with_an_error_stay_as_they_are(version: int) -> None:
    topics = {"orders": {0: {"error_code": OUT_OF_RANGE, "high_watermark": -1}, 1: {"error_code": 6, "records": b""}}}
    frame = fetch_response(version, topics)
    assert respond(Intercepting("Reads"), version, frame) is frame


def tagged(version: int, records: bytes, frame: bytes) -> bytes:
    """All that a broker may add, known and unknown."""
    response, end = decode(FetchResponse, frame, version, 9)
    assert end == len(frame)
    (topic,) = response.responses
    (one,) = topic.partitions
    one = replace_fields(
        one, records=records, preferred_read_replica=3, unknown_tags=((9, b"nine"),),
        diverging_epoch=replace_fields(one.diverging_epoch, epoch=2, end_offset=17),
        current_leader=replace_fields(one.current_leader, leader_id=1, leader_epoch=9),
    )  # fmt: skip
    topic = replace_fields(topic, partitions=(one,), unknown_tags=((5, b"five"),))
    return oracle.framed(
        frame[4:9] + encode(replace_fields(response, responses=(topic,), unknown_tags=((77, b"x"),)), version)
    )


@pytest.mark.parametrize("version", range(12, 19))
def test_all_other_fields_survive_a_change_of_records(version: int) -> None:
    plain = fetch_response(version, {"orders": {0: batch("edit")}}, session_id=5, error_code=0)
    out = respond(Intercepting("Reads"), version, tagged(version, batch("edit"), plain))
    assert out == tagged(version, batch("edited"), plain)
    for part in (b"nine", b"five"):
        assert part in out


@each_version
def test_a_batch_that_is_cut_off_at_the_end_is_not_looked_into(version: int) -> None:
    data = batch("edit") + batch("edit", base_offset=1)[:-2]
    out = respond(Intercepting("Reads"), version, fetch_response(version, {"orders": {0: data}}))
    assert values_by_partition(version, out) == {("orders", 0): [(0, b"edited")]}


@each_version
def test_a_response_that_cannot_be_read_raises(version: int) -> None:
    exchange = begin_fetch(Intercepting("Reads"), version)
    exchange.request(fetch_request(version, {"orders": {0: 0}}))
    with pytest.raises(CodecError):
        exchange.response(fetch_response(version, {"orders": {0: batch("keep")}})[:-2])


@FEWER
@given(st.sampled_from(VERSIONS), st.binary(max_size=100))
def test_noise_raises_a_codec_error_or_stays_as_it_is(version: int, noise: bytes) -> None:
    intercepting = Intercepting("Reads")
    exchange = begin_fetch(intercepting, version)
    exchange.request(fetch_request(version, {"orders": {0: 0}}))
    frame = oracle.framed(bytes(4) + noise)
    try:
        out = exchange.response(frame)
    except CodecError:
        return
    assert out is frame or isinstance(out, Need)


# Topics by their ids


def test_the_name_of_an_unknown_id_is_asked_for_once() -> None:
    intercepting = Intercepting("Reads", topics=("orders*",))
    exchange = begin_fetch(intercepting, 13)
    exchange.request(fetch_request(13, {"orders-2": {0: 0}}))
    frame = fetch_response(13, {"orders-2": {0: batch("edit")}})
    assert exchange.response(frame) == TopicNames((topic_id("orders-2"),))
    intercepting.topics.remember([(topic_id("orders-2"), "orders-2")])
    assert exchange.answer() == fetch_response(13, {"orders-2": {0: batch("edited")}})


def test_records_of_a_topic_whose_name_stays_unknown_do_not_pass_unseen() -> None:
    exchange = begin_fetch(Intercepting("Reads"), 13)
    exchange.request(fetch_request(13, {"orders": {0: 0}}))
    topics: dict[str, dict[int, Any]] = {
        "who": {0: batch("secret"), 1: b"", 2: {"error_code": 6}},
        "orders": {0: batch("edit")},
    }
    assert exchange.response(fetch_response(13, topics)) == TopicNames((topic_id("who"),))
    out = exchange.answer()
    assert isinstance(out, bytes)
    assert b"secret" not in out
    found = partitions_in(13, out)
    assert [(int(found["who", at].error_code), bytes(found["who", at].records or b"")) for at in (0, 1, 2)] == [
        (UNKNOWN_TOPIC_ID, b""),
        (0, b""),
        (6, b""),
    ]
    assert values_by_partition(13, out)["orders", 0] == [(0, b"edited")]


def test_an_unknown_id_without_partitions_is_not_asked_for() -> None:
    frame = fetch_response(13, {"who": {}})
    assert respond(Intercepting("Reads"), 13, frame) is frame


# Turns and stages


def test_each_partition_with_records_has_its_turn() -> None:
    exchange = begin_fetch(Intercepting("Reads"), turns=True)
    exchange.request(fetch_request(12, {"orders": {0: 0}}))
    topics: dict[str, dict[int, Any]] = {
        "orders": {0: batch("edit"), 1: b"", 2: batch("keep")},
        "free": {0: batch("edit")},
    }
    step, turns = exchange.response(fetch_response(12, topics)), 0
    while step == TURN:
        step, turns = exchange.answer(), turns + 1
    assert turns == 2
    assert step == fetch_response(12, {"orders": {**topics["orders"], 0: batch("edited")}, "free": topics["free"]})


class Appending(StageRun):
    """Adds a batch to each partition; takes note of what it gets."""

    wants_empty = True
    restores = False

    def __init__(self, value: str) -> None:
        self.value = value
        self.opened: list[bytes] = []
        self.records: list[bytes] = []

    def open(self, frame: bytes, start: FetchStart) -> Steps[bytes]:
        self.opened.append(frame)
        yield from ()
        return frame + self.value.encode()

    def wants(self, topic: str) -> bool:
        return topic == "orders"

    def partition(self, partition: FetchedPartition) -> None:
        self.records.append(bytes(partition.records))
        partition.replace(bytes(partition.records) + batch(self.value))

    def finish(self) -> Steps[None]:
        yield TopicNames((self.value.encode(),))


def test_responses_pass_the_stages_in_their_order_and_requests_the_other_way() -> None:
    first, second = Appending("first"), Appending("second")
    exchange = Driven(FetchExchange([first, second], lambda topic_id: None, 12))
    request = fetch_request(12, {"orders": {0: 0}})
    assert exchange.request(request) == request + b"second" + b"first"
    assert (second.opened, first.opened) == ([request], [request + b"second"])
    step = exchange.response(fetch_response(12, {"orders": {0: batch("a"), 1: None}, "free": {0: batch("a")}}))
    assert step == TopicNames((b"first",))
    assert exchange.answer() == TopicNames((b"second",))
    assert first.records == [batch("a"), b""]
    assert second.records == [batch("a") + batch("first"), batch("first")]
    both = batch("first") + batch("second")
    new = {"orders": {0: batch("a") + both, 1: both}, "free": {0: batch("a")}}
    assert exchange.answer() == fetch_response(12, new)


def test_a_response_that_is_buffered_is_asked_for_no_larger_than_it_may_be() -> None:
    exchange = Driven(FetchExchange([Appending("")], lambda topic_id: None, 12, Limits(max_response=1000)))
    request = fetch_request(12, {"orders": {0: 0}})
    sent = exchange.request(request)
    assert isinstance(sent, bytes)
    opened = decode_request(FetchRequest, sent)[1].message
    assert opened.max_bytes == 1000
    asked = decode_request(FetchRequest, request)[1].message
    assert opened == replace_fields(asked, max_bytes=1000)


def test_nothing_of_a_response_is_kept_once_the_client_has_it() -> None:
    exchange = begin_fetch(Intercepting("Reads"))
    exchange.request(fetch_request(12, {"orders": {0: 0}}))
    frame = fetch_response(12, {"orders": {0: batch("edit")}})
    before = sys.getrefcount(frame)
    exchange.response(frame)
    assert sys.getrefcount(frame) == before
