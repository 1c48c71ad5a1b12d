"""A denied topic gets TOPIC_AUTHORIZATION_FAILED in every API that would change it; the other topics go on."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from struct import pack
from typing import Any

import pytest
from support import oracle
from support.authorization import by_api, without_id
from support.client import FAKE_CLIENT
from support.driven import Driven, driven
from support.topic_configs import CORRELATION_ID, read_request, read_response

from kafka_sidecar.codec.apis import APIS, ApiKey, ErrorCode
from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kafka_sidecar.plugins.effects import Steps, Work
from kafka_sidecar.proxy.exchanges.messages import MessageRun, MessageStage, OpenMessage
from kafka_sidecar.proxy.features.authorization import checks
from kafka_sidecar.proxy.features.authorization.acls import Resource
from kafka_sidecar.proxy.features.authorization.checked_apis import Need
from kafka_sidecar.proxy.features.authorization.checks import CheckRun
from kafka_sidecar.proxy.features.authorization.topic_apis import CHANGING, TOPIC_APIS
from kafka_sidecar.proxy.features.denials import Denials
from kafka_sidecar.proxy.relay.exchange import Client, Respond, RouteError, TopicNames

DENIED, WHY = "kept", "kept is not for clients"
DENIED_ID, ORDERS_ID, LATER_ID, UNKNOWN_ID = (letter * 16 for letter in (b"k", b"o", b"l", b"n"))
AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID = 29, 100
TOPIC, BROKER = 2, 4
Codes = dict[str | bytes, int]
CHANGED = [key for key in TOPIC_APIS if key in CHANGING]
PAIRS = [(key, version) for key in CHANGED for version in range(APIS[key].min_version, APIS[key].max_version + 1)]
each_api = pytest.mark.parametrize(("key", "version"), PAIRS)


def requested(key: int, version: int, topics: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a request that names these topics."""
    if key == ApiKey.DELETE_TOPICS:
        named = [{"name": name, "topic_id": None} for name in topics]
        return {"topics": named} if version >= 6 else {"topic_names": topics}
    if key == ApiKey.DELETE_RECORDS:
        return {"topics": [{"name": t, "partitions": [{"partition_index": 3, "offset": -1}]} for t in topics]}
    if key == ApiKey.CREATE_PARTITIONS:
        return {"topics": [{"name": name, "count": 7} for name in topics]}
    return {"resources": [{"resource_type": TOPIC, "resource_name": name} for name in topics]}


