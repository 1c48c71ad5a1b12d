"""Responses that leave in pieces."""

from __future__ import annotations

import pytest
from support.dialogue import Dialogue, request, response

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.pieces import Pieces, in_pieces
from kafka_sidecar.plugins.effects import TURN, Steps
from kafka_sidecar.proxy.relay.exchange import Exchange, Forward, Outcome, TopicIds

LOOKED_INTO, RELAYED = ApiKey.DELETE_TOPICS, ApiKey.HEARTBEAT
LARGE = response(2, bytes(range(256)) * 8192)


class Enlarges(Exchange):
    """Its response is megabytes, after it has needed something or at once."""

    def __init__(self, needs: int) -> None:
        self.needs = needs

    def request(self, frame: bytes) -> Steps[Outcome]:
        return Forward(frame, wants_response=True)
        yield

    def response(self, frame: bytes) -> Steps[bytes | Pieces]:
        yield TURN
        for _ in range(self.needs):
            yield TopicIds(("orders",))
        return in_pieces([LARGE[:100], memoryview(LARGE)[100:]])


@pytest.mark.parametrize("needs", [0, 1])
def test_a_response_in_pieces_keeps_its_place(needs: int) -> None:
    talk = Dialogue(exchange=lambda key, version: (lambda *_: Enlarges(needs)) if key == LOOKED_INTO else None)
    talk.client(request(RELAYED, 3, 1) + request(LOOKED_INTO, 3, 2) + request(RELAYED, 3, 3))

    talk.broker(response(1) + response(2) + response(3))
    if needs:
        talk.meet()

    assert talk.to_client == response(1) + LARGE + response(3)
    assert talk.session.in_flight == 0
