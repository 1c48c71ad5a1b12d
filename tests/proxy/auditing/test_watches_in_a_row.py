"""Requests one after the other, which share the objects of a connection."""

from __future__ import annotations

import pytest
from support.auditing import Audited
from support.client import FakeClient
from support.fetches import fetch_request
from support.produce_requests import GOOD, produce_request, produce_response

from kafka_sidecar.audit.contract import Result
from kafka_sidecar.codec import cython_shim
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.auditing import fetch, produce
from kafka_sidecar.proxy.auditing.taps import tap
from kafka_sidecar.proxy.relay.watch import Watch

VERSION = 12  # of Fetch, and of Produce; both are flexible and have names
REQUEST, ANSWER = produce_request(VERSION, {"orders": {0: GOOD}}), produce_response(VERSION, {"orders": {0: 10}})
COUNTED = ("orders", 0, 1, Result.ACKED, 10)
MANY_BATCHES = produce_request(VERSION, {"orders": {0: GOOD * (produce.MAX_KEPT + 1)}})
FETCH = fetch_request(VERSION, {"orders": {0: 5}})
MANY_PARTITIONS = fetch_request(VERSION, {"orders": dict.fromkeys(range(fetch.MAX_KEPT + 1), 5)})


@pytest.mark.parametrize(
    ("key", "frame", "many"), [(ApiKey.PRODUCE, REQUEST, MANY_BATCHES), (ApiKey.FETCH, FETCH, MANY_PARTITIONS)]
)
def test_a_watch_is_used_again_after_its_response_unless_it_has_many_rows(
    key: ApiKey, frame: bytes, many: bytes
) -> None:
    found, client = Audited(), FakeClient()
    made = tap(found.counting, key, VERSION)
    assert made is not None

    def watched(request: bytes) -> Watch:
        watch = made.begin(client, client.tap_state, 0.0)
        watch.request(request, 0, len(request), True)
        watch.done()
        return watch

    first = watched(frame)
    assert watched(many) is first
    assert watched(frame) is not first


def test_batches_are_counted_where_cython_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "cython", cython_shim, raising=False)  # compiled, the module has none
    found = Audited()
    for _ in range(2):
        found.dialogue.client(REQUEST).broker(ANSWER)
    assert found.calls.results == [COUNTED] * 2


def test_a_response_in_pieces_does_not_change_how_the_next_one_is_counted() -> None:
    found = Audited()
    for _ in range(2):
        found.dialogue.client(REQUEST).broker(ANSWER[:12], ANSWER[12:20], ANSWER[20:])
        found.dialogue.client(REQUEST).broker(ANSWER)
    assert found.calls.results == [COUNTED] * 4
    assert not found.counting.stats.uncounted


def test_a_response_before_the_end_of_its_request_does_not_change_how_the_next_one_is_counted() -> None:
    found = Audited()
    found.dialogue.client(REQUEST[:-5]).broker(ANSWER).client(REQUEST[-5:])
    for _ in range(2):
        found.dialogue.client(REQUEST).broker(ANSWER)
    assert found.calls.results == [COUNTED] * 3
    assert not found.counting.stats.uncounted