def responded(key: int, topics: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a broker's response to that."""
    if key == ApiKey.DELETE_TOPICS:
        return {"responses": [{"name": name} for name in topics]}
    if key == ApiKey.DELETE_RECORDS:
        return {"topics": [{"name": t, "partitions": [{"partition_index": 3, "low_watermark": 9}]} for t in topics]}
    if key == ApiKey.CREATE_PARTITIONS:
        return {"results": [{"name": name} for name in topics]}
    return {"responses": [{"resource_type": TOPIC, "resource_name": name} for name in topics]}


def codes(key: int, version: int, frame: bytes) -> Codes:
    """Topic -> error code, as the client reads it; a message says why where the version has one."""
    response = read_response(key, version, frame)
    found: Codes = {}
    for result in getattr(response, TOPIC_APIS[key].results):
        name = getattr(result, "name", None) or getattr(result, "resource_name", None) or result.topic_id.bytes
        (code,) = {one.error_code for one in getattr(result, "partitions", (result,))}
        found[name] = int(code)
        if code == AUTHORIZATION_FAILED and hasattr(result, "error_message"):
            assert without_id(result.error_message) == WHY
    return found


@dataclass
class Rules:
    """What is denied, and what is known of topics."""

    names: dict[bytes, str] = field(default_factory=lambda: {DENIED_ID: DENIED, ORDERS_ID: "orders"})
    denied: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def exchange(self, key: int, version: int, *others: MessageStage) -> Driven:
        def explain(key: int, need: Need, principal: str | None) -> str | None:
            return WHY if need.name == DENIED and need.resource is Resource.TOPIC else None

        rules = checks.Rules(explain, self.names.get, Denials(self.denied, time.time))
        found = driven(partial(CheckRun, rules, key, TOPIC_APIS[key]), *others, version=version, client=FAKE_CLIENT)
        assert found is not None
        return found


def request(key: int, version: int, *topics: str) -> bytes:
    return frame_of(key, version, requested(key, version, topics))


def frame_of(key: int, version: int, fields: Mapping[str, Any]) -> bytes:
    return oracle.request_frame(oracle.request(key, version, **fields), CORRELATION_ID)


def response(key: int, version: int, *topics: str) -> bytes:
    return oracle.response_frame(oracle.response(key, version, **responded(key, topics)), CORRELATION_ID)


@each_api
def test_a_request_without_denied_topics_is_forwarded_unread(key: int, version: int) -> None:
    exchange, frame = Rules().exchange(key, version), request(key, version, "orders", "payments")
    assert exchange.request(frame) is frame
    assert not exchange.wants_response


@each_api
def test_a_request_for_a_denied_topic_alone_is_answered_here(key: int, version: int) -> None:
    rules = Rules()
    step = rules.exchange(key, version).request(request(key, version, DENIED))
    assert isinstance(step, Respond)
    assert codes(key, version, step.frame) == {DENIED: AUTHORIZATION_FAILED}
    assert by_api(rules.denied) == {APIS[key].name: 1}


@each_api
def test_the_other_topics_of_a_request_go_to_the_broker(key: int, version: int) -> None:
    exchange = Rules().exchange(key, version)
    step = exchange.request(request(key, version, "orders", DENIED, "payments"))
    assert isinstance(step, bytes)
    expected = request(key, version, "orders", "payments")
    assert read_request(key, version, step) == read_request(key, version, expected)
    to_client = exchange.response(response(key, version, "orders", "payments"))
    assert isinstance(to_client, bytes)
    assert codes(key, version, to_client) == {"orders": 0, "payments": 0, DENIED: AUTHORIZATION_FAILED}


@each_api
def test_a_denied_topic_that_is_named_twice_has_as_many_results_as_at_a_broker(key: int, version: int) -> None:
    step = Rules().exchange(key, version).request(request(key, version, DENIED, DENIED))
    assert isinstance(step, Respond)
    results = getattr(read_response(key, version, step.frame), TOPIC_APIS[key].results)
    assert len(results) == (1 if key in (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS) else 2)
    repeated = AUTHORIZATION_FAILED if TOPIC_APIS[key].identify is None else ErrorCode.INVALID_REQUEST
    assert codes(key, version, step.frame) == {DENIED: repeated}


@pytest.mark.parametrize("key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
def test_a_resource_of_another_type_with_the_name_is_no_topic(key: int) -> None:
    exchange = Rules().exchange(key, 1)
    frame = frame_of(key, 1, {"resources": [{"resource_type": BROKER, "resource_name": DENIED}]})
    assert exchange.request(frame) is frame


def by_id(*ids: bytes) -> bytes:
    return frame_of(ApiKey.DELETE_TOPICS, 6, {"topics": [{"name": None, "topic_id": one} for one in ids]})


def test_a_denied_topic_is_found_by_its_id() -> None:
    exchange = Rules().exchange(ApiKey.DELETE_TOPICS, 6)
    step = exchange.request(by_id(ORDERS_ID, DENIED_ID))
    assert isinstance(step, bytes)
    (kept,) = read_request(ApiKey.DELETE_TOPICS, 6, step).topics
    assert kept.topic_id == uuid.UUID(bytes=ORDERS_ID)
    answer = oracle.response(
        ApiKey.DELETE_TOPICS, 6, responses=[{"name": "orders", "topic_id": uuid.UUID(bytes=ORDERS_ID)}]
    )
    to_client = exchange.response(oracle.response_frame(answer, CORRELATION_ID))
    assert isinstance(to_client, bytes)
    assert codes(ApiKey.DELETE_TOPICS, 6, to_client) == {"orders": 0, DENIED_ID: AUTHORIZATION_FAILED}


def test_the_name_of_an_unknown_id_is_looked_up() -> None:
    rules = Rules()
    exchange = rules.exchange(ApiKey.DELETE_TOPICS, 6)
    assert exchange.request(by_id(ORDERS_ID, LATER_ID)) == TopicNames((LATER_ID,))
    rules.names[LATER_ID] = DENIED  # created again: the name has another id
    step = exchange.answer()
    assert isinstance(step, bytes)
    assert len(read_request(ApiKey.DELETE_TOPICS, 6, step).topics) == 1


def test_an_id_that_no_broker_knows_is_not_forwarded() -> None:
    rules = Rules()
    exchange = rules.exchange(ApiKey.DELETE_TOPICS, 6)
    exchange.request(by_id(UNKNOWN_ID))
    step = exchange.answer()
    assert isinstance(step, Respond)
    assert codes(ApiKey.DELETE_TOPICS, 6, step.frame) == {UNKNOWN_ID: UNKNOWN_TOPIC_ID}
    assert by_api(rules.denied) == {}


def test_a_request_that_gives_neither_name_nor_id_is_the_brokers_to_reject() -> None:
    exchange, frame = Rules().exchange(ApiKey.DELETE_TOPICS, 6), by_id(bytes(16))
    assert exchange.request(frame) is frame


@dataclass
class Next(MessageRun):
    """A stage that follows, which does as the test wants."""

    answer: Message | None = None  # None: the request goes on
    wants: bool = True
    requests: list[Any] = field(default_factory=list)
    responses: list[Any] = field(default_factory=list)

    def __call__(self, client: Client, version: int) -> Next:
        return self

    @property
    def wants_response(self) -> bool:
        return self.wants

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        self.requests.append((yield from request.read(DeleteTopicsRequest)))
        return self.answer

    def response(self, response: OpenMessage) -> Steps[None]:
        self.responses.append((yield from response.read(DeleteTopicsResponse)))

    def lost(self, why: str) -> Work | None:
        return Work(lambda: self.requests.append(why))


DELETE = (ApiKey.DELETE_TOPICS, 5)


def test_the_stages_that_follow_see_nothing_of_denied_topics() -> None:
    follows = Next()
    exchange = Rules().exchange(*DELETE, follows)
    step = exchange.request(request(*DELETE, "orders", DENIED))
    assert isinstance(step, bytes)
    assert read_request(*DELETE, step).topic_names == ("orders",)
    assert [one.topic_names for one in follows.requests] == [("orders",)]
    to_client = exchange.response(response(*DELETE, "orders"))
    assert [[one.name for one in seen.responses] for seen in follows.responses] == [["orders"]]
    assert isinstance(to_client, bytes)
    assert codes(*DELETE, to_client) == {"orders": 0, DENIED: AUTHORIZATION_FAILED}


@pytest.mark.parametrize("wants_response", [False, True])
def test_the_response_is_read_for_a_stage_that_wants_it(wants_response: bool) -> None:
    follows = Next(wants=wants_response)
    exchange = Rules().exchange(*DELETE, follows)
    exchange.request(request(*DELETE, "orders"))
    assert exchange.wants_response is wants_response
    exchange = Rules().exchange(*DELETE, follows)
    exchange.request(request(*DELETE, "orders", DENIED))
    exchange.response(response(*DELETE, "orders"))
    assert len(follows.responses) == wants_response


def test_denied_topics_are_added_to_a_response_of_a_stage_that_follows() -> None:
    follows = Next(answer=DeleteTopicsResponse(responses=(DeletableTopicResult(name="orders"),)))
    step = Rules().exchange(*DELETE, follows).request(request(*DELETE, "orders", DENIED))
    assert isinstance(step, Respond)
    assert codes(*DELETE, step.frame) == {"orders": 0, DENIED: AUTHORIZATION_FAILED}


def test_a_stage_that_ends_the_connection_does() -> None:
    class Ends(Next):
        def request(self, request: OpenMessage) -> Steps[Message | None]:
            raise RouteError("unsupported_version", "why")

    with pytest.raises(RouteError, match="why"):
        Rules().exchange(*DELETE, Ends()).request(request(*DELETE, "orders", DENIED))


def test_a_stage_is_notified_of_a_lost_response() -> None:
    follows = Next()
    Rules().exchange(*DELETE, follows).lost("gone")
    Rules().exchange(*DELETE).lost("gone")
    assert follows.requests == ["gone"]


def test_the_oldest_version_of_delete_topics_is_denied_like_the_others() -> None:
    """Byte by byte: kio does not know it."""

    def frame(*topics: bytes) -> bytes:
        names = b"".join(len(topic).to_bytes(2, "big") + topic for topic in topics)
        body = len(topics).to_bytes(4, "big") + names + (30_000).to_bytes(4, "big")
        return oracle.framed(pack(">hhih", ApiKey.DELETE_TOPICS, 0, CORRELATION_ID, 3) + b"app" + body)

    def answer(*results: tuple[bytes, int]) -> bytes:
        each = (len(topic).to_bytes(2, "big") + topic + code.to_bytes(2, "big") for topic, code in results)
        return oracle.framed(pack(">ii", CORRELATION_ID, len(results)) + b"".join(each))

    exchange = Rules().exchange(ApiKey.DELETE_TOPICS, 0)
    assert exchange.request(frame(b"orders", DENIED.encode())) == frame(b"orders")
    denied = (DENIED.encode(), AUTHORIZATION_FAILED)
    assert exchange.response(answer((b"orders", 0))) == answer((b"orders", 0), denied)
    assert Rules().exchange(ApiKey.DELETE_TOPICS, 0).request(frame(DENIED.encode())) == Respond(answer(denied))
    other = frame(b"orders")
    assert Rules().exchange(ApiKey.DELETE_TOPICS, 0).request(other) is other
