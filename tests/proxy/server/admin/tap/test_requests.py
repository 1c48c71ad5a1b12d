"""Requests as a tap shows them: topics, sizes, errors, and whose time it was."""

from __future__ import annotations

from typing import Any

import pytest
from support import oracle
from support.dialogue import Dialogue, pieces, request, response
from support.fetches import fetch_request
from support.produce_requests import GOOD, batch, produce_request, produce_response, topic_id, validating
from support.taps import Tapped

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.plugins.effects import Steps, Work
from kafka_sidecar.proxy.exchanges.produce import ProduceExchange
from kafka_sidecar.proxy.features.validation.rules import TopicRule
from kafka_sidecar.proxy.relay.exchange import Begin, Exchange, Forward, Look, Outcome
from kafka_sidecar.proxy.server.admin.tap import requests
from kafka_sidecar.proxy.server.admin.tap.requests import RequestsTap, requests_tap


def only(tapped: Tapped) -> dict[str, Any]:
    (line,) = tapped.flush()
    return line


@pytest.mark.parametrize("sizes", [[], [9, 20], [1] * 300])
def test_a_relayed_request_has_its_sizes_and_the_brokers_time(sizes: list[int]) -> None:
    tapped = Tapped("kind=requests")
    talk = tapped.dialogue()
    asked, answer = request(ApiKey.HEARTBEAT, 3, 7, bytes(100)), response(7, bytes(60))
    talk.client(*pieces(asked, sizes))
    talk.now = 0.25
    talk.broker(*pieces(answer, sizes))
    line = only(tapped)
    assert (line["api"], line["version"], line["correlation_id"]) == ("Heartbeat", 3, 7)
    assert (line["request_bytes"], line["response_bytes"]) == (len(asked), len(answer))
    assert (line["latency_ms"], line["broker_ms"], line["sidecar_ms"]) == (250.0, 250.0, 0.0)
    assert (line["client_id"], line["answered_by"], line["error_code"]) == ("app", "broker", 0)


def metadata_request(*names: str) -> bytes:
    topics = [{"name": name} for name in names]
    return oracle.request_frame(oracle.request(ApiKey.METADATA, 9, topics=topics), 7)


def test_the_topics_of_any_api_are_named_and_can_be_a_filter() -> None:
    asked = metadata_request("orders", "other")
    tapped = Tapped("kind=requests")
    tapped.dialogue().client(asked).broker(response(7, bytes(20)))
    assert only(tapped)["topics"] == ["orders", "other"]
    for pattern, lines in (("ord*", 1), ("payments", 0)):
        tapped = Tapped(f"kind=requests&topic={pattern}")
        tapped.dialogue().client(asked).broker(response(7, bytes(20)))
        assert len(tapped.flush()) == lines


def test_produce_and_fetch_are_named_by_their_topics_names_or_ids() -> None:
    for frame in (produce_request(9, {"a": {0: GOOD}, "b": {0: GOOD}}), fetch_request(12, {"a": {0: 0}, "b": {1: 0}})):
        tapped = Tapped("kind=requests")
        tapped.dialogue().client(frame).session.lost("gone")
        assert only(tapped)["topics"] == ["a", "b"]
    tapped = Tapped("kind=requests", names={topic_id("a"): "a"})
    tapped.dialogue().client(produce_request(13, {"a": {0: GOOD}, "b": {0: GOOD}})).session.lost("gone")
    assert only(tapped)["topics"] == ["a", topic_id("b").hex()]


def test_an_api_that_is_not_wanted_is_not_watched_at_all() -> None:
    tapped = Tapped("kind=requests&api=metadata")
    assert requests_tap(tapped.open, tapped, ApiKey.PRODUCE, 9) is None
    assert requests_tap(tapped.open, tapped, ApiKey.METADATA, 9) is not None


def test_an_error_inside_a_small_response_is_found() -> None:
    tapped = Tapped("kind=requests")
    data = [{"name": "a", "partition_responses": [{"index": 0, "error_code": 0}, {"index": 1, "error_code": 29}]}]
    answer = oracle.response_frame(oracle.response(ApiKey.PRODUCE, 9, responses=data), 7)
    tapped.dialogue().client(produce_request(9, {"a": {0: GOOD, 1: GOOD}})).broker(answer)
    assert only(tapped)["error_code"] == 29


def test_requests_without_a_response_and_lost_ones_say_so() -> None:
    tapped = Tapped("kind=requests")
    talk = tapped.dialogue().client(produce_request(9, {"a": {0: GOOD}}, acks=0), request(ApiKey.HEARTBEAT, 3, 8))
    talk.session.lost("the broker has gone")
    found = [(line["api"], line["answered_by"], line["latency_ms"]) for line in tapped.flush()]
    assert found == [("Produce", "none", None), ("Heartbeat", "lost", None)]


def checked(tapped: Tapped) -> Dialogue:
    """A session whose Produce requests are validated."""
    checking = validating(TopicRule("*", "stub", "enforce", 100))

    def begin(key: int, version: int) -> Begin | None:
        if key != ApiKey.PRODUCE:
            return None
        return lambda data, at, size, client: ProduceExchange([checking.run()], checking.names.name_of, version)

    return Dialogue(exchange=begin, tap=lambda key, version: requests_tap(tapped.open, tapped, key, version))


