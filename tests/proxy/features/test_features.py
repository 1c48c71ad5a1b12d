"""Which requests are looked into, and by what, as configurations are reloaded."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.client import FakeClient
from support.dialogue import Dialogue, pieces, request, response
from support.driven import Driven
from support.fake_broker import FakeBroker
from support.features import (
    FEWER,
    NAMES,
    ON_ORDERS,
    begun,
    configured,
    each_produce,
    fetching,
    kind,
    load,
    started,
)
from support.in_process import config, connected, port_of, serving
from support.interception import Opened, fetch_response
from support.policies import Stub
from support.produce_requests import (
    GOOD,
    VERSIONS,
    batch,
    produce_request,
    produce_response,
    results,
    stores,
    topic_id,
)

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.interceptors.builtin.add_header import AddHeader
from kafka_sidecar.policies.contract import TopicMetadata
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.exchanges.commits import CommitRun
from kafka_sidecar.proxy.exchanges.fetch import limit_size, read_start
from kafka_sidecar.proxy.exchanges.produce import ProduceExchange
from kafka_sidecar.proxy.exchanges.sasl import AuthenticateExchange, HandshakeExchange
from kafka_sidecar.proxy.features.authorization.checks import CheckProduceRun, CheckRun
from kafka_sidecar.proxy.features.authorization.topic_apis import CHANGING
from kafka_sidecar.proxy.features.interception.send_stage import SendRun
from kafka_sidecar.proxy.features.topic_configs.stages import AlterConfigsRun
from kafka_sidecar.proxy.features.validation.stage import ValidationRun

TOPIC = {"name": "orders", "policy": "json"}


def stages_of(exchange: Driven | None) -> list[type]:
    """The stages at work in an exchange."""
    return [type(run) for run in exchange.exchange._runs] if exchange is not None else []  # type: ignore[attr-defined]


@each_produce
def test_no_exchange_begins_for_a_produce_without_a_policy_or_interceptor(version: int) -> None:
    made = started()
    assert begun(made, ApiKey.PRODUCE, version, produce_request(version, {"free": {0: GOOD, 1: GOOD}})) is None
    for topics in ({"orders": {0: GOOD}}, {"free": {0: GOOD}, "orders": {0: GOOD}}):
        assert kind(begun(made, ApiKey.PRODUCE, version, produce_request(version, topics))) is ProduceExchange


@each_produce
def test_what_was_not_wanted_before_is_not_mistaken_for_what_is(version: int) -> None:
    made, client = started(), FakeClient()

    def wanted(*topics: str, acks: int = -1) -> bool:
        frame = produce_request(version, {name: {0: GOOD} for name in topics}, acks)
        return begun(made, ApiKey.PRODUCE, version, frame, client) is not None

    for _ in range(2):
        assert not wanted("free")
        assert wanted("orders")
        assert wanted("free", "orders")
        assert not wanted("free", acks=1)
        assert wanted("orders", acks=1)
        assert not wanted("other")


@FEWER
@given(
    st.sampled_from(VERSIONS),
    st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True), min_size=1, max_size=8),
    st.lists(st.integers(0, 5000), max_size=8),
)
def test_on_a_connection_just_the_requests_with_a_wanted_topic_are_changed_however_they_are_cut(
    version: int, requests: list[list[str]], cuts: list[int]
) -> None:
    made = started(ON_ORDERS[0])
    talk = Dialogue(exchange=made.exchange)
    frames = [produce_request(version, {name: {0: batch("a" * 9)} for name in names}) for names in requests]
    talk.client(*pieces(b"".join(frames), cuts))
    assert talk.cause is None
    (adds,) = Opened.opened[-1:]
    count = sum("orders" in names for names in requests)
    while talk.needs:  # turns of other connections
        talk.meet()
    assert len(adds.values) == count
    assert talk.to_broker.count(b"added") == count
    for names in requests:
        talk.broker(produce_response(version, {name: {0: 3} for name in names}))
    assert talk.cause is None
    assert [metadata.offset for metadata, _ in adds.acknowledged] == [3] * count


def test_a_request_without_a_policy_or_interceptor_is_the_same_chunk_and_forwarded_as_it_arrives() -> None:
    made = started()
    talk = Dialogue(exchange=made.exchange)
    frame = produce_request(9, {"free": {0: batch("x" * 5000)}})
    assert talk.session.from_client(frame) is frame
    assert talk.session.from_client(frame[:2000]) == frame[:2000]
    assert not talk.session._request_driver.is_busy


def test_no_records_are_kept_to_recognise_requests_without_a_policy_or_interceptor() -> None:
    made = started()
    talk = Dialogue(exchange=made.exchange)
    frame = produce_request(9, {"free": {0: batch("x" * 5000)}, "other": {0: batch("y" * 5000)}})
    for _ in range(2):
        assert talk.session.from_client(frame) is frame
    assert sum(len(known.head) for known in talk.session.memo._known.values()) < 200


def test_a_response_without_an_interceptor_is_the_same_chunk() -> None:
    made = started()
    talk = Dialogue(exchange=made.exchange)
    talk.client(fetching(12, "free"))
    answer = response(7, b"anything: it is not read" * 100)
    assert talk.session.from_broker(answer) is answer


def test_each_request_is_run_through_the_stages_that_its_topics_have_in_the_order_of_d8() -> None:
    policies = {"policies": {"stub": {"type": "support.policies:Stub"}}}
    rules = [{"name": name, "policy": "stub"} for name in ("orders", "payments")]
    made = started(*ON_ORDERS, topics=rules, **policies)
    for topic, stages in (("orders", [ValidationRun, SendRun]), ("payments", [ValidationRun])):
        exchange = begun(made, ApiKey.PRODUCE, 9, produce_request(9, {topic: {0: GOOD}}))
        assert exchange is not None
        assert stages_of(exchange) == stages
    assert begun(made, ApiKey.PRODUCE, 9, produce_request(9, {"free": {0: GOOD}})) is None


def test_policies_are_shown_the_topic_ids_that_metadata_responses_had() -> None:
    made = started(topics=[{"name": "orders", "policy": "stub"}], policies={"stub": {"type": "support.policies:Stub"}})
    policy = Stub.opened[-1]
    exchange = begun(made, ApiKey.PRODUCE, 9, frame := produce_request(9, {"orders": {0: GOOD}}))
    assert exchange is not None
    exchange.request(frame)
    assert policy.topics == {TopicMetadata("orders", 0, topic_id("orders"), "")}


def test_a_policy_is_opened_once_for_each_configuration() -> None:
    configured = {
        "topics": [{"name": "orders", "policy": "stub"}],
        "policies": {"stub": {"type": "support.policies:Stub"}},
    }
    before = len(Stub.opened)
    made = started(**configured)
    assert len(Stub.opened) == before + 1
    load(made, **configured)
    assert len(Stub.opened) == before + 2


def test_the_topic_that_stores_topic_configs_is_denied_to_clients_before_all_else_looks_into_a_request() -> None:
    made = started(topic_configs={"topic": "other"})
    frame = produce_request(9, {"other": {0: GOOD}})
    exchange = begun(made, ApiKey.PRODUCE, 9, frame)
    assert exchange is not None
    assert stages_of(exchange) == [CheckProduceRun, ValidationRun]
    for key in CHANGING - {ApiKey.PRODUCE}:
        found = begun(made, key, APIS[key].max_version, request(key, APIS[key].max_version, 1))
        assert issubclass(stages_of(found)[0], CheckRun)
        assert begun(started(), key, 1, request(key, 1, 1)) is None
    assert stages_of(begun(made, ApiKey.CREATE_TOPICS, 2, request(ApiKey.CREATE_TOPICS, 2, 1))) == [AlterConfigsRun]


def test_apis_without_a_stage_are_relayed() -> None:
    made = started()
    assert made.exchange(ApiKey.METADATA, 9) is None
    assert made.exchange(ApiKey.OFFSET_COMMIT, 8) is None
    assert made.exchange(ApiKey.HEARTBEAT, 1) is None
    commits = started({"type": "support.interception:Commits"})
    assert begun(commits, ApiKey.OFFSET_COMMIT, 11, request(ApiKey.OFFSET_COMMIT, 11, 1)) is None


def test_logins_are_read_also_where_no_feature_asks_who_clients_are_until_the_next_reload() -> None:
    features = started()
    del features.made["interception"]
    features.apply(config("a:1"))
    for made in (started(), features):
        for key, version, expected in (
            (ApiKey.SASL_HANDSHAKE, 1, HandshakeExchange),
            (ApiKey.SASL_AUTHENTICATE, 2, AuthenticateExchange),
        ):
            found = begun(made, key, version, request(key, version, 1))
            assert found is not None
            assert isinstance(found.exchange, expected)


def test_without_an_interceptor_of_its_kind_no_exchange_begins() -> None:
    made = started({"type": "support.interception:Listens"})
    assert begun(made, ApiKey.FETCH, 12, fetching(12, "orders")) is None
    assert begun(made, ApiKey.FETCH, 3, request(ApiKey.FETCH, 3, 1)) is None
    assert begun(made, ApiKey.OFFSET_COMMIT, 8, request(ApiKey.OFFSET_COMMIT, 8, 1)) is None
    assert begun(made, ApiKey.PRODUCE, 9, produce_request(9, {"orders": {0: GOOD}})) is not None
    made = started({"type": "support.interception:Commits"})
    assert begun(made, ApiKey.PRODUCE, 9, produce_request(9, {"orders": {0: GOOD}})) is None
    assert begun(made, ApiKey.FETCH, 12, fetching(12, "orders")) is None
    for key, version in ((ApiKey.OFFSET_COMMIT, 8), (ApiKey.TXN_OFFSET_COMMIT, 3)):
        assert stages_of(begun(made, key, version, request(key, version, 1))) == [CommitRun]


def test_a_request_that_has_begun_is_intercepted_by_those_that_were_in_force_and_they_are_closed_after_it() -> None:
    made = started(ON_ORDERS[0])
    old = Opened.opened[-1]
    frame = produce_request(9, {"orders": {0: batch("a")}})
    exchange = begun(made, ApiKey.PRODUCE, 9, frame)
    assert exchange is not None
    load(made)
    assert begun(made, ApiKey.PRODUCE, 9, frame) is None
    gc.collect()
    assert old.closed == 0
    assert b"added" in bytes(exchange.request(frame))  # type: ignore[arg-type]
    exchange.response(produce_response(9, {"orders": {0: 1}}))
    assert len(old.acknowledged) == 1
    del exchange
    gc.collect()
    assert old.closed == 1


def test_a_connection_that_stays_does_not_keep_interceptors_that_are_no_longer_in_force() -> None:
    made, client = started(), FakeClient()
    old = Opened.opened[-1]
    for frame in (
        fetching(12, "orders", epoch=0),
        fetching(12, epoch=1),
        fetching(12, "free", epoch=0),
        fetching(12, "free"),
    ):
        begun(made, ApiKey.FETCH, 12, frame, client)
    begun(made, ApiKey.PRODUCE, 9, produce_request(9, {"free": {0: GOOD}}), client)
    load(made)
    gc.collect()
    assert old.closed == 1


def test_interceptors_that_do_not_change_stay_with_all_that_they_know() -> None:
    made = started()
    assert made.interception is not None
    before = made.interception.catalog.guards
    load(made, *ON_ORDERS, {"type": "support.interception:Commits"})
    assert made.interception.catalog.guards[:2] == before
    assert made.interception.stats.guards == made.interception.catalog.guards


def test_what_others_have_hidden_is_asked_for_again_once_they_are_no_longer_in_force() -> None:
    made, client = started(), FakeClient(client_id="go", client_software=None)
    endless = fetching(10, "orders", client_id="go")
    frame = limit_size(10, endless, read_start(10, endless, 0), 50 << 20)  # Kafka's fetch.max.bytes

    def read(answer: bytes | None = None) -> bool:
        """Whether the request goes to the broker as it is."""
        exchange = begun(made, ApiKey.FETCH, 10, frame, client)
        assert exchange is not None
        unchanged = exchange.request(frame) is frame
        if answer is not None:
            exchange.response(answer)
        return unchanged

    assert read(fetch_response(10, {"orders": {0: batch("drop")}}))
    load(made, *ON_ORDERS, validation={"max_batch": "1MiB"})
    assert not read()
    load(made, {**ON_ORDERS[1], "name": "another"})
    assert read()


def test_a_configuration_that_is_wrong_leaves_the_previous_one_applied() -> None:
    made = started()
    assert made.interception is not None
    before = made.interception.catalog
    with pytest.raises(ConfigError, match="interceptors: interceptor unheard_of"):
        made.interception.load(configured({"type": "unheard_of"}))
    apply = made.interception.load(config("a:1"))
    assert made.interception.catalog is before
    apply()
    assert made.interception.catalog.guards == ()


def test_what_was_prepared_is_applied_without_opening_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made, opened = started(authorization={"rules": [{"topics": ["a"]}]}), list[str]()
    configure = AddHeader.configure

    def noted(self: AddHeader, configs: Any) -> None:
        opened.append(threading.current_thread().name)
        configure(self, configs)

    monkeypatch.setattr(AddHeader, "configure", noted)
    new = configured({"type": "add_header", "headers": {"a": "b"}}, policies={"json": {}}, topics=[TOPIC])
    thread = threading.Thread(target=made.prepare, args=[new], name="beside")
    thread.start()
    thread.join()
    assert made.validator is None
    made.apply(new)
    assert opened == ["beside"]
    assert made.validator is not None
    assert made.validator.rules.policies == ["json"]
    made.apply(new.model_copy())
    assert opened == ["beside"]  # it is the same interceptor


@pytest.mark.parametrize(
    "other",
    [
        {"interceptors": [ON_ORDERS[0]]},
        {"policies": {"stub": {"type": "support.policies:Stub"}}},
        {"validation": {"class_name": "support.policies:Stub"}, "topics": [TOPIC]},
        {"large_messages": {"topics": [{"name": "a"}], "object_store": "memory://"}},
    ],
)
def test_plug_ins_that_are_no_part_of_the_sidecar_are_opened_when_they_are_applied(other: dict[str, Any]) -> None:
    made, ours = started(authorization={"rules": [{"topics": ["a"]}]}), config("a:1", **{"interceptors": [], **other})
    made.prepare(ours)
    assert made._prepared is None
    made.prepare(configured({"type": "add_header", "headers": {"a": "b"}}))
    assert made._prepared is not None


def test_what_is_wrong_is_found_as_it_is_prepared() -> None:
    made = started()
    with pytest.raises(ConfigError, match="has no effect: set headers"):
        made.prepare(configured({"type": "add_header"}))
    assert made._prepared is None


def test_limits_are_read_again() -> None:
    made = started(interception={"message_max_bytes": "1KiB"})
    frame = produce_request(9, {"orders": {0: batch("larger")}})

    def out() -> bool:
        exchange = begun(made, ApiKey.PRODUCE, 9, frame)
        assert exchange is not None
        return exchange.request(frame) is frame

    assert out()
    load(made, *ON_ORDERS, interception={"message_max_bytes": "1MiB"})
    assert not out()
    load(made, *ON_ORDERS, validation={"max_batch": "1KiB"})
    frame = produce_request(9, {"orders": {0: batch("x" * 2000, codec=1)}})
    assert out()


def produced(broker: FakeBroker) -> bytes:
    """The last request to write something."""
    return next(one.frame for one in reversed(broker.requests) if one.key == ApiKey.PRODUCE)


async def test_interception_begins_and_ends_with_what_the_file_says_and_no_connection_is_dropped() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.PRODUCE] = stores
        frame = produce_request(9, {"orders": {0: batch("a")}})

        async def added() -> bool:
            await client.ask(frame)
            return b"added" in produced(broker)

        assert server.features.interception is None
        assert not await added()
        given: dict[str, Any] = {"interceptors": ON_ORDERS}
        server.apply(config(broker, **given))
        assert await added()
        adds = Opened.opened[-2]
        assert len(adds.acknowledged) == 1
        server.apply(config(broker))
        assert not await added()


@pytest.mark.parametrize(
    "wrong",
    [
        {"topics": [{"name": "orders", "policy": "unheard_of"}], "interceptors": []},
        {"topics": [], "interceptors": [{"type": "unheard_of"}]},
    ],
)
async def test_of_a_file_that_is_wrong_nothing_is_put_in_force_neither_policies_nor_interceptors(
    wrong: dict[str, Any],
) -> None:
    right = {
        "policies": {"stub": {"type": "support.policies:Stub"}},
        "topics": [{"name": "orders", "policy": "stub"}],
    }
    async with (
        FakeBroker() as broker,
        serving(broker, **right, interceptors=ON_ORDERS) as server,
        connected(port_of(server)) as client,
    ):
        broker.answers[ApiKey.PRODUCE] = stores
        adds = Opened.opened[-2]
        with pytest.raises(ConfigError):
            server.apply(config(broker, **{**right, **wrong}))
        gc.collect()
        assert adds.closed == 0
        frame = produce_request(9, {"orders": {0: batch("a"), 1: batch("bad")}})
        assert results(9, await client.ask(frame)) == [("orders", 0, 0, 0), ("orders", 1, 87, -1)]
        assert b"added" in produced(broker)
        assert len(adds.acknowledged) == 2


def test_rules_look_into_requests_and_a_reload_replaces_them() -> None:
    rule = {"topics": ["orders"], "operations": ["read"]}
    made = started(authorization={"rules": [rule]})
    frame = request(ApiKey.LIST_OFFSETS, 7, 1)
    assert stages_of(begun(made, ApiKey.LIST_OFFSETS, 7, frame)) == [CheckRun]
    assert made.exchange(ApiKey.HEARTBEAT, 4) is not None
    assert begun(started(), ApiKey.LIST_OFFSETS, 7, frame) is None
