"""Records as a tap shows them: the same however frames arrive, and nothing is read that is not shown."""

from __future__ import annotations

import gc
import zlib
from typing import Any

import pytest
from support import oracle
from support.dialogue import pieces
from support.fetches import fetch_request
from support.produce_requests import batch, produce_request, produce_response, topic_id
from support.share_fetches import partition, share_request, share_response
from support.taps import Tapped

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.batch_layout import TRANSACTIONAL
from kafka_sidecar.codec.records import Codec, Header, NewRecord, build_batch
from kafka_sidecar.proxy.server.admin.tap import records as records_module
from kafka_sidecar.proxy.server.admin.tap.reading import Room

V = 9  # of Produce
FETCH = 12


def fetch_response(version: int, topics: dict[str, dict[int, bytes]], **more: Any) -> bytes:
    data = [
        {
            "topic": name, "topic_id": topic_id(name),
            "partitions": [{"partition_index": index, "records": found, **more} for index, found in parts.items()],
        }
        for name, parts in topics.items()
    ]  # fmt: skip
    return oracle.response_frame(oracle.response(ApiKey.FETCH, version, responses=data), 7)


def summary(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["direction"], row["topic"], row["partition"], row["offset"], row["value_bytes"]) for row in rows]


@pytest.mark.parametrize("sizes", [[], [5, 60], [1] * 400, [100, 3, 90]])
def test_a_request_is_shown_alike_whole_and_in_pieces(sizes: list[int]) -> None:
    tapped = Tapped("kind=records")
    sent = produce_request(V, {"a": {0: batch("one", "three"), 2: batch("x")}})
    answer = produce_response(V, {"a": {0: 40, 2: 7}})
    talk = tapped.dialogue().client(*pieces(sent, sizes)).broker(*pieces(answer, sizes))
    assert (talk.to_broker, talk.to_client) == (sent, answer)
    assert summary(tapped.flush()) == [
        ("produced", "a", 0, 40, 3), ("produced", "a", 0, 41, 5), ("produced", "a", 2, 7, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("sizes", [[], [5, 60], [1] * 400])
def test_a_response_is_shown_alike_whole_and_in_pieces(sizes: list[int]) -> None:
    tapped = Tapped("kind=records")
    found = batch("a", "bc", "d", base_offset=10)
    talk = tapped.dialogue().client(fetch_request(FETCH, {"t": {3: 11}}))
    talk.broker(*pieces(fetch_response(FETCH, {"t": {3: found}}), sizes))
    # The client has asked from 11 on, and drops what the batch has before.
    assert summary(tapped.flush()) == [("fetched", "t", 3, 11, 2), ("fetched", "t", 3, 12, 1)]


def test_what_is_over_the_rate_is_counted_and_not_even_copied() -> None:
    tapped = Tapped("kind=records", rate=4)
    talk = tapped.dialogue()
    for number in range(3):
        talk.client(produce_request(V, {"a": {0: batch("x", "y", "z")}}, correlation_id=number))
    for number in range(3):
        talk.broker(produce_response(V, {"a": {0: 0}}, correlation_id=number))
    tapped.flush()
    assert (len(tapped.lines), tapped.skipped, tapped.copied) == (4, 5, 2)


def test_a_request_that_has_waited_longer_than_the_one_before_is_shown_too() -> None:
    """Its session says when it came: a rate limit, or a queue, has held it since."""
    tapped = Tapped("kind=records")
    talk = tapped.dialogue()
    for number, came in enumerate((5.0, 3.0, 4.0)):
        talk.now = came
        talk.client(produce_request(V, {"a": {0: batch("x")}}, correlation_id=number))
        talk.broker(produce_response(V, {"a": {0: number}}, correlation_id=number))
    assert [row["offset"] for row in tapped.flush()] == [0, 1, 2]
    assert tapped.skipped == 0


def test_a_filter_decides_before_anything_is_counted_or_copied() -> None:
    tapped = Tapped("kind=records&topic=b*&partition=1", rate=1)
    talk = tapped.dialogue()
    talk.client(produce_request(V, {"a": {1: batch("x")}, "bc": {0: batch("x", "y"), 1: batch("long")}}))
    talk.broker(produce_response(V, {"a": {1: 0}, "bc": {0: 0, 1: 5}}))
    assert summary(tapped.flush()) == [("produced", "bc", 1, 5, 4)]
    assert (tapped.skipped, tapped.copied) == (0, 1)


@pytest.mark.parametrize("query", ["client_id=other", "principal=User:x", "direction=fetched"])
def test_requests_of_other_clients_are_not_looked_at(query: str) -> None:
    tapped = Tapped(f"kind=records&{query}")
    tapped.dialogue().client(produce_request(V, {"a": {0: batch("x")}})).broker(produce_response(V, {"a": {0: 0}}))
    assert (tapped.flush(), tapped.skipped, tapped.copied) == ([], 0, 0)


@pytest.mark.parametrize(
    ("query", "topics", "is_watched"),
    [
        ("topic=b*", ["a"], False),
        ("topic=b*", ["bc"], True),
        ("topic=b*", ["a", "bc"], True),
        ("client_id=other", ["bc"], False),
        ("topic=b*&partition=0", ["bc"], True),
    ],
)
def test_the_beginning_of_a_request_says_whether_filters_let_any_of_it_be_shown(
    query: str, topics: list[str], is_watched: bool
) -> None:
    tapped = Tapped(f"kind=records&{query}")
    talk = tapped.dialogue().client(produce_request(V, {topic: {0: batch("x")} for topic in topics}))
    for number in (2, 3):
        talk.client(produce_request(V, {topic: {0: batch("y")} for topic in topics}, correlation_id=number))
    assert [watch is not None for *_, watch in talk.session._waiting] == [is_watched] * 3


def test_a_topic_without_a_name_is_watched_until_it_has_one() -> None:
    tapped = Tapped("kind=records&topic=b*", names={})
    talk = tapped.dialogue()
    for number in (1, 2, 3):
        talk.client(produce_request(13, {"a": {0: batch("x")}}, correlation_id=number))
        tapped.names[topic_id("a")] = "a"
    key, route = (ApiKey.PRODUCE << 16 | 13), talk.session.routes.get(ApiKey.PRODUCE << 16 | 13)
    assert route is not None
    assert (known := talk.session.memo._known[key]).route is route
    assert not known.is_watched


def test_without_a_response_there_is_no_offset() -> None:
    tapped = Tapped("kind=records")
    tapped.dialogue().client(produce_request(V, {"a": {0: batch("x")}}, acks=0))
    assert summary(tapped.flush()) == [("produced", "a", 0, None, 1)]
    talk = (tapped := Tapped("kind=records")).dialogue().client(produce_request(V, {"a": {0: batch("x")}}))
    assert tapped.flush() == []
    talk.session.lost("the broker has gone")
    assert summary(tapped.flush()) == [("produced", "a", 0, None, 1)]


def test_keys_are_hashed_alike_in_one_tap_and_differently_in_another() -> None:
    records = [NewRecord(b"v", key=b"secret"), NewRecord(b"v", key=b"secret"), NewRecord(b"v")]
    hashes = []
    for _ in range(2):
        tapped = Tapped("kind=records")
        tapped.dialogue().client(produce_request(V, {"a": {0: build_batch(records)}}, acks=0))
        first, second, third = tapped.flush()
        assert first["key_hash"] == second["key_hash"]
        assert ("key_hash" in third, third["key_bytes"]) == (False, -1)
        assert "secret" not in str(tapped.lines)
        hashes.append(first["key_hash"])
    assert hashes[0] != hashes[1]


def test_names_and_values_that_are_no_utf8_and_very_many_headers_are_shown_escaped_and_cut() -> None:
    headers = [Header(b"\xff\x1b" + b"n" * 300, b"v" * 300), *[Header(b"h", None)] * 50]
    tapped = Tapped("kind=records&show=keys,values")
    one = NewRecord(b"\xc3(" + b"v" * 2000, key=b"\x00k", headers=headers)
    tapped.dialogue().client(produce_request(V, {"a": {0: build_batch([one])}}, acks=0))
    (line,) = tapped.flush()
    assert line["value"].startswith("\\xc3(vv")
    assert (line["value_bytes"], line["value_is_cut"], len(line["value"])) == (2002, True, 1024 + 3)
    assert line["key"] == "\x00k"
    assert line["headers"][0]["name"].startswith("\\xff\x1bnn")
    assert len(line["headers"][0]["name"]) == 249 + 3
    assert line["headers"][0]["value_is_cut"]
    assert (len(line["headers"]), line["headers_left"]) == (32, 19)


def test_a_large_request_is_read_in_a_thread_and_its_copy_gives_its_room_back() -> None:
    tapped = Tapped("kind=records", room=1 << 20)
    talk = tapped.dialogue()
    sent = produce_request(V, {"a": {0: batch("v" * 200_000)}, "b": {0: batch("w")}})
    talk.client(*pieces(sent, [65536, 65536, 65536])).broker(produce_response(V, {"a": {0: 3}, "b": {0: 4}}))
    assert tapped.flush() == []
    assert [topics for _, topics, _, _ in tapped.later] == [{"a", "b"}]
    assert tapped.copies.take(900_000) is None
    tapped.read_all()
    assert summary(tapped.flush()) == [("produced", "a", 0, 3, 200_000), ("produced", "b", 0, 4, 1)]
    assert tapped.copies.take(900_000) is not None


def test_a_request_that_never_ends_gives_its_room_back() -> None:
    tapped = Tapped("kind=records", room=300_000)
    talk = tapped.dialogue()
    talk.client(produce_request(V, {"a": {0: batch("v" * 200_000)}})[:-1])
    assert tapped.copies.take(200_000) is None
    talk.session.lost("it has gone")
    del talk
    gc.collect()
    assert tapped.copies.take(200_000) is not None


def test_a_request_for_which_there_is_no_room_is_counted() -> None:
    tapped = Tapped("kind=records", room=1000)
    talk = tapped.dialogue().client(produce_request(V, {"a": {0: batch("v" * 2000, "w")}}))
    talk.broker(produce_response(V, {"a": {0: 3}}))
    assert (tapped.flush(), tapped.skipped) == ([], 2)


def test_a_batch_that_inflates_to_more_than_is_shown_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "INLINE", Room(1000, 100, is_last=False))
    monkeypatch.setattr(records_module, "IN_THREAD", Room(5000, 100, is_last=True))
    tapped = Tapped("kind=records")
    bomb = batch("0" * 100_000, codec=Codec.GZIP)
    tapped.dialogue().client(produce_request(V, {"a": {0: bomb}}, acks=0))
    assert tapped.flush() == []
    tapped.read_all()
    (line,) = tapped.flush()
    assert "5000" in line["unreadable"]


def test_damaged_records_are_shown_as_not_readable_without_their_bytes() -> None:
    damaged = bytearray(batch("secret", codec=Codec.GZIP))
    damaged[70:] = b"\xee" * len(damaged[70:])
    tapped = Tapped("kind=records&show=values")
    tapped.dialogue().client(produce_request(V, {"a": {0: bytes(damaged)}}, acks=0))
    (line,) = tapped.flush()
    assert line["unreadable"]
    assert "value" not in line


@pytest.mark.parametrize("at", range(12, 120, 7))
def test_no_damaged_frame_raises(at: int) -> None:
    for key, frame in (
        (ApiKey.PRODUCE, produce_request(V, {"a": {0: batch("x", codec=Codec.SNAPPY)}})),
        (ApiKey.FETCH, fetch_request(FETCH, {"a": {0: 0}})),
    ):
        damaged = frame[:at] + bytes(byte ^ 0xFF for byte in frame[at : at + 4]) + frame[at + 4 :]
        tapped = Tapped("kind=records")
        talk = tapped.dialogue().client(damaged)
        answer = produce_response(V, {"a": {0: 0}}) if key == ApiKey.PRODUCE else fetch_response(
            FETCH, {"a": {0: batch("y")[: at % 70]}}
        )  # fmt: skip
        talk.broker(answer)
        tapped.flush()
        tapped.read_all()


def test_a_topic_whose_name_is_not_known_is_asked_for_before_it_is_shown() -> None:
    tapped = Tapped("kind=records")
    tapped.dialogue().client(produce_request(13, {"orders": {0: batch("x")}})).broker(
        produce_response(13, {"orders": {0: 8}})
    )
    assert [topics for _, topics, _, _ in tapped.later] == [{topic_id("orders")}]
    tapped.names[topic_id("orders")] = "orders"
    tapped.read_all()
    assert summary(tapped.flush()) == [("produced", "orders", 0, 8, 1)]


def test_a_name_that_stays_unknown_is_shown_as_its_id() -> None:
    tapped = Tapped("kind=records")
    tapped.dialogue().client(produce_request(13, {"orders": {0: batch("x")}}, acks=0))
    tapped.read_all()
    (line,) = tapped.flush()
    assert (line["topic"], line["topic_id"]) == (None, topic_id("orders").hex())


def test_records_of_aborted_transactions_are_shown_to_who_reads_them() -> None:
    aborted = batch("a", "b", base_offset=0, producer_id=9, producer_epoch=0, attributes=TRANSACTIONAL)
    transactions = ({"producer_id": 9, "first_offset": 0},)
    found = {"t": {0: aborted + batch("c", base_offset=2)}}
    answer = fetch_response(FETCH, found, aborted_transactions=transactions)
    for isolation, offsets in ((0, [0, 1, 2]), (1, [2])):
        tapped = Tapped("kind=records")
        talk = tapped.dialogue().client(fetch_request(FETCH, {"t": {0: 0}}, isolation_level=isolation))
        talk.broker(answer)
        assert [row["offset"] for row in tapped.flush()] == offsets


def test_a_share_consumer_is_shown_what_it_has_acquired() -> None:
    tapped = Tapped("kind=records", names={topic_id("t"): "t"})
    found = batch("a", "b", "c", "d", base_offset=20)
    talk = tapped.dialogue().client(share_request(1))
    talk.broker(share_response(1, {"t": [partition(found, (21, 22))]}))
    assert [row["offset"] for row in tapped.flush()] == [21, 22]


def test_a_client_that_has_closed_is_shown_nothing() -> None:
    tapped = Tapped("kind=records")
    talk = tapped.dialogue().client(fetch_request(FETCH, {"t": {0: 0}}))
    talk.session.client_ended()
    talk.broker(fetch_response(FETCH, {"t": {0: batch("a")}}))
    assert tapped.flush() == []


def test_more_batches_than_any_honest_client_sends_are_not_all_walked() -> None:
    tapped = Tapped("kind=records", rate=1)
    one = batch("x")
    talk = tapped.dialogue()
    talk.client(produce_request(V, {"a": {0: one * 20_000}}, acks=0))
    tapped.flush()
    assert 4_000 <= tapped.skipped < 8_000
    assert zlib.crc32(talk.to_broker) == zlib.crc32(produce_request(V, {"a": {0: one * 20_000}}, acks=0))
