"""A watch sees what a client sends and gets, whatever an exchange makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from support.dialogue import Dialogue, request, response

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.pieces import Pieces, whole
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.relay.exchange import Exchange, Forward, LargeByPartition, Outcome, Respond
from kafka_sidecar.proxy.relay.watch import TapWith, Watch

REQUEST, CHANGED, ANSWER = request(ApiKey.HEARTBEAT, 3, 7), request(ApiKey.HEARTBEAT, 3, 7, b"changed"), response(7)
LARGE: LargeByPartition = {("orders", 0): [(7, 3)]}


class Notes(Watch):
    """Notes what it is shown; ``skip`` bytes of the response are not needed."""

    __slots__ = ("events", "needless")

    def __init__(self, needless: int = 0) -> None:
        super().__init__()
        self.needless = needless
        self.events: list[tuple[Any, ...]] = []

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        self.events.append(("request", data[start:end], last))
        self.skip = self.needless

    def forwarded(self, frame: bytes) -> None:
        self.events.append(("forwarded", frame))

    def unanswered(self) -> None:
        self.events.append(("unanswered",))

    def received(self, frame: bytes) -> None:
        self.events.append(("received", frame))

    def large_messages(self, found: LargeByPartition) -> None:
        self.events.append(("large", found))

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        self.events.append(("response", data[start:end], last))

    def lost(self, why: str) -> None:
        self.events.append(("lost", why))


class Made(Exchange):
    """An exchange that sends this request, and gives the client this response."""

    def __init__(self, outcome: Outcome, response: bytes | Pieces = ANSWER, unhidden: bytes = ANSWER) -> None:
        self._outcome = outcome
        self._response = response
        self._unhidden = unhidden

    def request(self, frame: bytes) -> Steps[Outcome]:
        yield from ()
        return self._outcome

    def response(self, frame: bytes) -> Steps[bytes | Pieces]:
        yield from ()
        return self._response

    def unhidden(self, frame: bytes) -> bytes:
        return self._unhidden

    def large_messages(self) -> LargeByPartition:
        return LARGE


def shown(exchange: Made, *answers: bytes, needless: int = 0) -> tuple[Dialogue, list[tuple[Any, ...]]]:
    """What a watch sees of one request."""
    watch = Notes(needless)
    dialogue = Dialogue(
        exchange=lambda key, version: lambda data, at, size, client: exchange,
        tap=lambda key, version: TapWith(lambda client: watch),
    )
    dialogue.client(REQUEST).broker(*answers)
    return dialogue, watch.events


def test_a_request_that_is_changed_is_shown_as_it_came_and_as_it_goes_on() -> None:
    _, events = shown(Made(Forward(CHANGED, wants_response=True)), ANSWER)
    assert events[:3] == [("request", REQUEST, True), ("forwarded", CHANGED), ("large", LARGE)]
    assert events[3:] == [("large", LARGE), ("response", ANSWER, True)]


def test_a_response_that_no_exchange_wants_is_shown_as_it_passes() -> None:
    dialogue, events = shown(Made(Forward(REQUEST)), ANSWER[:6], ANSWER[6:])
    assert dialogue.to_client == ANSWER
    assert b"".join(event[1] for event in events if event[0] == "response") == ANSWER


def test_a_response_of_the_sidecars_own_is_shown_and_nothing_goes_to_the_broker() -> None:
    _, events = shown(Made(Respond(ANSWER)))
    assert events[1:] == [("forwarded", b""), ("large", LARGE), ("response", ANSWER, True)]


def test_what_producers_have_sent_is_shown_before_what_the_client_gets() -> None:
    hidden, sent = response(7, b"hidden"), response(7, b"hidden and more")
    dialogue, events = shown(Made(Forward(REQUEST, True), hidden, sent), response(7, b"slices"))
    assert dialogue.to_client == hidden
    assert events[2:] == [("received", sent), ("large", LARGE), ("response", hidden, True)]


@pytest.mark.parametrize("needless", [0, 4, 9, 20])
def test_pieces_that_the_watch_need_not_see_are_not_shown(needless: int) -> None:
    pieces = Pieces((ANSWER, memoryview(b"value"), b"tail"))
    _, events = shown(Made(Forward(REQUEST, True), pieces, whole(pieces)), ANSWER, needless=needless)
    parts = [ANSWER, b"value", b"tail"]
    seen = [event[1:] for event in events if event[0] == "response"]
    assert seen[-1] == (b"tail", True)  # the last one says that the response is whole
    left = sum(map(len, parts[: len(parts) - len(seen)]))
    assert left <= needless
    assert [data for data, _ in seen] == parts[len(parts) - len(seen) :]


@pytest.mark.parametrize("wants_response", [False, True])
def test_a_connection_that_ends_before_the_response_is_shown_once(wants_response: bool) -> None:
    dialogue, events = shown(Made(Forward(REQUEST, wants_response)))
    dialogue.session.lost("gone")
    assert [event for event in events if event[0] == "lost"] == [("lost", "gone")]
