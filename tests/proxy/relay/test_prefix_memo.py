"""Which requests are looked into: asked once for a prefix, until routes are made again."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from support.dialogue import Dialogue, request, response

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.relay.exchange import Client, Exchange, Forward, Look, Outcome, Pass, Respond
from kafka_sidecar.proxy.relay.routes import Known, PrefixMemo, Routes
from kafka_sidecar.proxy.telemetry.metrics import Metrics

LOOKED_INTO = ApiKey.DELETE_TOPICS  # any API whose responses are not rewritten


@dataclass
class Answers(Exchange):
    """Answers here, or forwards."""

    here: bool
    requests: list[bytes] = field(default_factory=list)

    def request(self, frame: bytes) -> Steps[Outcome]:
        self.requests.append(frame)
        yield from ()
        return Respond(response(int.from_bytes(frame[8:12], "big"))) if self.here else Forward(frame)

    def response(self, frame: bytes) -> Steps[bytes]:
        raise AssertionError("no request wants a response")


def looked_into(correlation_id: int) -> bytes:
    return request(LOOKED_INTO, 3, correlation_id, b"body of a request")


def test_routes_that_are_forgotten_are_made_again_for_open_sessions() -> None:
    is_wanted = False
    exchange = Answers(here=True)
    talk = Dialogue(exchange=lambda api, version: (lambda data, at, size, client: exchange) if is_wanted else None)
    talk.client(looked_into(1))
    is_wanted = True
    assert talk.client(looked_into(2)).to_broker == looked_into(1) + looked_into(2)
    talk.routes.forget()
    assert talk.client(looked_into(3)).to_broker == looked_into(1) + looked_into(2)
    assert exchange.requests == [looked_into(3)]
    assert talk.metrics.apis[LOOKED_INTO].requests == 3


@pytest.mark.parametrize("looks", [False, True])
def test_requests_that_begin_like_a_known_one_are_not_asked_about_until_routes_are_made_again(looks: bool) -> None:
    asked: list[bytes] = []

    def begin(data: bytes, at: int, size: int, client: Client) -> Look | Pass:
        asked.append(data[at : at + size])
        head = data[at + 12 : at + 17 + 4]  # client id and four bytes more
        return Look(head, lambda: Answers(here=False)) if looks else Pass(head)

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


CONTINUED = Pass(b"head", epoch=True, tail=b"no topics")


@pytest.mark.parametrize(
    ("epoch", "after", "is_known"),
    [
        (1, b"no topics", True),
        (2**31 - 1, b"no topics", True),
        (0, b"no topics", False),  # another session begins
        (-1, b"no topics", False),  # it ends
        (1, b"one topic", False),
        (1, b"no top", False),  # not all has come
    ],
)
def test_a_continued_fetch_session_is_known_by_its_epoch_and_that_it_names_no_topics(
    epoch: int, after: bytes, is_known: bool
) -> None:
    memo, route = PrefixMemo(), Routes(Metrics(), lambda *_: None, lambda *_: None).add(ApiKey.FETCH << 16 | 12)
    known = Known(route, CONTINUED, None)
    memo.note(1, known)
    frame = b"." * 12 + b"head" + epoch.to_bytes(4, "big", signed=True) + after
    assert (memo.find(route, 1, frame, 0, len(frame)) is known) is is_known


def test_a_request_that_is_looked_into_ends_what_is_known_of_a_fetch_session() -> None:
    """It may begin another session, for which the same beginning of a request means something else."""
    asked: list[bytes] = []

    def begin(data: bytes, at: int, size: int, client: Client) -> Exchange | Pass:
        body = data[at + 17 : at + size]
        asked.append(body)
        return Answers(here=False) if body == b"begins" else Pass(data[at + 12 : at + size])

    talk = Dialogue(exchange=lambda key, version: begin if key == ApiKey.FETCH else None)
    for number, body in enumerate([b"continued", b"continued", b"begins", b"continued"]):
        talk.client(request(ApiKey.FETCH, 9, number, body))
    assert asked == [b"continued", b"begins", b"continued"]
