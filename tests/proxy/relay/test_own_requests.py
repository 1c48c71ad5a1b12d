"""An exchange's own requests to the broker (`Send`): what large messages will split and read back with."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dialogue import Dialogue, pieces, request, response
from support.driven import Driven

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.plugins.effects import Steps, Work
from kafka_sidecar.proxy.relay import session
from kafka_sidecar.proxy.relay.exchange import Client, Exchange, Forward, Outcome, Respond, Send
from kafka_sidecar.proxy.relay.responses import OwnRequests, Waiting, take_answers

PRODUCE_LIKE, RELAYED = ApiKey.DELETE_TOPICS, ApiKey.HEARTBEAT  # APIs whose responses are not rewritten
OWN = 0x7FFF_0000  # correlation ids of our own
FAILED = b"no room"
ANY_CUTS = st.lists(st.integers(0, 10_000), max_size=8)


def split(frame: bytes) -> bytes:
    return request(PRODUCE_LIKE, 3, int.from_bytes(frame[8:12], "big"), b"the last slice")


SLICES = tuple(request(PRODUCE_LIKE, 3, OWN + number, b"slice") for number in range(2))


class Splits(Exchange):
    """Sends slices first, then the client's frame with what is left; rejects it if one of them fails."""

    def __init__(self) -> None:
        self.lost_because: list[str] = []

    def request(self, frame: bytes) -> Steps[Outcome]:
        answers = yield Send(SLICES)
        failed = [answer for answer in answers if answer.endswith(FAILED)]
        if failed:
            return Respond(response(int.from_bytes(frame[8:12], "big"), failed[0][8:]))
        return Forward(split(frame), wants_response=True)

    def response(self, frame: bytes) -> Steps[bytes]:
        return frame
        yield

    def lost(self, why: str) -> Work | None:
        self.lost_because.append(why)
        return None


class ReadsBack(Exchange):
    """Reads what is missing of a response before the client gets it."""

    def request(self, frame: bytes) -> Steps[Outcome]:
        return Forward(frame, wants_response=True)
        yield

    def response(self, frame: bytes) -> Steps[bytes]:
        first, second = yield Send(SLICES)
        return response(int.from_bytes(frame[4:8], "big"), frame[8:] + first[8:] + second[8:])


def dialogue(exchange: Exchange) -> Dialogue:
    def begin(data: bytes, at: int, size: int, client: Client) -> Exchange:
        return exchange

    return Dialogue(exchange=lambda key, version: begin if key == PRODUCE_LIKE else None)


def produced(correlation_id: int) -> bytes:
    return request(PRODUCE_LIKE, 3, correlation_id, b"a large message")


def relayed(correlation_id: int) -> bytes:
    return request(RELAYED, 3, correlation_id)


def test_an_own_request_is_a_value_and_its_answer_a_result() -> None:
    exchange = Driven(Splits())
    assert exchange.request(produced(1)) == Send(SLICES)
    assert exchange.answer((response(OWN), response(OWN + 1))) == split(produced(1))
    assert exchange.wants_response
    assert exchange.request(produced(2)) == Send(SLICES)
    assert exchange.answer((response(OWN), response(OWN + 1, FAILED))) == Respond(response(2, FAILED))


@given(ANY_CUTS, ANY_CUTS)
def test_slices_go_first_then_the_clients_frame_and_the_client_sees_its_own_responses_only(
    requests: list[int], responses: list[int]
) -> None:
    talk = dialogue(Splits())
    talk.client(*pieces(relayed(1) + produced(2) + relayed(3), requests))
    assert talk.to_broker == relayed(1) + b"".join(SLICES)
    assert (talk.session.in_flight, talk.session.requests) == (2, 2)
    talk.broker(*pieces(response(1) + response(OWN) + response(OWN + 1), responses))
    assert talk.to_broker == relayed(1) + b"".join(SLICES) + split(produced(2)) + relayed(3)
    assert talk.to_client == response(1)
    talk.broker(response(2, b"offset") + response(3))
    assert talk.to_client == response(1) + response(2, b"offset") + response(3)
    assert (talk.cause, talk.session.in_flight, talk.session.responses) == (None, 0, 3)


def test_a_slice_that_fails_is_the_clients_response_and_the_connection_goes_on() -> None:
    talk = dialogue(Splits()).client(produced(1) + relayed(2))
    talk.broker(response(OWN) + response(OWN + 1, FAILED))
    assert talk.to_broker == b"".join(SLICES) + relayed(2)
    assert talk.to_client == response(1, FAILED)
    talk.broker(response(2))
    assert (talk.cause, talk.to_client) == (None, response(1, FAILED) + response(2))


def test_a_connection_that_ends_between_slices_and_frame_is_lost_to_the_exchange_once() -> None:
    exchange = Splits()
    talk = dialogue(exchange).client(produced(1)).broker(response(OWN))
    talk.session.lost("the broker closed its connection")
    talk.session.lost("the client closed its connection")
    assert exchange.lost_because == ["the broker closed its connection"]
    assert talk.to_broker == b"".join(SLICES)


