"""Sessions of clients that are over a limit: when they are muted, for how long, and what their responses say."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest
from support import oracle
from support.builds import PURE
from support.dialogue import pieces, request
from support.fetches import fetch_request
from support.interception import fetch_response
from support.lines import MAX_LINES, Lines
from support.produce_requests import batch, produce_request, produce_response, topic_id
from support.rate_limits import Limited, throttle_ms
from support.share_fetches import partition, share_request, share_response

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.compiled import in_use
from kafka_sidecar.proxy.features.rate_limits.buckets import MAX_DEBT_S, Buckets
from kafka_sidecar.proxy.features.rate_limits.taps import MAX_BATCHES, SLICE_BYTES, ProduceTap

RECORDS = batch(*["x" * 100] * 10)
LARGER = batch(*["x" * 100] * 25)
SIZE = len(RECORDS)
ONE_A_SECOND: dict[str, Any] = {"produce_bytes": SIZE}
V = 9


def sent(at: int, topic: str = "orders", acks: int = -1, version: int = V, records: bytes = RECORDS) -> bytes:
    return produce_request(version, {topic: {0: records}}, acks, at)


def stored(at: int, topic: str = "orders", version: int = V) -> bytes:
    return produce_response(version, {topic: {0: at}}, at)


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_a_client_over_its_rate_is_muted_and_its_response_says_so_until_nothing_is_owed(version: int) -> None:
    talk = Limited(ONE_A_SECOND)
    talk.client(sent(1, version=version)).broker(stored(1, version=version))
    assert (talk.mutes, throttle_ms(ApiKey.PRODUCE, version, talk.to_client)) == ([], 0)
    talk.client(sent(2, version=version))
    assert talk.muted_s == 1.0
    talk.to_client = b""
    talk.now += 0.5
    talk.broker(stored(2, version=version))
    assert throttle_ms(ApiKey.PRODUCE, version, talk.to_client) == 500
    assert oracle.read_response(ApiKey.PRODUCE, version, talk.to_client)[0] == 2
    assert talk.to_broker == sent(1, version=version) + sent(2, version=version)


def test_over_a_minute_the_mean_rate_holds_whatever_the_size_of_batches() -> None:
    talk = Limited({"produce_bytes": 10 * SIZE})
    began, count = talk.now, 0
    while talk.now < began + 60:
        count += 1
        talk.client(sent(count, records=LARGER if count % 3 else RECORDS)).broker(stored(count))
        talk.now = max(talk.session.muted_until, talk.now + 0.001)
    taken = sum(talk.counted("rate_limit_bytes").values())
    assert 600 * SIZE <= taken <= 610 * SIZE + 2 * len(LARGER)


def test_requests_that_were_read_already_pass_in_their_order_and_are_counted() -> None:
    talk = Limited(ONE_A_SECOND)
    requests = b"".join(map(sent, range(1, 6)))
    talk.client(requests)
    assert talk.to_broker == requests
    assert talk.muted_s == 4.0
    assert len(talk.mutes) == 1  # one read, one mute
    talk.broker(*map(stored, range(1, 6)))
    found = oracle.frames_of(talk.to_client)
    assert [int.from_bytes(one[4:8], "big") for one in found] == [1, 2, 3, 4, 5]
    assert {throttle_ms(ApiKey.PRODUCE, V, one) for one in found} == {4000}


def test_a_client_is_muted_at_the_end_of_a_request_not_in_its_middle() -> None:
    """A broker that has half a request would wait for the rest."""
    talk = Limited({"produce_bytes": 1})
    frame = sent(1)
    *first, last = pieces(frame, [50, 200, 400])
    talk.client(*first)
    assert talk.mutes == []
    talk.client(last)
    assert len(talk.mutes) == 1
    assert talk.to_broker == frame


def test_a_producer_that_waits_for_no_response_is_muted_all_the_same() -> None:
    talk = Limited(ONE_A_SECOND)
    talk.client(sent(1, acks=0), sent(2, acks=0))
    assert talk.muted_s == 1.0


def test_a_client_is_muted_for_some_seconds_at_a_time_and_owes_the_rest() -> None:
    talk = Limited({"produce_bytes": SIZE // 100})
    talk.client(sent(1))
    assert talk.muted_s == 10
    talk.now += 10
    talk.client(sent(2))
    assert talk.muted_s == 10


def test_other_topics_and_other_requests_mute_no_client() -> None:
    talk = Limited({"topics": ["orders"], "produce_bytes": 1, "consume_bytes": 1})
    talk.client(sent(1, "free"), request(ApiKey.HEARTBEAT, 4, 2, b"\0"), sent(3, "free"), sent(4, "payments"))
    talk.broker(stored(1, "free"))
    assert talk.mutes == []
    talk.client(sent(5, "orders"))
    assert len(talk.mutes) == 1


def test_a_request_of_several_topics_is_counted_for_those_that_the_limit_names() -> None:
    talk = Limited({"topics": ["orders"], **ONE_A_SECOND})
    many = produce_request(V, {"free": {0: RECORDS, 1: RECORDS}, "orders": {0: RECORDS}}, correlation_id=1)
    talk.client(many)
    assert talk.mutes == []
    talk.client(many)
    assert talk.muted_s == 1.0
    assert talk.counted("rate_limit_bytes") == {("limit0", "produce"): 2 * SIZE}


def test_a_topic_whose_name_is_not_known_is_asked_for_and_counted_from_then_on() -> None:
    talk = Limited({"topics": ["late"], "produce_bytes": 1})
    talk.client(sent(1, "late", version=13))
    assert (talk.requested[0], talk.mutes) == (topic_id("late"), [])
    talk.topics.remember([(topic_id("late"), "late")])
    talk.client(sent(2, "late", version=13))
    assert len(talk.mutes) == 1


def test_the_longest_of_several_limits_counts() -> None:
    talk = Limited({"produce_bytes": SIZE}, {"produce_records": 5, "name": "slow"}, {"requests": 1})
    talk.client(sent(1), sent(2))
    assert talk.mutes[-1] == (talk.now + 3.0, "slow")


def test_clients_of_one_bucket_share_its_rate() -> None:
    buckets = Buckets()
    one, other = (Limited(ONE_A_SECOND, buckets=buckets) for _ in range(2))
    one.client(sent(1))
    other.client(sent(1))
    assert (one.mutes, other.muted_s) == ([], 1.0)


def test_another_principal_on_the_same_connection_has_its_own_bucket() -> None:
    talk = Limited({**ONE_A_SECOND, "per": ["principal"]})
    talk.client(sent(1))
    talk.session.principal = "User:bob"
    talk.client(sent(2))
    assert talk.mutes == []
    talk.client(sent(3))
    assert talk.muted_s == 1.0


def test_a_changed_configuration_holds_from_the_next_request_and_keeps_what_is_owed() -> None:
    talk = Limited(ONE_A_SECOND)
    talk.client(sent(1))
    talk.load(ONE_A_SECOND, {"topics": ["free"], "produce_bytes": 1})
    talk.client(sent(2))
    assert talk.muted_s == 1.0
    talk.load()
    talk.now += 5
    talk.client(sent(3), sent(4), sent(5))
    assert talk.session.muted_until < talk.now


FETCHED = {"orders": {0: {"records": RECORDS, "high_watermark": 10}}}


@pytest.mark.parametrize("version", [4, 12, 13])
def test_a_consumer_gets_what_was_read_and_is_muted_for_what_it_owes(version: int) -> None:
    talk = Limited({"consume_bytes": SIZE})
    asked, response = fetch_request(version, {"orders": {0: 0}}), fetch_response(version, FETCHED)
    talk.client(asked).broker(response)
    assert (talk.to_client, talk.mutes) == (response, [])
    talk.to_client = b""
    talk.client(asked)
    assert talk.mutes == []
    talk.broker(response)
    assert talk.muted_s == 1.0
    assert throttle_ms(ApiKey.FETCH, version, talk.to_client) == 1000
    assert len(talk.to_client) == len(response)


def test_the_throttle_time_of_a_long_response_is_guessed_from_the_one_before() -> None:
    talk = Limited({"topics": ["orders"], "consume_bytes": SIZE})
    asked = fetch_request(12, {"orders": {0: 0}})
    small = fetch_response(12, FETCHED)
    large = fetch_response(12, {"orders": {0: {"records": RECORDS * 4, "high_watermark": 10}}})
    talk.client(asked).broker(small)
    talk.now += 1
    talk.to_client = b""
    talk.client(asked).broker(large[:100])
    said_ms = int.from_bytes(talk.to_client[9:13], "big")
    assert 3000 <= said_ms <= 3400  # of all bytes of the response: 4 seconds' worth, one of which is there
    talk.broker(large[100:300], large[300:])
    assert throttle_ms(ApiKey.FETCH, 12, talk.to_client) == said_ms
    assert talk.counted("rate_limit_bytes") == {("limit0", "consume"): 5 * SIZE}


def test_the_first_long_response_mutes_although_it_does_not_say_so() -> None:
    talk = Limited({"consume_bytes": SIZE})
    large = fetch_response(12, {"orders": {0: {"records": RECORDS * 4, "high_watermark": 10}}})
    talk.client(fetch_request(12, {"orders": {0: 0}})).broker(large[:100], large[100:])
    assert talk.to_client == large
    assert talk.muted_s == 3.0


def test_an_empty_response_of_a_long_poll_costs_nothing() -> None:
    talk = Limited({"consume_bytes": 1})
    empty = fetch_response(12, {"orders": {0: {"records": b"", "high_watermark": 10}}})
    talk.client(fetch_request(12, {"orders": {0: 0}})).broker(empty)
    assert (talk.to_client, talk.mutes) == (empty, [])


def test_a_member_of_a_share_group_is_limited_as_well() -> None:
    talk = Limited({"consume_bytes": SIZE})
    response = share_response(1, {"orders": [partition(RECORDS, (0, 9))]})
    for _ in range(2):
        talk.to_client = b""
        talk.client(share_request(1)).broker(response)
    assert talk.muted_s == 1.0
    assert throttle_ms(ApiKey.SHARE_FETCH, 1, talk.to_client) == 1000


def test_what_a_client_is_muted_for_does_not_stop_the_responses_that_it_waits_for() -> None:
    """A long poll that has begun, and the end of a transaction."""
    talk = Limited(ONE_A_SECOND)
    end = request(ApiKey.END_TXN, 3, 2, pack(">b", 0) + b"\3tx" + pack(">qhb", 7, 0, 1) + b"\0")
    talk.client(sent(1), sent(2), end)
    assert talk.muted_s == 1.0
    talk.broker(stored(1), stored(2), oracle.response_frame(oracle.response(ApiKey.END_TXN, 3), 2))
    assert len(oracle.frames_of(talk.to_client)) == 3


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.HEARTBEAT, ApiKey.PRODUCE, ApiKey.FETCH])
def test_requests_of_any_api_are_counted(key: int) -> None:
    talk = Limited({"requests": 2})
    asked = {
        ApiKey.PRODUCE: sent(1), ApiKey.FETCH: fetch_request(12, {"orders": {0: 0}}),
    }.get(ApiKey(key), request(key, 4, 1, b"\0"))  # fmt: skip
    talk.client(*[asked] * 2)
    assert talk.mutes == []
    talk.client(*pieces(asked, [20]))
    assert talk.muted_s == 0.5


def test_how_a_client_introduces_itself_is_not_counted() -> None:
    talk = Limited({"requests": 1})
    talk.client(*[request(ApiKey.API_VERSIONS, 0, at) for at in range(5)])
    assert talk.mutes == []


def test_a_request_that_cannot_be_read_is_left_to_the_broker() -> None:
    talk = Limited({"produce_bytes": 1})
    broken = sent(1)[:-300] + bytes(300)
    talk.client(broken)
    assert talk.to_broker == broken


def test_what_is_throttled_is_counted() -> None:
    talk = Limited({**ONE_A_SECOND, "name": "shop"})
    talk.client(sent(1), sent(2), sent(3))
    assert talk.counted("rate_limit_throttled") == {("shop",): 2}
    assert talk.counted("rate_limit_throttled_seconds") == {("shop",): 2.0}
    assert talk.counted("rate_limit_muted_connections") == {(): 1}
    assert talk.counted("rate_limit_buckets") == {(): 1}
    talk.now += 10
    assert talk.counted("rate_limit_muted_connections") == talk.counted("rate_limit_buckets") == {}


def test_a_connection_that_has_ended_is_not_counted_as_muted() -> None:
    talk = Limited(ONE_A_SECOND)
    talk.client(sent(1), sent(2), sent(3))
    talk.session.lost("the client has closed")
    assert talk.counted("rate_limit_muted_connections") == {}


def test_a_request_of_very_many_batches_keeps_no_other_client_waiting() -> None:
    """As many as a frame of 100 MB has room for; a broker takes none of them."""
    talk = Limited({"produce_bytes": 1000 * SIZE})
    frame = sent(1, records=RECORDS * 50_000)
    with Lines() as lines:
        talk.client(frame)
    assert lines.most < MAX_LINES * (10 if PURE else 1)  # those of the walk count where it is not compiled
    counted = talk.counted("rate_limit_bytes")["limit0", "produce"]
    assert MAX_BATCHES * SIZE < counted < MAX_BATCHES * SIZE + 2 * SLICE_BYTES


def test_the_batches_of_a_long_response_are_counted_as_one() -> None:
    talk = Limited({"consume_bytes": 1, "consume_records": 1})
    records = b"".join(pack(">q", 10 * at) + RECORDS[8:] for at in range(2000))
    response = fetch_response(12, {"orders": {0: {"records": records, "high_watermark": 20_000}}})
    talk.client(fetch_request(12, {"orders": {0: 0}}))
    with Lines() as lines:
        talk.broker(response)
    assert talk.counted("rate_limit_bytes") == {("limit0", "consume"): 2000 * SIZE}
    (records_bucket,) = talk.meter.limits_of(talk.session).consumed["orders"].records
    assert records_bucket.bucket.owed(talk.now) == MAX_DEBT_S  # 20,000 seconds' worth
    if in_use() == "compiled":
        assert lines.most < 1000


@pytest.mark.parametrize("version", [3, 9, 12, 13])
def test_requests_for_a_topic_that_no_limit_counts_are_not_shown_to_the_tap(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Limited({"topics": ["orders"], "produce_bytes": 1})
    shown: list[int] = []
    monkeypatch.setattr(ProduceTap, "show_request", lambda *given: shown.append(given[6]))
    frames = [sent(at, "free", version=version) for at in range(3)]
    for frame in frames:
        assert talk.session.from_client(frame) is frame
    assert (shown, talk.session.in_flight) == ([], 3)
    talk.client(sent(3, "orders", version=version))
    assert len(shown) == 1


def test_what_is_known_by_its_beginning_is_answered_or_not_by_its_own_acks() -> None:
    talk = Limited({"topics": ["orders"], "produce_bytes": 1})
    talk.client(sent(1, "free"), sent(2, "free", acks=0), sent(3, "free", acks=0), sent(4, "free"))
    assert talk.session.in_flight == 2
    talk.broker(stored(1, "free"), stored(4, "free"))
    assert (talk.cause, talk.session.in_flight) == (None, 0)


def test_a_client_with_another_name_is_counted_though_its_requests_begin_as_before() -> None:
    talk = Limited({"client_ids": ["shop"], "produce_bytes": SIZE})
    talk.session.client_id = "app"
    talk.client(sent(1), sent(2))
    talk.session.client_id = "shop"
    talk.client(sent(3), sent(4))
    assert talk.counted("rate_limit_bytes") == {("limit0", "produce"): 2 * SIZE}


def test_a_topic_that_is_added_to_a_session_is_counted_in_the_requests_that_name_no_topic() -> None:
    """The session's empty requests were known to have nothing that counts (KIP-227)."""
    talk = Limited({"topics": ["orders"], "consume_bytes": 100 * SIZE})

    def fetch(at: int, epoch: int, *topics: str) -> None:
        talk.client(fetch_request(12, {name: {0: 0} for name in topics}, epoch=epoch, session=9 if epoch else 0))
        name = "orders" if at > 3 else "free"
        answer = {name: {0: {"records": RECORDS, "high_watermark": 10}}}
        talk.broker(fetch_response(12, answer))

    fetch(1, 0, "free")
    fetch(2, 1)
    fetch(3, 2)
    assert talk.counted("rate_limit_bytes") == {}
    fetch(4, 3, "orders")
    fetch(5, 4)
    fetch(6, 5)
    assert talk.cause is None
    assert talk.counted("rate_limit_bytes") == {("limit0", "consume"): 3 * SIZE}
