"""Produce requests of a connection that are counted some at a time: when that is, and in which order."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from support import oracle
from support.auditing import Audited
from support.client import FakeClient
from support.produce_requests import GOOD, batch, produce_request, produce_response

from kafka_sidecar.audit.contract import Result
from kafka_sidecar.codec import cython_shim
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.features.auditing import produce
from kafka_sidecar.proxy.features.auditing.audit import tap
from kafka_sidecar.proxy.features.auditing.connection import MAX_PENDING, AuditedConnection

VERSION = 12
THREE = batch("a", "b", "c")
ACKED, FAILED, UNCONFIRMED, UNKNOWN = Result.ACKED, Result.FAILED, Result.UNCONFIRMED, Result.UNKNOWN
LOST = "the broker closed its connection"


def request(number: int, version: int = VERSION, acks: int = -1) -> bytes:
    return produce_request(version, {"orders": {number: GOOD}}, acks, correlation_id=number)


def answer(number: int, version: int = VERSION) -> bytes:
    return produce_response(version, {"orders": {number: 100 + number}}, correlation_id=number)


def failure(number: int) -> bytes:
    partition = {"index": number, "error_code": 6, "base_offset": -1}
    responses = [{"name": "orders", "partition_responses": [partition]}]
    return oracle.response_frame(oracle.response(ApiKey.PRODUCE, VERSION, responses=responses), number)


def counted(*numbers: int) -> list[tuple[str, int, int, Result, int]]:
    return [("orders", number, 1, ACKED, 100 + number) for number in numbers]


@pytest.fixture
def found() -> Audited:
    return Audited(counts_later=True)


def test_responses_are_counted_when_it_is_time_with_their_own_latency(found: Audited) -> None:
    dialogue = found.dialogue
    for number in range(3):
        dialogue.now = number
        dialogue.client(request(number))
        dialogue.now = number + 0.25 * number
        dialogue.broker(answer(number))
    assert found.calls.results == []
    assert len(found.timers) == 1
    found.wait()
    assert found.calls.results == counted(0, 1, 2)
    assert [call[-1] for call in found.calls.produced_] == [0, 0.25, 0.5]
    dialogue.client(request(3)).broker(answer(3))
    assert len(found.timers) == 1
    found.wait()
    assert found.calls.results == counted(0, 1, 2, 3)


def test_so_many_batches_do_not_wait(found: Audited) -> None:
    for number in range(MAX_PENDING):
        assert found.calls.results == []
        found.dialogue.client(request(number)).broker(answer(number))
    assert found.calls.results == counted(*range(MAX_PENDING))
    found.wait()
    assert len(found.calls.results) == MAX_PENDING


def test_all_connections_wait_for_one_timer(found: Audited) -> None:
    for number in range(3):
        found.another().client(request(number)).broker(answer(number))
    assert len(found.timers) == 1
    found.wait()
    assert found.calls.results == counted(0, 1, 2)


def test_a_failure_is_counted_at_once_after_what_came_before_it(found: Audited) -> None:
    found.dialogue.client(*map(request, range(4))).broker(answer(0), failure(1), answer(2))
    assert found.calls.results == [*counted(0), ("orders", 1, 1, FAILED, -1)]
    found.wait()
    assert found.calls.results[2:] == counted(2)


@pytest.mark.parametrize("pieces", [1, 2])
def test_requests_in_pieces_are_counted_in_their_order(found: Audited, pieces: int) -> None:
    found.dialogue.client(request(0), *_pieces(request(1), pieces), request(2)).broker(*map(answer, range(3)))
    found.wait()
    assert found.calls.results == counted(0, 1, 2)


def _pieces(frame: bytes, number: int) -> Iterator[bytes]:
    size = -(-len(frame) // number)
    yield from (frame[at : at + size] for at in range(0, len(frame), size))


def test_a_request_without_acks_is_counted_in_its_order(found: Audited) -> None:
    found.dialogue.client(request(0)).broker(answer(0)).client(request(1, acks=0), request(2)).broker(answer(2))
    assert found.calls.results == []
    found.wait()
    assert found.calls.results == [*counted(0), ("orders", 1, 1, UNCONFIRMED, -1), *counted(2)]


def test_a_lost_connection_leaves_only_what_has_no_response_unknown(found: Audited) -> None:
    found.dialogue.client(*map(request, range(4))).broker(answer(0), answer(1)[:20])
    found.dialogue.session.lost(LOST)
    assert found.calls.results == [*counted(0), *(("orders", number, 1, UNKNOWN, -1) for number in (1, 2, 3))]
    found.wait()
    assert len(found.calls.results) == 4


def test_what_a_connection_that_has_ended_has_left_is_counted_in_time(found: Audited) -> None:
    found.dialogue.client(request(0)).broker(answer(0)).session.lost(LOST)
    found.wait()
    assert found.calls.results == counted(0)


def test_copies_of_what_a_client_did_not_wait_for_are_named(found: Audited) -> None:
    first, again = found.dialogue, found.another()
    first.client(request(0), request(1)).broker(answer(0)).session.client_ended()
    assert found.calls.results == counted(0)
    again.client(request(1)).broker(produce_response(VERSION, {"orders": {1: 200}}, correlation_id=1))
    first.broker(answer(1))
    found.wait()
    assert found.calls.results == [*counted(0), ("orders", 1, 1, ACKED, 200), *counted(1)]
    assert [call[3:] for call in found.calls.duplicated_] == [(1, 200, True)]


def test_a_client_that_sends_after_it_was_given_up_is_counted(found: Audited) -> None:
    found.dialogue.client(request(0)).session.client_ended()
    found.dialogue.client(request(1)).broker(answer(0), answer(1))
    found.wait()
    assert found.calls.results == counted(0, 1)


def test_an_auditor_that_fails_for_one_batch_gets_the_others(found: Audited) -> None:
    found.dialogue.client(*map(request, range(3))).broker(*map(answer, range(3)))
    found.calls.fails = True
    found.wait()
    assert found.counting.stats.uncounted == {("Produce", "auditor_failed"): 3}
    assert found.dialogue.cause is None


def test_a_connection_that_has_ended_is_freed_without_the_garbage_collector(found: Audited) -> None:
    def clients() -> int:
        return sum(isinstance(one, AuditedConnection) for one in gc.get_objects())

    before = clients()
    gc.disable()
    try:
        made, client = tap(found.counting, ApiKey.PRODUCE, VERSION), FakeClient()
        assert made is not None
        frames = found.dialogue.session.broker_frames
        watch = made.show_request(client, client.tap_state, frames, request(0), 0, len(request(0)), 0, 0.0)
        assert watch is not None
        watch.show_response(frames, answer(0), 0, len(answer(0)), 0.0)
        assert clients() == before + 1
        del client, watch
        found.wait()
        assert clients() == before
    finally:
        gc.enable()


def test_batches_are_counted_where_cython_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "cython", cython_shim, raising=False)  # compiled, the module has none
    found = Audited()
    for _ in range(2):
        found.dialogue.client(request(0)).broker(answer(0))
    assert found.calls.results == counted(0, 0)


@pytest.mark.parametrize("counts_later", [False, True])
def test_a_response_in_pieces_does_not_change_how_the_next_one_is_counted(counts_later: bool) -> None:
    found = Audited(counts_later=counts_later)
    whole = answer(0)
    for _ in range(2):
        found.dialogue.client(request(0)).broker(whole[:12], whole[12:20], whole[20:])
        found.dialogue.client(request(0)).broker(whole)
    found.wait()
    assert found.calls.results == counted(0, 0, 0, 0)
    assert not found.counting.stats.uncounted


def test_a_response_before_the_end_of_its_request_does_not_change_how_the_next_one_is_counted() -> None:
    found = Audited()
    found.dialogue.client(request(0)[:-5]).broker(answer(0)).client(request(0)[-5:])
    for _ in range(2):
        found.dialogue.client(request(0)).broker(answer(0))
    assert found.calls.results == counted(0, 0, 0)
    assert not found.counting.stats.uncounted


def test_a_copy_that_was_answered_before_the_first_one_is_counted_is_named(found: Audited) -> None:
    without = produce_response(VERSION, {"orders": {}}, correlation_id=0)
    found.dialogue.client(request(0), request(0)).broker(without, answer(0))
    found.wait()
    assert found.calls.results == [("orders", 0, 1, UNKNOWN, -1), *counted(0)]
    assert [call[3:] for call in found.calls.duplicated_] == [(1, 100, False)]


def test_what_cannot_be_counted_later_keeps_nothing_else_from_being_counted(found: Audited) -> None:
    def fail() -> None:
        raise RuntimeError("it is broken")

    assert found.counting.count_later(fail)
    found.dialogue.client(request(0)).broker(answer(0))
    found.wait()
    assert found.calls.results == counted(0)
    assert found.counting.stats.uncounted == {("(counted later)", "auditor_failed"): 1}


def test_each_of_many_requests_in_flight_is_given_up_once(found: Audited) -> None:
    numbers = [number % 100 for number in range(2_000)]
    found.dialogue.client(b"".join(map(request, numbers))).session.client_ended()
    found.dialogue.session.lost(LOST)
    found.wait()
    assert found.calls.results == [("orders", number, 1, UNKNOWN, -1) for number in numbers]


def test_a_request_of_many_batches_does_not_wait(found: Audited) -> None:
    partitions, batches = 100, MAX_PENDING // 100
    many = produce_request(VERSION, {"orders": dict.fromkeys(range(partitions), GOOD * batches)})
    found.dialogue.client(many).broker(produce_response(VERSION, {"orders": dict.fromkeys(range(partitions), 0)}))
    assert len(found.calls.results) == partitions * batches
    assert found.calls.results[batches - 1] == ("orders", 0, 1, ACKED, batches - 1)
