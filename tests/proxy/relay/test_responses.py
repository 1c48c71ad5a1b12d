"""Which response is expected, and answers to requests of our own among the frames of others."""

from __future__ import annotations

from collections import deque
from struct import pack

import pytest
from support.dialogue import response

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.relay.exchange_driver import Driver
from kafka_sidecar.proxy.relay.responses import OwnRequests, Waiting, mismatch, take_answers
from kafka_sidecar.proxy.relay.routes import Route
from kafka_sidecar.proxy.telemetry.metrics import ApiCounts

ROUTE = Route(12, 3, ApiCounts("Heartbeat"))
ONE, TWO, OWN, OTHER_OWN = response(1, b"one"), response(2), response(90, b"answer"), response(91)


def waiting_for(own: OwnRequests) -> deque[Waiting]:
    """Two requests of the client, a local response among them, then two of our own."""
    clients = [(ROUTE, expected, 0.0, 12, None, None) for expected in (1, b"local", 2)]
    return deque([*clients, *((ROUTE, expected, 0.0, 12, own, None) for expected in (90, 91))])


def own_requests() -> OwnRequests:
    return OwnRequests(Driver.__new__(Driver), expected=2)


def test_answers_are_taken_from_among_the_responses_of_others_which_keep_their_order() -> None:
    own = own_requests()
    waiting = waiting_for(own)
    assert take_answers(own, ONE + TWO + OWN + OTHER_OWN + b"rest", waiting) == ONE + TWO + b"rest"
    assert (own.answers, own.are_answered) == ([OWN, OTHER_OWN], True)
    assert [expected for _, expected, *_ in waiting] == [1, b"local", 2]


@pytest.mark.parametrize("came", [b"", ONE[:5], ONE + TWO[:11], ONE + TWO + OWN[:-1]])
def test_nothing_is_taken_while_no_answer_is_whole(came: bytes) -> None:
    own = own_requests()
    waiting = waiting_for(own)
    assert take_answers(own, came, waiting) == came
    assert (own.answers, len(waiting)) == ([], 5)


@pytest.mark.parametrize(
    ("came", "why"),
    [(TWO, "a response to 2 where 1 was due"), (ONE + OWN, "a response to 90 where 2 was due"),
     (ONE + pack(">ii", 3, 2), "a response cannot be 3 bytes long")],
)  # fmt: skip
def test_a_response_that_is_not_the_expected_one_is_an_error(came: bytes, why: str) -> None:
    own = own_requests()
    with pytest.raises(CodecError, match=why):
        take_answers(own, came, waiting_for(own))


def test_a_response_to_no_request_is_called_so() -> None:
    assert mismatch(4, 7, None) == "a response to no request (correlation id 7)"
