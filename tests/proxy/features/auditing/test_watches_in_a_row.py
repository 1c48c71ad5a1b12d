"""Fetch requests one after the other, which share objects and are counted some at a time."""

from __future__ import annotations

from support.auditing import Audited
from support.client import FakeClient
from support.fetches import fetch_request
from support.interception import fetch_response

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.proxy.features.auditing import fetch
from kafka_sidecar.proxy.features.auditing.audit import tap
from kafka_sidecar.proxy.features.auditing.connection import MAX_PENDING
from kafka_sidecar.proxy.relay.watch import Watch

VERSION = 12
FETCH = fetch_request(VERSION, {"orders": {0: 5}})
MANY_PARTITIONS = fetch_request(VERSION, {"orders": dict.fromkeys(range(fetch.MAX_KEPT + 1), 5)})


def records(offset: int) -> bytes:
    return build_batch([NewRecord(b"a")], base_offset=offset)


def test_the_watch_of_a_fetch_is_used_again_after_its_response_unless_it_has_many_partitions() -> None:
    found, client = Audited(), FakeClient()
    made = tap(found.counting, ApiKey.FETCH, VERSION)
    assert made is not None

    def watched(request: bytes) -> Watch:
        watch = made.begin(client, client.tap_state, 0.0)
        watch.request(request, 0, len(request), True)
        watch.done()
        return watch

    first = watched(FETCH)
    assert watched(MANY_PARTITIONS) is first
    assert watched(FETCH) is not first


def test_what_is_delivered_is_counted_when_it_is_time_whoever_got_it() -> None:
    found = Audited(counts_later=True)
    for offset in (5, 6):
        found.another().client(FETCH).broker(fetch_response(VERSION, {"orders": {0: records(offset)}}))
    found.dialogue.client(FETCH).broker(fetch_response(VERSION, {"orders": {0: records(7)}}))
    assert found.calls.delivered_ == []
    assert len(found.timers) == 1
    found.wait()
    assert [call[6] for call in found.calls.delivered_] == [5, 6, 7]
    found.dialogue.client(FETCH).broker(fetch_response(VERSION, {"orders": {0: records(8)}}))
    found.wait()
    assert [call[6] for call in found.calls.delivered_] == [5, 6, 7, 8]


def test_so_many_batches_do_not_wait() -> None:
    found = Audited(counts_later=True)
    batches = b"".join(records(5 + number) for number in range(MAX_PENDING // 2))
    for _ in range(2):
        assert found.calls.delivered_ == []
        found.dialogue.client(FETCH).broker(fetch_response(VERSION, {"orders": {0: batches}}))
    assert len(found.calls.delivered_) == MAX_PENDING
