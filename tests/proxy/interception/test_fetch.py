"""The way of a Fetch: what the broker is asked, what the client gets, in every version. kio is the judge."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.serial import entity_reader
from support import oracle
from support.client import Somebody
from support.interception import Intercepting, fetched, values_in
from support.produce_requests import batch, topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import decode, encode, replace_fields
from kafka_sidecar.codec.messages.fetch import FetchResponse
from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.proxy.interception.fetch import (
    BYTES_AT_ONCE,
    FIRST_WITH_IDS,
    NO_ID,
    OLDEST,
    VIEWED_FROM,
    InterceptedFetch,
)
from kafka_sidecar.proxy.interception.hidden_offsets import At
from kafka_sidecar.proxy.relay.exchange import Hold
from kafka_sidecar.proxy.runtime.threads import INFLATED_AT_ONCE

FEWER = settings(max_examples=settings().max_examples // 2)
VERSIONS = range(OLDEST, 19)
each_version = pytest.mark.parametrize("version", VERSIONS)
UNKNOWN_TOPIC_ID, OUT_OF_RANGE = 100, 1
KAFKA_GO = Somebody(client_id="go", client_software=None)


def exchange(around: Intercepting, version: int = 12, client: Somebody | None = None) -> InterceptedFetch:
    return InterceptedFetch(around.catalog.consumers, around.around, client or around.client, version)


def asking(version: int, topics: Mapping[str, Mapping[int, int]], isolation: int = 0, epoch: int = -1) -> bytes:
    """A request: name -> partition -> offset."""
    data = [
        {
            "topic": name, "topic_id": topic_id(name),
            "partitions": [
                {
                    "partition": at, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "log_start_offset": -1,
                    "current_leader_epoch": 4, "last_fetched_epoch": -1,
                }
                for at, offset in partitions.items()
            ],
        }
        for name, partitions in topics.items()
    ]  # fmt: skip
    request = oracle.request(
        ApiKey.FETCH, version, replica_id=-1, max_bytes=1 << 20, isolation_level=isolation, topics=data,
        session_epoch=epoch, session_id=0, rack_id="r",
    )  # fmt: skip
    return oracle.request_frame(request, 7)


def asked_for(version: int, frame: bytes) -> dict[str, dict[int, int]]:
    kind = load_request_schema(ApiKey.FETCH, version)
    _, size = entity_reader(kind.__header_schema__)(frame[4:], 0)
    request: Any = entity_reader(kind)(frame[4 + size :], 0)[0]
    return {
        name_of(version, topic): {one.partition: one.fetch_offset for one in topic.partitions}
        for topic in request.topics
    }


def name_of(version: int, topic: Any) -> str:
    if version < FIRST_WITH_IDS:
        return str(topic.topic)
    assert isinstance(topic.topic_id, uuid.UUID)
    return topic.topic_id.bytes.lstrip(b"\1").decode()


def partitions(version: int, frame: bytes) -> dict[tuple[str, int], Any]:
    found, response = oracle.read_response(ApiKey.FETCH, version, frame)
    assert found == 7
    return {
        (name_of(version, topic), one.partition_index): one for topic in response.responses for one in topic.partitions
    }


def values(version: int, frame: bytes) -> dict[tuple[str, int], list[tuple[int, bytes | None]]]:
    return {place: values_in(one.records) for place, one in partitions(version, frame).items()}


def at_once(
    around: Intercepting, version: int, frame: bytes, *, isolation: int = 0, client: Somebody | None = None
) -> bytes:
    """What the client gets, where nothing has to be waited for."""
    hand = exchange(around, version, client)
    hand.request(asking(version, {"orders": {0: 0}}, isolation))
    around.around.pace.spent_s = 0.0
    out = hand.response(frame)
    assert isinstance(out, bytes)
    return out


async def consumed(
    around: Intercepting, version: int, frame: bytes, *, isolation: int = 0, client: Somebody | None = None
) -> bytes:
    hand = exchange(around, version, client)
    hand.request(asking(version, {"orders": {0: 0}}, isolation))
    return await around.answered(hand, frame)


@each_version
def test_a_request_is_the_very_same_bytes(version: int) -> None:
    frame, hand = asking(version, {"orders": {0: 5}, "free": {1: 6}}), exchange(Intercepting("Reads"), version)
    assert hand.request(frame) is frame
    assert hand.wants_response


@each_version
def test_only_what_interceptors_change_is_new(version: int) -> None:
    around = Intercepting("Reads")
    two = batch("edit", "keep", base_offset=5) + batch("drop", "keep", base_offset=7)
    topics: dict[str, dict[int, Any]] = {
        "free": {0: batch("edit")},
        "orders": {4: batch("keep"), 2: two, 3: b"", 5: None},
        "payments": {0: two},
    }
    out = at_once(around, version, fetched(version, topics))
    edited = build_batch([NewRecord(b"edited"), NewRecord(b"keep")], base_offset=5)
    left = build_batch([NewRecord(b"keep", offset_delta=1)], base_offset=7)
    assert out == fetched(version, {**topics, "orders": {**topics["orders"], 2: edited + left}})
    assert around.observed.batches == {("Fetch", "changed"): 2, ("Fetch", "unchanged"): 1}


@each_version
def test_a_response_of_which_nothing_is_changed_is_the_very_same_bytes(version: int) -> None:
    around = Intercepting("Reads")
    for topics in ({"orders": {0: batch("keep")}, "free": {0: batch("edit")}}, {"free": {0: batch("edit")}}, {}):
        frame = fetched(version, topics)
        assert at_once(around, version, frame) is frame


@each_version
def test_records_at_the_end_that_are_dropped_become_a_marker(version: int) -> None:
    around = Intercepting("Reads")
    data = batch("keep", base_offset=3) + batch("drop", "drop", base_offset=4)
    out = at_once(around, version, fetched(version, {"orders": {0: data}}))
    one = partitions(version, out)["orders", 0]
    last = batches(one.records)[-1].header
    assert (last.base_offset, last.last_offset_delta, last.is_control, last.producer_id) == (4, 1, True, -1)
    assert values(version, out) == {("orders", 0): [(3, b"keep")]}
    assert one.high_watermark == 1000


@each_version
@pytest.mark.parametrize("isolation", [0, 1])
def test_who_reads_only_what_is_committed_has_no_aborted_records_intercepted(version: int, isolation: int) -> None:
    around = Intercepting("Reads")
    aborted = batch("edit", attributes=0x10, producer_id=7, base_sequence=0, base_offset=5)
    data = aborted + batch("edit", base_offset=6)
    one = {"records": data, "aborted_transactions": [{"producer_id": 7, "first_offset": 5}]}
    out = at_once(around, version, fetched(version, {"orders": {0: one}}), isolation=isolation)
    seen = [(6, b"edited")] if isolation else [(5, b"edited"), (6, b"edited")]
    assert values(version, out)["orders", 0][-len(seen) :] == seen
    assert [offset for _, _, offset in around.interceptors[0].seen] == [at for at, _ in seen]
    if isolation:
        assert aborted in out


@each_version
def test_partitions_with_an_error_pass_as_they_are(version: int) -> None:
    topics = {"orders": {0: {"error_code": OUT_OF_RANGE, "high_watermark": -1}, 1: {"error_code": 6, "records": b""}}}
    frame = fetched(version, topics)
    assert at_once(Intercepting("Reads"), version, frame) is frame


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
def test_what_a_broker_says_beside_records_survives_a_change(version: int) -> None:
    plain = fetched(version, {"orders": {0: batch("edit")}}, session_id=5, error_code=0)
    out = at_once(Intercepting("Reads"), version, tagged(version, batch("edit"), plain))
    assert out == tagged(version, batch("edited"), plain)
    for part in (b"nine", b"five"):
        assert part in out


@each_version
def test_a_batch_that_is_cut_off_at_the_end_is_not_looked_at(version: int) -> None:
    data = batch("edit") + batch("edit", base_offset=1)[:-2]
    out = at_once(Intercepting("Reads"), version, fetched(version, {"orders": {0: data}}))
    assert values(version, out) == {("orders", 0): [(0, b"edited")]}


@each_version
def test_a_response_that_cannot_be_read_raises(version: int) -> None:
    hand = exchange(Intercepting("Reads"), version)
    hand.request(asking(version, {"orders": {0: 0}}))
    with pytest.raises(CodecError):
        hand.response(fetched(version, {"orders": {0: batch("keep")}})[:-2])


@FEWER
@given(st.sampled_from(VERSIONS), st.binary(max_size=100))
def test_noise_raises_a_codec_error_or_passes(version: int, noise: bytes) -> None:
    around = Intercepting("Reads")
    hand = exchange(around, version)
    hand.request(asking(version, {"orders": {0: 0}}))
    frame = oracle.framed(bytes(4) + noise)
    try:
        out = hand.response(frame)
    except CodecError:
        return
    assert out is frame or isinstance(out, Hold)


# Topics by their ids


async def test_an_id_that_is_not_known_is_asked_for_once() -> None:
    around = Intercepting("Reads", topics=("orders*",))
    around.hidden = {"orders-2"}
    frame = fetched(13, {"orders-2": {0: batch("edit")}})
    assert await consumed(around, 13, frame) == fetched(13, {"orders-2": {0: batch("edited")}})
    assert around.asked_for == [topic_id("orders-2")]


@pytest.mark.parametrize("cluster_answers", [True, False])
async def test_records_of_a_topic_that_nobody_can_name_do_not_pass_unseen(cluster_answers: bool) -> None:
    around = Intercepting("Reads")
    around.cluster_answers = cluster_answers
    topics: dict[str, dict[int, Any]] = {
        "who": {0: batch("secret"), 1: b"", 2: {"error_code": 6}},
        "orders": {0: batch("edit")},
    }
    out = await consumed(around, 13, fetched(13, topics))
    assert b"secret" not in out
    found = partitions(13, out)
    assert [(int(found["who", at].error_code), bytes(found["who", at].records or b"")) for at in (0, 1, 2)] == [
        (UNKNOWN_TOPIC_ID, b""), (0, b""), (6, b""),
    ]  # fmt: skip
    assert values(13, out)["orders", 0] == [(0, b"edited")]
    assert around.waits == 1


# Clients that would show a marker


def known() -> Intercepting:
    """One that has asked for the topic before."""
    around = Intercepting("Reads")
    around.around.progress.is_still("orders", NO_ID)
    return around


@pytest.mark.parametrize("version", [4, 5, 10])
async def test_a_client_that_would_show_markers_gets_nothing_and_its_next_request_goes_behind_what_is_hidden(
    version: int,
) -> None:
    around = known()
    hand = exchange(around, version, KAFKA_GO)
    frame = asking(version, {"orders": {0: 5, 1: 7}, "free": {0: 5}})
    assert hand.request(frame) is frame
    data = batch("drop", "drop", base_offset=5) + batch("drop", base_offset=7)
    topics = {"orders": {0: data, 1: batch("keep", base_offset=7) + batch("drop", base_offset=8)}, "free": {0: data}}
    out = await around.answered(hand, fetched(version, topics))
    found = partitions(version, out)
    assert (found["orders", 0].records or b"", found["orders", 0].high_watermark) == (b"", 5)
    assert (found["orders", 1].records, found["orders", 1].high_watermark) == (batch("keep", base_offset=7), 1000)
    assert found["free", 0].records == data
    again = exchange(around, version, Somebody(number=8, client_id="go", client_software=None))
    ahead = again.request(frame)
    assert isinstance(ahead, bytes)
    assert ahead == asking(version, {"orders": {0: 8, 1: 7}, "free": {0: 5}})
    assert asked_for(version, ahead)["orders"] == {0: 8, 1: 7}
    out = await around.answered(again, fetched(version, {"orders": {0: batch("drop", base_offset=8)}}))
    assert partitions(version, out)["orders", 0].high_watermark == 5
    third = exchange(around, version, KAFKA_GO).request(frame)
    assert isinstance(third, bytes)
    assert asked_for(version, third)["orders"][0] == 9


async def test_visible_records_behind_hidden_ones_come_at_the_offset_that_they_have() -> None:
    around = known()
    around.around.progress.hidden(At("go", None, 0, "orders", 0, 5), 8)
    hand = exchange(around, 10, KAFKA_GO)
    hand.request(asking(10, {"orders": {0: 5}}))
    frame = fetched(10, {"orders": {0: batch("keep", base_offset=8)}})
    assert await around.answered(hand, frame) is frame


async def test_of_a_topic_that_was_made_again_nothing_is_passed_over() -> None:
    around = known()
    around.around.progress.hidden(At("go", None, 0, "orders", 0, 5), 8)
    around.hidden = {"orders"}  # it has another id
    frame, data = asking(10, {"orders": {0: 5, 1: 5}}), batch("keep", base_offset=8)
    hand = exchange(around, 10, KAFKA_GO)
    assert hand.request(frame) is not frame
    found = partitions(10, await around.answered(hand, fetched(10, {"orders": {0: data, 1: data}})))
    assert (found["orders", 0].records or b"", found["orders", 0].high_watermark) == (b"", 5)
    assert found["orders", 1].records == data
    assert exchange(around, 10, KAFKA_GO).request(frame) is frame


async def test_where_nobody_says_which_topic_it_is_clients_do_not_stand_still() -> None:
    around = Intercepting("Reads")
    around.cluster_answers = False
    frame = asking(10, {"orders": {0: 5}})
    await around.answered(
        exchange_that_asked(around, frame), fetched(10, {"orders": {0: batch("drop", base_offset=5)}})
    )
    hand = exchange_that_asked(around, frame)
    data = fetched(10, {"orders": {0: batch("keep", base_offset=8)}})
    assert await around.answered(hand, data) is data
    assert around.asked_for == ["orders", "orders"]


def exchange_that_asked(around: Intercepting, frame: bytes) -> InterceptedFetch:
    hand = exchange(around, 10, KAFKA_GO)
    hand.request(frame)
    return hand


async def test_what_is_hidden_in_a_topic_is_passed_over_once_it_is_known_to_be_still_the_same() -> None:
    around = Intercepting("Reads")
    frame, unchanged = asking(10, {"orders": {0: 5}}), []
    for _ in range(3):
        hand = exchange(around, 10, KAFKA_GO)
        unchanged.append(hand.request(frame) is frame)
        await around.answered(hand, fetched(10, {"orders": {0: batch("drop", base_offset=5)}}))
    assert unchanged == [True, True, False]


async def test_where_nothing_stands_behind_hidden_records_the_log_ends_where_the_client_reads() -> None:
    around = Intercepting("Reads")
    around.around.progress.hidden(At("go", None, 0, "orders", 0, 5), 8)
    hand = exchange(around, 10, KAFKA_GO)
    hand.request(asking(10, {"orders": {0: 5, 1: 5}}))
    topics = {"orders": {0: {"records": b"", "high_watermark": 8}, 1: {"records": b"", "high_watermark": 8}}}
    found = partitions(10, await around.answered(hand, fetched(10, topics)))
    assert [found["orders", number].high_watermark for number in (0, 1)] == [5, 8]


async def test_what_is_hidden_is_forgotten_where_the_broker_answers_with_an_error() -> None:
    around = Intercepting("Reads")
    at = At("go", None, 0, "orders", 0, 5)
    around.around.progress.hidden(at, 8)
    for one, following in (({"records": b""}, 8), ({"error_code": OUT_OF_RANGE}, 5)):
        hand = exchange(around, 10, KAFKA_GO)
        hand.request(asking(10, {"orders": {0: 5}}))
        await around.answered(hand, fetched(10, {"orders": {0: one}}))
        assert around.around.progress.next(at) == following


async def test_an_offset_that_the_client_did_not_ask_for_is_not_told_to_be_out_of_range() -> None:
    around = Intercepting("Reads")
    around.around.progress.hidden(At("go", None, 0, "orders", 0, 5), 8)
    for moved in (True, False):
        hand = exchange(around, 10, KAFKA_GO)
        hand.request(asking(10, {"orders": {0: 5}}))
        frame = fetched(10, {"orders": {0: {"error_code": OUT_OF_RANGE, "high_watermark": -1}}})
        found = partitions(10, await around.answered(hand, frame))["orders", 0]
        expected = (0, b"", 5) if moved else (OUT_OF_RANGE, b"", -1)
        assert (int(found.error_code), found.records or b"", found.high_watermark) == expected


async def test_what_is_hidden_from_one_client_is_read_by_another() -> None:
    around = Intercepting("Reads")
    around.around.progress.hidden(At("go", None, 0, "orders", 0, 5), 8)
    frame = asking(10, {"orders": {0: 5}})
    other = Somebody(client_id="go", client_software=None, principal="User:alice")
    assert exchange(around, 10, other).request(frame) is frame


def test_a_request_behind_what_is_hidden_is_as_it_was_in_all_else() -> None:
    around = Intercepting("Reads", hold_for=("app",))
    around.around.progress.hidden(At("app", None, 1, "orders", 0, 5), 1 << 40)
    for version in VERSIONS:
        for epoch in (-1, 0):
            frame = asking(version, {"orders": {0: 5, 1: 5}, "free": {0: 5}}, 1, epoch)
            want = asking(version, {"orders": {0: 1 << 40, 1: 5}, "free": {0: 5}}, 1, epoch)
            assert exchange(around, version).request(frame) == want


# Where the work is done


async def test_a_large_response_is_looked_into_in_a_thread_and_a_small_one_at_once() -> None:
    for size, elsewhere in ((BYTES_AT_ONCE - 200, False), (BYTES_AT_ONCE, True), (VIEWED_FROM, True)):
        around = Intercepting("Reads")
        frame = fetched(12, {"orders": {0: batch("edit " + "x" * size)}, "free": {0: batch("x" * size)}})
        out = await consumed(around, 12, frame)
        assert values(12, out)["orders", 0] == [(0, b"edited")]
        assert around.waits == elsewhere
        assert (threading.get_ident() not in around.interceptors[0].threads) is elsewhere


async def test_a_response_that_is_begun_again_in_a_thread_is_seen_once() -> None:
    around = Intercepting("Reads", limit=100 << 20)
    large = batch("edit", "x" * (INFLATED_AT_ONCE + 1), codec=4, base_offset=1)
    topics = {"orders": {0: batch("edit"), 1: batch("edit") + large, 2: batch("drop")}}
    out = await consumed(around, 12, fetched(12, topics))
    assert around.waits == 1
    assert sorted(around.interceptors[0].seen) == [
        ("orders", 0, 0), ("orders", 1, 0), ("orders", 1, 1), ("orders", 1, 2), ("orders", 2, 0),
    ]  # fmt: skip
    assert values(12, out)["orders", 1][:2] == [(0, b"edited"), (1, b"edited")]


async def test_after_some_milliseconds_of_intercepting_all_others_have_their_turn() -> None:
    around = Intercepting("Reads")
    frame = fetched(12, {"orders": {0: batch("edit")}})
    assert await consumed(around, 12, frame) != frame
    assert around.around.pace.spent_s > 0
    around.around.pace.spent_s, around.waits = 1.0, 0
    await consumed(around, 12, frame)
    assert around.waits == 1
    assert 0 < around.around.pace.spent_s < 1.0


async def test_nothing_of_the_records_is_kept_once_the_client_has_them() -> None:
    around = Intercepting("Reads")
    hand = exchange(around)
    hand.request(asking(12, {"orders": {0: 0}}))
    await around.answered(hand, fetched(12, {"orders": {0: batch("edit")}}))
    assert (hand._frame, hand._response.responses, hand._changed) == (b"", (), {})
