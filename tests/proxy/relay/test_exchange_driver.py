"""Requests and responses in the hand of an exchange: collected, held, answered in their turn (design D6)."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dialogue import Dialogue, pieces, produce, produced, request, response
from support.oracle import framed

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.relay.exchange import Answer, Client, Exchange, Hold, Last, Passes, RouteError, Step

TAKEN = ApiKey.DELETE_TOPICS  # any API that nobody rewrites
PASSING = ApiKey.HEARTBEAT
ANY_CUTS = st.lists(st.integers(0, 10_000), max_size=8)


async def _wait() -> None:
    raise AssertionError("these tests say themselves when a wait is over")


@dataclass
class Scripted(Exchange):
    """Does with request and response what the test says."""

    asks: Callable[[bytes], Step]
    answers: Callable[[bytes], bytes | Hold] | None = None
    requests: list[bytes] = field(default_factory=list)
    responses: list[bytes] = field(default_factory=list)

    @property
    def wants_response(self) -> bool:
        return self.answers is not None

    def request(self, frame: bytes) -> Step:
        self.requests.append(frame)
        return self.asks(frame)

    def response(self, frame: bytes) -> bytes | Hold:
        assert self.answers is not None
        self.responses.append(frame)
        return self.answers(frame)


def passes(frame: bytes) -> Step:
    return frame


def dialogue(*exchanges: Scripted | None, key: int = TAKEN) -> Dialogue:
    """The requests of one API are taken by these, one after the other; None: that one is not taken."""
    left = list(exchanges)

    def begin(data: bytes, at: int, size: int, client: Client) -> Exchange | None:
        return left.pop(0)

    return Dialogue(exchange=lambda api, version: begin if api == key else None)


def taken(correlation_id: int, body: bytes = b"body of a request") -> bytes:
    return request(TAKEN, 3, correlation_id, body)


def passing(correlation_id: int) -> bytes:
    return request(PASSING, 3, correlation_id)


def own(correlation_id: int) -> bytes:
    return response(correlation_id, b"answered here")


def answers(frame: bytes) -> Step:
    return Answer(own(int.from_bytes(frame[8:12], "big")))


def test_a_frame_that_goes_on_as_it_came_is_the_very_chunk() -> None:
    talk, chunk = dialogue(Scripted(passes)), taken(1)
    assert talk.session.from_client(chunk) is chunk


@given(ANY_CUTS, ANY_CUTS)
def test_frames_are_collected_whole_however_they_are_cut(requests: list[int], responses: list[int]) -> None:
    hand = Scripted(lambda frame: framed(b"new " + frame), lambda frame: framed(b"told " + frame))
    talk = dialogue(hand)
    sent = passing(1) + taken(2) + passing(3)
    talk.client(*pieces(sent, requests))
    assert hand.requests == [taken(2)]
    assert talk.to_broker == passing(1) + framed(b"new " + taken(2)) + passing(3)
    got = response(1) + response(2, b"from the broker") + response(3)
    talk.broker(*pieces(got, responses))
    assert hand.responses == [response(2, b"from the broker")]
    assert talk.to_client == response(1) + framed(b"told " + response(2, b"from the broker")) + response(3)
    assert talk.cause is None


@pytest.mark.parametrize("asks", [passes, answers, lambda frame: Last(b"", "why", "detail")])
def test_nothing_of_a_request_is_kept_once_it_is_decided(asks: Callable[[bytes], Step]) -> None:
    hand = Scripted(asks)
    gone = weakref.ref(hand)
    talk = dialogue(hand)
    del hand
    talk.client(taken(1))
    assert gone() is None


def test_nothing_of_an_exchange_is_kept_once_its_response_has_passed() -> None:
    hand = Scripted(passes, lambda frame: frame)
    gone = weakref.ref(hand)
    talk = dialogue(hand)
    del hand
    talk.client(taken(1))
    assert gone() is not None
    talk.broker(response(1))
    assert talk.to_client == response(1)
    assert gone() is None


@given(ANY_CUTS, ANY_CUTS)
def test_our_own_answers_come_in_their_place(requests: list[int], responses: list[int]) -> None:
    talk = dialogue(*(Scripted(answers) for _ in range(3)))
    talk.client(*pieces(taken(1) + passing(2) + taken(3) + taken(4) + passing(5), requests))
    assert talk.to_broker == passing(2) + passing(5)
    assert talk.to_client == own(1)
    talk.broker(*pieces(response(2, b"two") + response(5, b"five"), responses))
    assert talk.to_client == own(1) + response(2, b"two") + own(3) + own(4) + response(5, b"five")


def test_what_is_answered_here_is_counted_as_such() -> None:
    talk = dialogue(Scripted(answers)).client(taken(1))
    counts = talk.metrics.apis[TAKEN]
    assert (counts.requests, counts.answered, counts.answered_bytes) == (1, 1, len(taken(1)))
    assert counts.rewritten_bytes == len(own(1))
    assert (talk.session.responses, talk.session.in_flight) == (1, 0)


def test_a_request_in_hand_counts_as_in_flight() -> None:
    talk = dialogue(Scripted(lambda frame: Hold(_wait, lambda: frame)))
    talk.client(taken(1)[:20])
    assert (talk.session.responses, talk.session.in_flight) == (0, 1)
    talk.client(taken(1)[20:])
    assert (talk.session.responses, talk.session.in_flight) == (0, 1)
    talk.request_decided()
    assert (talk.session.responses, talk.session.in_flight) == (0, 1)
    talk.broker(response(1))
    assert (talk.session.responses, talk.session.in_flight) == (1, 0)


@given(ANY_CUTS)
def test_nothing_goes_past_a_request_that_is_held_and_the_other_direction_goes_on(cuts: list[int]) -> None:
    talk = dialogue(Scripted(lambda frame: Hold(_wait, lambda: frame)), None)
    talk.client(passing(1))
    talk.client(*pieces(taken(2) + passing(3) + taken(4) + passing(5), cuts))
    assert talk.session.taken_requests.held is not None
    assert talk.to_broker == passing(1)
    talk.broker(response(1, b"meanwhile"))
    assert talk.to_client == response(1, b"meanwhile")
    talk.request_decided()
    assert talk.session.taken_requests.held is None
    assert talk.to_broker == passing(1) + taken(2) + passing(3) + taken(4) + passing(5)
    talk.broker(*map(response, (2, 3, 4, 5)))
    assert talk.to_client == response(1, b"meanwhile") + b"".join(map(response, (2, 3, 4, 5)))


def test_a_wait_may_lead_to_another_and_then_to_anything() -> None:
    def twice(frame: bytes) -> Step:
        return Hold(_wait, lambda: Hold(_wait, lambda: answers(frame)))

    talk = dialogue(Scripted(twice), Scripted(twice)).client(taken(1) + taken(2))
    for said in (b"", own(1), own(1), own(1) + own(2)):
        talk.request_decided()
        assert talk.to_client == said
    assert talk.to_broker == b""
    assert talk.session.taken_requests.held is None


def test_bytes_that_come_while_a_request_is_held_are_kept_in_order() -> None:
    talk = dialogue(Scripted(lambda frame: Hold(_wait, lambda: frame)))
    talk.client(taken(1))
    talk.client(*pieces(passing(2) + passing(3), list(range(0, 60, 3))))
    talk.request_decided()
    assert talk.to_broker == taken(1) + passing(2) + passing(3)


def last(frame: bytes) -> Step:
    return Last(framed(b"what is left"), "refused_without_acks", "why")


@pytest.mark.parametrize("held", [False, True])
def test_nothing_after_a_last_request_reaches_the_broker(held: bool) -> None:
    hand = Scripted((lambda frame: Hold(_wait, lambda: last(frame))) if held else last)
    talk = dialogue(hand).client(passing(1) + taken(2) + passing(3))
    if held:
        assert talk.cause is None
        talk.request_decided()
    assert talk.to_broker == passing(1) + framed(b"what is left")
    assert (talk.cause, talk.detail) == ("refused_without_acks", "why")
    assert talk.session.from_client(passing(4)) == b""


def test_a_request_that_gets_no_answer_is_not_waited_for() -> None:
    hand = Scripted(lambda frame: Hold(_wait, lambda: frame))
    talk = dialogue(hand, None, key=ApiKey.PRODUCE)
    talk.client(produce(9, 1, acks=0) + produce(9, 2, acks=1)).request_decided()
    assert talk.session.in_flight == 1
    talk.broker(produced(9, 2))
    assert (talk.cause, talk.session.responses) == (None, 1)


@given(ANY_CUTS)
def test_a_response_that_is_held_stops_the_brokers_direction_only(cuts: list[int]) -> None:
    hand = Scripted(passes, lambda frame: Hold(_wait, lambda: framed(b"longer than it was " + frame)))
    talk = dialogue(hand, Scripted(answers)).client(taken(1) + passing(2))
    talk.broker(*pieces(response(1) + response(2), cuts))
    assert talk.session.taken_responses.held is not None
    talk.client(taken(3) + passing(4))
    assert talk.to_broker == taken(1) + passing(2) + passing(4)
    assert talk.to_client == b""
    talk.response_decided()
    new = framed(b"longer than it was " + response(1))
    assert talk.to_client == new + response(2) + own(3)
    assert talk.metrics.apis[TAKEN].rewritten_bytes == len(new) - len(response(1)) + len(own(3))


def test_a_response_may_be_held_twice() -> None:
    hand = Scripted(passes, lambda frame: Hold(_wait, lambda: Hold(_wait, lambda: frame)))
    talk = dialogue(hand).client(taken(1)).broker(response(1) + response(2)[:3])
    assert talk.response_decided().to_client == b""
    assert talk.response_decided().to_client == response(1)


def broken(frame: bytes) -> Step:
    raise CodecError("no such message")


def forbidden(frame: bytes) -> Step:
    raise RouteError("too_many_requests", "enough")


@pytest.mark.parametrize(("asks", "cause"), [(broken, "unreadable_request"), (forbidden, "too_many_requests")])
@pytest.mark.parametrize("held", [False, True])
def test_a_request_that_cannot_be_read_ends_the_connection(
    asks: Callable[[bytes], Step], cause: str, held: bool
) -> None:
    talk = dialogue(Scripted((lambda frame: Hold(_wait, lambda: asks(frame))) if held else asks))
    talk.client(passing(1) + taken(2) + passing(3))
    if held:
        talk.request_decided()
    assert (talk.cause, talk.to_broker) == (cause, passing(1))


@pytest.mark.parametrize("step", [Answer(b"x"), Last(b"x", "c", "d")])
def test_a_response_can_neither_be_answered_nor_ended(step: Step) -> None:
    talk = dialogue(Scripted(passes, lambda frame: step)).client(taken(1)).broker(response(1))  # type: ignore[arg-type,return-value]
    assert (talk.cause, talk.to_client) == ("unreadable_response", b"")


def test_what_all_responses_of_an_api_go_through_still_happens_after_the_exchange() -> None:
    from support import oracle

    nodes = [{"node_id": 1, "host": "broker", "port": 9092}]
    said = oracle.response_frame(oracle.response(ApiKey.METADATA, 12, brokers=nodes), 1)
    hand = Scripted(passes, lambda frame: frame)
    talk = dialogue(hand, key=ApiKey.METADATA)
    talk.client(oracle.request_frame(oracle.request(ApiKey.METADATA, 12), 1)).broker(said)
    assert hand.responses == [said]
    (node,) = oracle.read_response(ApiKey.METADATA, 12, talk.to_client)[1].brokers
    assert (node.host, node.port) == ("sidecar.local", 20001)


def test_own_answers_without_end_end_the_connection() -> None:
    large = Answer(response(1, bytes(1 << 20)))
    talk = dialogue(*(Scripted(lambda frame: large) for _ in range(5))).client(passing(0))
    talk.client(*(taken(1) for _ in range(4)))
    assert talk.cause is None
    talk.client(taken(1))
    assert talk.cause == "too_many_requests"


def test_rows_that_are_forgotten_are_made_anew_for_open_sessions() -> None:
    wanted = False
    hand = Scripted(answers)
    talk = Dialogue(exchange=lambda api, version: (lambda data, at, size, client: hand) if wanted else None)
    talk.client(taken(1))
    wanted = True
    assert talk.client(taken(2)).to_broker == taken(1) + taken(2)
    talk.routes.forget()
    assert talk.client(taken(3)).to_broker == taken(1) + taken(2)
    assert hand.requests == [taken(3)]
    assert talk.metrics.apis[TAKEN].requests == 3


def test_requests_that_begin_like_one_that_nobody_wanted_are_not_asked_about_again_until_rows_are_made_anew() -> None:
    asked: list[bytes] = []

    def begin(data: bytes, at: int, size: int, client: Client) -> Passes:
        asked.append(data[at : at + size])
        return Passes(data[at + 12 : at + 17 + 4])  # client id and four bytes more

    talk = Dialogue(exchange=lambda key, version: begin if key == ApiKey.FETCH else None)
    frames = [request(ApiKey.FETCH, 9, number, b"same" + bytes([number])) for number in range(3)]
    talk.client(b"".join(frames))
    assert (talk.to_broker, len(asked)) == (b"".join(frames), 1)
    talk.client(request(ApiKey.FETCH, 9, 3, b"else"))
    talk.client(request(ApiKey.FETCH, 10, 4, b"else"))
    assert len(asked) == 3
    talk.client(request(ApiKey.FETCH, 9, 5, b"else"))
    assert len(asked) == 3
    talk.routes.forget()
    talk.client(request(ApiKey.FETCH, 9, 6, b"else"))
    assert len(asked) == 4
