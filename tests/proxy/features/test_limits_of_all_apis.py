"""Limits belong to the mechanism: whatever API a feature looks into, however many elements and however long names are.

Lines of Python are counted instead of milliseconds: of those that run between two turns of the loop there are few, and
what takes longer is work for a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from support.client import FakeClient, exchange_of
from support.dialogue import Dialogue
from support.driven import Driven
from support.examples import some
from support.features import started
from support.interception import Intercepting  # noqa: F401 - its interceptors are named in a configuration
from support.lines import MAX_LINES, Lines
from support.many_elements import messages_of, with_many

from kafka_sidecar.codec.apis import APIS, ApiKey, request_header_version
from kafka_sidecar.codec.envelope import decode_response, encode_request, encode_response, join_frame
from kafka_sidecar.codec.errors import TooManyError
from kafka_sidecar.codec.headers import RequestHeader
from kafka_sidecar.codec.message import Message, encode
from kafka_sidecar.plugins.effects import Need, Steps, Turn, Work
from kafka_sidecar.proxy.features.compose import FEATURES, Features
from kafka_sidecar.proxy.relay.exchange import Forward, Respond, Send, TopicIds, TopicNames
from kafka_sidecar.proxy.relay.exchange_driver import MAX_TURN_S

AT_MOST = 1_500  # fewer than the default, for the test's time; more than are looked into without a thread
LINE_S = 1e-6
RULES = [
    *({"principals": [f"User:u{at}"], "topics": [f"team-{at}-*"], "groups": [f"team-{at}-*"]} for at in range(50)),
    {"principals": ["User:alice"], "topics": ["t*"], "groups": ["t*"], "transactional_ids": ["t*"], "cluster": True},
]  # fmt: skip
GUARDS = [
    *({"topics": [f"team-{at}-*"], "principals": [f"User:u{at}"]} for at in range(20)),
    {
        "topics": ["t*"], "naming": "[a-s]+", "partitions": {"min": 3, "max": 50}, "delete": "deny",
        "configs": {"t": {"values": ["a"]}, "required": {"required": True}}, "other_configs": "deny",
    },
]  # fmt: skip
# Their frames are not decoded; tests/codec/test_limits.py and tests/proxy/exchanges/test_limits.py have their limits.
IN_FRAMES = {ApiKey.PRODUCE, ApiKey.FETCH}

IN_NO_FRAME = {"schema_registries", "auditing", "access"}  # have no stages: they are asked by others, or watch


def made() -> Features:
    """All that looks into any API."""
    return started(
        {"type": "support.interception:Reads", "topics": ["*"]},
        {"type": "support.interception:Commits"},
        authorization={"rules": RULES},
        dead_letters={"create": {}},
        producers=[{"topics": ["t*"], "acks": "all"}],
        rate_limits=[{"name": "all", "produce_bytes": 1, "action": "reject"}],
        topics=[{"name": "t*", "policy": "json", "dead_letters": "letters", "consume": "hide"}],
        topic_configs={"topic": "other"},
        topic_guards=GUARDS,
        large_messages={"topics": [{"name": "t*", "offsets": "li"}]},
        limits={"max_partitions": AT_MOST},
    )


@pytest.fixture(scope="module")
def features() -> Features:
    return made()


def looked_into() -> list[ApiKey]:
    return [ApiKey(key) for key in made()._exchanges if ApiKey(key) not in IN_FRAMES]


each_api = pytest.mark.parametrize("key", looked_into(), ids=lambda key: key.name)
CLIENTS = ("User:alice", "User:mallory")
# Each API with one of both clients, unless all examples are taken.
each_api_and_client = pytest.mark.parametrize(
    ("key", "principal"),
    [
        pytest.param(key, principal, id=f"{key.name}-{principal}")
        for at, key in enumerate(looked_into())
        for principal in some(CLIENTS, of=2, at=at)
    ],
)


class Counted:
    """The most lines of Python that ran in one turn; work for threads is done uncounted."""

    def __init__(self) -> None:
        self._lines = Lines()

    @property
    def most(self) -> int:
        return self._lines.most

    def run(self, steps: Steps[Any]) -> Any:
        try:
            need: Need = self._turn(steps, None)
            while True:
                need = self._turn(steps, met(need))
        except StopIteration as done:
            return done.value

    def _turn(self, steps: Steps[Any], result: Any) -> Need:
        with self._lines:
            return steps.send(result)


def met(need: Need) -> Any:
    if isinstance(need, Work):
        return need.run()
    if isinstance(need, Send):  # the broker has nothing to say
        return tuple(map(nothing, need.frames))
    assert isinstance(need, Turn | TopicNames | TopicIds), need  # of ids: the cluster does not say
    return None


def nothing(frame: bytes) -> bytes:
    """The response to a request, with defaults alone."""
    key, version = ApiKey(int.from_bytes(frame[4:6], "big")), int.from_bytes(frame[6:8], "big")
    _, answered = messages_of(key)
    assert issubclass(answered, Message)
    return encode_response(answered(), version, 7)


def begin(features: Features, key: ApiKey, frame: bytes, principal: str) -> Driven | None:
    begun = features.exchange(key, APIS[key].max_version)
    assert begun is not None
    client = FakeClient(principal=principal)
    exchange = exchange_of(begun(frame[:64], 0, len(frame), client))
    return Driven(exchange) if exchange is not None else None


def requests(key: ApiKey, count: int, name_bytes: int = 0) -> Iterator[tuple[str, bytes]]:
    cls, _ = messages_of(key)
    if cls is None:
        return
    for path, message in with_many(cls, APIS[key].max_version, count, name_bytes):
        assert isinstance(message, Message)
        yield path, encode_request(message, APIS[key].max_version, 7, "app")


def header_of(key: ApiKey) -> bytes:
    """A request whose message no feature reads."""
    version = APIS[key].max_version
    header = RequestHeader(api_key=key, api_version=version, correlation_id=7, client_id="app")
    return join_frame(encode(header, request_header_version(key, version)), b"")


def test_all_features_that_look_into_a_request_are_looked_at() -> None:
    assert made().made.keys() == {row.name for row in FEATURES} - IN_NO_FRAME


@each_api
def test_a_request_with_too_many_elements_is_not_decoded(features: Features, key: ApiKey) -> None:
    for path, frame in requests(key, AT_MOST + 1):
        exchange, counted = begin(features, key, frame, "User:alice"), Counted()
        if exchange is None:
            continue
        outcome = None
        with suppress(TooManyError):
            outcome = counted.run(exchange.exchange.request(frame))
        # Where nothing of it has to be read: the broker has limits of its own.
        assert outcome is None or outcome.frame is frame, path
        assert counted.most < MAX_LINES, path


@each_api_and_client
def test_others_have_their_turns_while_as_many_elements_as_are_allowed_are_looked_into(
    features: Features, key: ApiKey, principal: str
) -> None:
    for path, frame in requests(key, AT_MOST):
        exchange, counted = begin(features, key, frame, principal), Counted()
        if exchange is None:
            continue
        outcome = counted.run(exchange.exchange.request(frame))
        assert isinstance(outcome, Forward | Respond), path
        assert counted.most < MAX_LINES, (path, counted.most)


@each_api_and_client
def test_names_that_are_very_long_cost_what_they_are_long_and_are_not_repeated_in_messages(
    features: Features, key: ApiKey, principal: str
) -> None:
    for path, frame in requests(key, 200, 32_000):
        exchange, counted = begin(features, key, frame, principal), Counted()
        if exchange is None:
            continue
        outcome = counted.run(exchange.exchange.request(frame))
        assert counted.most < MAX_LINES, path
        # The name of each element may come back, and a message that says why.
        assert len(outcome.frame) < len(frame) + 200 * 1000, path


@each_api_and_client
def test_others_have_their_turns_while_a_response_of_very_many_elements_is_looked_into(
    features: Features, key: ApiKey, principal: str
) -> None:
    version = APIS[key].max_version
    asked, answered = messages_of(key)
    for path, message in with_many(answered, version, 3 * AT_MOST):
        frame = encode_request(asked(), version, 7, "app") if asked is not None else header_of(key)
        exchange, counted = begin(features, key, frame, principal), Counted()
        assert isinstance(message, Message)
        if exchange is None or not isinstance(outcome := counted.run(exchange.exchange.request(frame)), Forward):
            continue
        if not outcome.wants_response:
            continue
        response = encode_response(message, version, 7)
        new = counted.run(exchange.exchange.response(response))
        decode_response(answered, bytes(new) if not isinstance(new, bytes) else new, version)
        assert counted.most < MAX_LINES, (path, counted.most)


@each_api_and_client
def test_others_have_their_turns_between_requests_of_one_read(features: Features, key: ApiKey, principal: str) -> None:
    """Each may be small, and sixty names may take long to look into."""
    path, frame = next(requests(key, 60, 60), ("", b""))
    talk = Dialogue(exchange=features.exchange)
    talk.session.principal = principal
    with Lines() as first:
        talk.client(frame)
    lines, count = Lines(), 1 + int(5 * MAX_TURN_S / LINE_S) // (first.count + 1)

    def clock() -> float:
        return lines.count * LINE_S

    talk.session._clock = talk.session._request_driver._clock = clock
    with lines:
        talk.client(frame * min(count, 1000))
    while talk.needs:
        need = talk.needs[0]
        result = met(need)
        if isinstance(need, Turn):
            talk.budget.renew()
        with lines:
            talk.meet(result)
    assert talk.session.closing is None
    assert lines.most * LINE_S < 2 * MAX_TURN_S + first.count * LINE_S, path
