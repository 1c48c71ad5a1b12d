"""Clients that would show a marker to their application: they get nothing in place of hidden records, and the broker is
asked for the records that follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.client import FakeClient
from support.driven import Driven, Step
from support.fetches import KAFKA_GO, VERSIONS, begin_fetch, fetch_request, offsets_in, partitions_in
from support.interception import Intercepting, fetch_response
from support.produce_requests import batch, topic_id

from kafka_sidecar.plugins.effects import TURN, Need, Work
from kafka_sidecar.proxy.exchanges.held_clients import NO_TOPIC_ID, FetchPosition
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_ELEMENTS, PARTITIONS_PER_TURN
from kafka_sidecar.proxy.relay.exchange import TopicIds

OUT_OF_RANGE = 1
POSITION = FetchPosition("go", None, 0, "orders", 0, 5)
NO_IDS: Mapping[str, bytes] = {}


def intercept(hidden_to: int | None = None) -> Intercepting:
    """The topic has been looked up before. Records from offset 5 up to ``hidden_to`` are known to be hidden."""
    intercepting = Intercepting("Reads")
    intercepting.services.hidden_offsets.is_current("orders", NO_TOPIC_ID)
    if hidden_to is not None:
        intercepting.services.hidden_offsets.hide(POSITION, hidden_to)
    return intercepting


def begin(intercepting: Intercepting, frame: bytes, version: int = 10) -> Driven:
    exchange = begin_fetch(intercepting, version, KAFKA_GO)
    exchange.request(frame)
    return exchange


def confirm(exchange: Driven, step: Step, ids: Mapping[str, bytes] | None = NO_IDS) -> Step:
    """The response, once it is known which topic it is."""
    assert step == TopicIds(("orders",))
    return exchange.answer(ids)


@pytest.mark.parametrize("version", [4, 5, 10])
def test_hidden_records_at_the_end_are_removed_and_the_next_request_is_for_the_following_ones(version: int) -> None:
    intercepting = intercept()
    exchange = begin_fetch(intercepting, version, KAFKA_GO)
    frame = fetch_request(version, {"orders": {0: 5, 1: 7}, "free": {0: 5}})
    assert exchange.request(frame) is frame
    data = batch("drop", "drop", base_offset=5) + batch("drop", base_offset=7)
    topics = {"orders": {0: data, 1: batch("keep", base_offset=7) + batch("drop", base_offset=8)}, "free": {0: data}}
    response = confirm(exchange, exchange.response(fetch_response(version, topics)))
    found = partitions_in(version, response)
    assert (found["orders", 0].records or b"", found["orders", 0].high_watermark) == (b"", 5)
    assert (found["orders", 1].records, found["orders", 1].high_watermark) == (batch("keep", base_offset=7), 1000)
    assert found["free", 0].records == data

    again = begin_fetch(intercepting, version, FakeClient(number=8, client_id="go", client_software=None))
    request = again.request(frame)
    assert request == fetch_request(version, {"orders": {0: 8, 1: 7}, "free": {0: 5}})
    assert offsets_in(version, request)["orders"] == {0: 8, 1: 7}
    step = again.response(fetch_response(version, {"orders": {0: batch("drop", base_offset=8)}}))
    assert partitions_in(version, confirm(again, step))["orders", 0].high_watermark == 5

    third = begin_fetch(intercepting, version, KAFKA_GO).request(frame)
    assert offsets_in(version, third)["orders"][0] == 9


def test_hidden_records_of_many_partitions_are_skipped_in_turns_and_in_threads() -> None:
    partitions = range(MAX_INLINE_ELEMENTS + 1)
    exchange = begin_fetch(intercept(hidden_to=8), 10, KAFKA_GO)
    exchange.turns = True
    step, needs = exchange.request(fetch_request(10, {"orders": dict.fromkeys(partitions, 5)})), list[Need]()
    while isinstance(step, Need):
        needs.append(step)
        step = exchange.answer(step.run() if isinstance(step, Work) else None)
    assert needs.count(TURN) == len(partitions) // PARTITIONS_PER_TURN + 1
    assert [type(need) for need in needs if need is not TURN] == [Work, Work]
    assert step == fetch_request(10, {"orders": {0: 8, **dict.fromkeys(partitions[1:], 5)}})


def test_visible_records_after_hidden_ones_have_their_own_offsets() -> None:
    exchange = begin(intercept(hidden_to=8), fetch_request(10, {"orders": {0: 5}}))
    frame = fetch_response(10, {"orders": {0: batch("keep", base_offset=8)}})
    assert confirm(exchange, exchange.response(frame)) is frame


def test_of_a_topic_that_was_created_again_nothing_is_skipped() -> None:
    intercepting = intercept(hidden_to=8)
    frame, data = fetch_request(10, {"orders": {0: 5, 1: 5}}), batch("keep", base_offset=8)
    exchange = begin_fetch(intercepting, 10, KAFKA_GO)
    assert exchange.request(frame) is not frame
    step = exchange.response(fetch_response(10, {"orders": {0: data, 1: data}}))
    found = partitions_in(10, confirm(exchange, step, {"orders": topic_id("orders")}))
    assert (found["orders", 0].records or b"", found["orders", 0].high_watermark) == (b"", 5)
    assert found["orders", 1].records == data
    assert begin_fetch(intercepting, 10, KAFKA_GO).request(frame) is frame


def test_clients_go_on_where_the_cluster_does_not_say_which_topic_it_is() -> None:
    intercepting, frame = Intercepting("Reads"), fetch_request(10, {"orders": {0: 5}})
    exchange = begin(intercepting, frame)
    dropped = fetch_response(10, {"orders": {0: batch("drop", base_offset=5)}})
    confirm(exchange, exchange.response(dropped), ids=None)
    exchange = begin(intercepting, frame)
    kept = fetch_response(10, {"orders": {0: batch("keep", base_offset=8)}})
    assert confirm(exchange, exchange.response(kept), ids=None) is kept


def test_hidden_records_are_skipped_once_the_topic_is_known_to_be_the_same() -> None:
    intercepting, unchanged = Intercepting("Reads"), []
    frame = fetch_request(10, {"orders": {0: 5}})
    for _ in range(3):
        exchange = begin_fetch(intercepting, 10, KAFKA_GO)
        unchanged.append(exchange.request(frame) is frame)
        step = exchange.response(fetch_response(10, {"orders": {0: batch("drop", base_offset=5)}}))
        confirm(exchange, step)
    assert unchanged == [True, True, False]


def test_the_log_ends_where_the_client_reads_if_nothing_follows_hidden_records() -> None:
    exchange = begin(intercept(hidden_to=8), fetch_request(10, {"orders": {0: 5, 1: 5}}))
    topics = {"orders": {0: {"records": b"", "high_watermark": 8}, 1: {"records": b"", "high_watermark": 8}}}
    found = partitions_in(10, exchange.response(fetch_response(10, topics)))
    assert [found["orders", index].high_watermark for index in (0, 1)] == [5, 8]


@pytest.mark.parametrize(("partition", "following"), [({"records": b""}, 8), ({"error_code": OUT_OF_RANGE}, 5)])
def test_hidden_offsets_are_forgotten_where_the_broker_answers_with_an_error(
    partition: dict[str, Any], following: int
) -> None:
    intercepting = intercept(hidden_to=8)
    exchange = begin(intercepting, fetch_request(10, {"orders": {0: 5}}))
    exchange.response(fetch_response(10, {"orders": {0: partition}}))
    assert intercepting.services.hidden_offsets.next(POSITION) == following


def test_an_offset_that_the_client_did_not_ask_for_is_not_out_of_range() -> None:
    intercepting = intercept(hidden_to=8)
    for is_moved in (True, False):
        exchange = begin(intercepting, fetch_request(10, {"orders": {0: 5}}))
        frame = fetch_response(10, {"orders": {0: {"error_code": OUT_OF_RANGE, "high_watermark": -1}}})
        found = partitions_in(10, exchange.response(frame))["orders", 0]
        expected = (0, b"", 5) if is_moved else (OUT_OF_RANGE, b"", -1)
        assert (int(found.error_code), found.records or b"", found.high_watermark) == expected


def test_an_error_of_another_kind_reaches_the_client() -> None:
    exchange = begin(intercept(hidden_to=8), fetch_request(10, {"orders": {0: 5}}))
    frame = fetch_response(10, {"orders": {0: {"error_code": 6, "high_watermark": -1}}})
    assert exchange.response(frame) is frame


def test_what_is_hidden_from_one_client_is_read_by_another() -> None:
    frame = fetch_request(10, {"orders": {0: 5}})
    other = FakeClient(client_id="go", client_software=None, principal="User:alice")
    assert begin_fetch(intercept(hidden_to=8), 10, other).request(frame) is frame


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("epoch", [-1, 0])
def test_only_the_offset_of_a_request_is_changed(version: int, epoch: int) -> None:
    intercepting = Intercepting("Reads", hold_for=("app",))
    intercepting.services.hidden_offsets.hide(FetchPosition("app", None, 1, "orders", 0, 5), 1 << 40)
    frame = fetch_request(version, {"orders": {0: 5, 1: 5}, "free": {0: 5}}, 1, epoch)
    want = fetch_request(version, {"orders": {0: 1 << 40, 1: 5}, "free": {0: 5}}, 1, epoch)
    assert begin_fetch(intercepting, version).request(frame) == want


def test_a_request_that_continues_a_session_does_not_name_its_offsets() -> None:
    intercepting = Intercepting("Reads", hold_for=("app",))
    intercepting.services.hidden_offsets.hide(FetchPosition("app", None, 0, "orders", 0, 5), 8)
    frame = fetch_request(12, {"orders": {0: 5}}, epoch=3)
    exchange = begin_fetch(intercepting)
    assert exchange.request(frame) is frame
    step = exchange.response(fetch_response(12, {"orders": {0: batch("drop", base_offset=5)}}))
    assert len(partitions_in(12, step)["orders", 0].records) == 78  # a marker