def test_what_the_sidecar_rejects_is_answered_by_it() -> None:
    tapped = Tapped("kind=requests")
    talk = checked(tapped)
    talk.client(produce_request(9, {"a": {0: batch("bad")}}))
    line = only(tapped)
    assert (line["answered_by"], line["broker_ms"], line["error_code"]) == ("sidecar", 0.0, 87)


def test_what_it_forwards_is_answered_by_the_broker() -> None:
    tapped = Tapped("kind=requests")
    talk = checked(tapped)
    talk.client(produce_request(9, {"a": {0: batch("good")}}))
    talk.now = 0.125
    talk.broker(produce_response(9, {"a": {0: 1}}))
    line = only(tapped)
    assert (line["answered_by"], line["broker_ms"], line["error_code"]) == ("broker", 125.0, 0)


class LooksAtResponses(Exchange):
    def request(self, frame: bytes) -> Steps[Outcome]:
        yield from ()
        return Forward(frame, wants_response=True)

    def response(self, frame: bytes) -> Steps[bytes]:
        yield Work(lambda: None)
        return frame


def test_the_brokers_time_ends_where_its_response_is_looked_into_also_if_the_request_was_relayed() -> None:
    tapped = Tapped("kind=requests")
    found = Look(b"", LooksAtResponses, relays=True)
    talk = Dialogue(
        exchange=lambda key, version: lambda data, at, size, client: found,
        tap=lambda key, version: requests_tap(tapped.open, tapped, key, version),
    )
    for number in range(2):
        talk.client(request(ApiKey.HEARTBEAT, 3, number))
        talk.now += 0.25
        talk.broker(response(number, bytes(60)))
        talk.now += 0.5
        talk.meet()
    assert [(line["broker_ms"], line["sidecar_ms"]) for line in tapped.flush()] == [(250.0, 500.0)] * 2
    assert talk.metrics.apis[ApiKey.HEARTBEAT].held == 1


def test_over_the_rate_requests_are_only_counted() -> None:
    tapped = Tapped("kind=requests", rate=2)
    talk = tapped.dialogue()
    for number in range(5):
        talk.client(request(ApiKey.HEARTBEAT, 3, number)).broker(response(number, bytes(4)))
    assert (len(tapped.flush()), tapped.skipped) == (2, 3)


def test_over_the_rate_those_of_a_wanted_topic_are_counted_and_no_others() -> None:
    tapped = Tapped("kind=requests&topic=orders", rate=2)
    for name in ("orders", "other") * 4:
        tapped.dialogue().client(metadata_request(name)).broker(response(7, bytes(20)))
    assert (len(tapped.flush()), tapped.skipped) == (2, 2)


@pytest.mark.parametrize(
    ("query", "topics", "is_watched"),
    [
        ("topic=b*", ["a"], False),
        ("topic=a", ["a"], True),
        ("topic=b", ["a", "b"], True),
        ("client_id=other", ["a"], False),
        ("client_id=app", ["a"], True),
    ],
)
def test_requests_that_filters_do_not_show_are_not_watched(query: str, topics: list[str], is_watched: bool) -> None:
    talk = Tapped(f"kind=requests&{query}").dialogue()
    for number in range(3):
        talk.client(produce_request(9, {topic: {0: GOOD} for topic in topics}, correlation_id=number))
    assert [watch is not None for *_, watch in talk.session._waiting] == [is_watched] * 3


def test_requests_wait_together_and_no_more_of_them_than_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_FRAMES", 3)
    looked: list[int] = []
    topics = RequestsTap.topics

    def topics_of(tap: RequestsTap, data: bytes, start: int, end: int) -> list[str | bytes]:
        looked.append(start)
        return topics(tap, data, start, end)

    monkeypatch.setattr(RequestsTap, "topics", topics_of)
    tapped = Tapped("kind=requests")
    talk = tapped.dialogue()
    found = []
    for number in range(4):
        talk.client(produce_request(9, {"a": {0: GOOD}}, correlation_id=number))
        found.append(len(looked))
    assert found == [0, 0, 3, 3]
    talk.session.lost("gone")
    assert [line["correlation_id"] for line in tapped.flush()] == [0, 1, 2, 3]
    assert len(looked) == 4


def test_a_request_that_never_was_whole_is_not_shown() -> None:
    tapped = Tapped("kind=requests")
    talk = tapped.dialogue().client(produce_request(9, {"a": {0: GOOD}})[:-1])
    talk.session.lost("gone")
    assert tapped.flush() == []


@pytest.mark.parametrize("at", range(12, 60, 5))
def test_no_damaged_request_or_response_raises(at: int) -> None:
    for frame in (metadata_request("orders"), produce_request(9, {"a": {0: GOOD}}), fetch_request(12, {"a": {0: 0}})):
        tapped = Tapped("kind=requests")
        damaged = frame[:at] + b"\xff\xff\xff\xff" + frame[at + 4 :]
        tapped.dialogue().client(damaged[: len(frame)]).broker(response(7, b"\xff" * at))
        tapped.flush()