def test_an_answer_with_another_correlation_id_ends_the_connection() -> None:
    talk = dialogue(Splits()).client(produced(1)).broker(response(OWN + 1))
    assert talk.cause == "unreadable_response"


@given(ANY_CUTS)
def test_a_response_may_read_back_while_those_of_later_requests_keep_their_place(cuts: list[int]) -> None:
    talk = dialogue(ReadsBack())
    talk.client(produced(1) + relayed(2) + relayed(3)).broker(response(1, b"begin "))
    sent = produced(1) + relayed(2) + relayed(3) + b"".join(SLICES)
    assert (talk.to_broker, talk.to_client) == (sent, b"")
    talk.client(relayed(4))
    came = response(2, b"two") + response(3) + response(OWN, b"middle ") + response(OWN + 1, b"end") + response(4)
    talk.broker(*pieces(came, cuts))
    assert talk.to_broker == sent + relayed(4)
    assert talk.to_client == response(1, b"begin middle end") + response(2, b"two") + response(3) + response(4)
    assert (talk.cause, talk.session.in_flight) == (None, 0)


@pytest.mark.parametrize("came", [response(9), response(2) + response(OWN + 1)])
def test_answers_out_of_order_end_the_connection_while_a_response_waits(came: bytes) -> None:
    talk = dialogue(ReadsBack()).client(produced(1) + relayed(2)).broker(response(1), came)
    assert talk.cause == "unreadable_response"


class Marks(Exchange):
    """Marks its response."""

    def request(self, frame: bytes) -> Steps[Outcome]:
        return Forward(frame, wants_response=True)
        yield

    def response(self, frame: bytes) -> Steps[bytes]:
        return response(int.from_bytes(frame[4:8], "big"), b"marked " + frame[8:])
        yield


@given(ANY_CUTS)
def test_a_response_for_another_exchange_is_no_answer_to_a_request_of_our_own(cuts: list[int]) -> None:
    exchanges = iter([ReadsBack(), Marks()])
    talk = Dialogue(exchange=lambda key, version: (lambda *_: next(exchanges)) if key == PRODUCE_LIKE else None).client(
        produced(1), produced(2)
    )
    talk.broker(response(1, b"begin "))
    came = response(2, b"two") + response(OWN, b"middle ") + response(OWN + 1, b"end")
    talk.broker(*pieces(came, cuts))
    assert talk.to_client == response(1, b"begin middle end") + response(2, b"marked two")
    assert (talk.cause, talk.session.in_flight) == (None, 0)


def test_a_long_answer_in_many_pieces_is_looked_at_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def counted(own: OwnRequests, data: bytes, waiting: deque[Waiting]) -> bytes:
        looks.append(len(data))
        return take_answers(own, data, waiting)

    monkeypatch.setattr(session, "take_answers", counted)
    talk = dialogue(ReadsBack()).client(produced(1)).broker(response(1, b"begin "))
    first, second = response(OWN, bytes(500_000)), response(OWN + 1, b" end")
    talk.broker(*pieces(first + second, list(range(0, 500_000, 1000))))
    assert talk.to_client == response(1, b"begin " + bytes(500_000) + b" end")
    assert len(looks) <= 4


class ReadsOn(Exchange):
    """Asks for what comes after its response, which does not wait for it."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def request(self, frame: bytes) -> Steps[Outcome]:
        return Forward(frame, wants_response=True)
        yield

    def response(self, frame: bytes) -> Steps[bytes]:
        assert (yield Send(SLICES, self.taken.append)) == ()
        return frame


@given(ANY_CUTS)
def test_a_response_does_not_wait_for_what_is_taken_later(cuts: list[int]) -> None:
    exchange = ReadsOn()
    talk = dialogue(exchange).client(relayed(1) + produced(2) + relayed(3))
    talk.broker(response(1) + response(2, b"whole"))
    assert talk.to_client == response(1) + response(2, b"whole")
    assert talk.to_broker == relayed(1) + produced(2) + relayed(3) + b"".join(SLICES)
    talk.client(relayed(4))
    came = response(3) + response(OWN, b"one") + response(OWN + 1, b"two") + response(4)
    talk.broker(*pieces(came, cuts))
    assert talk.to_client == response(1) + response(2, b"whole") + response(3) + response(4)
    assert exchange.taken == [response(OWN, b"one"), response(OWN + 1, b"two")]
    assert (talk.cause, talk.session.in_flight) == (None, 0)


def test_a_connection_that_ends_before_what_is_taken_later_has_come_ends_without_it() -> None:
    exchange = ReadsOn()
    talk = dialogue(exchange).client(produced(1)).broker(response(1), response(OWN, b"one"))
    assert talk.session.lost("the client closed its connection") == []
    assert exchange.taken == [response(OWN, b"one")]


def test_an_answer_counts_as_buffered_until_the_response_leaves() -> None:
    talk = dialogue(ReadsBack()).client(produced(1)).broker(response(1, b"begin "))
    before, (first, second) = talk.memory.spent, (response(OWN, bytes(5000)), response(OWN + 1))
    talk.broker(first[:3000], first[3000:])
    assert talk.memory.spent == before + len(first)
    talk.broker(second)
    assert talk.memory.spent == 0
