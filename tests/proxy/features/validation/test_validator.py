"""Which Produce requests are validated, and by which rules."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from support.client import FAKE_CLIENT, exchange_of
from support.driven import Driven
from support.fake_broker import FakeBroker
from support.in_process import config, connected, port_of, serving, until
from support.policies import Stub
from support.produce_requests import FIRST_WITH_IDS, GOOD, VERSIONS, batch, produce_request, results, stores, topic_id

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.policies.contract import TopicPolicy
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.exchanges.produce import ProduceExchanges
from kafka_sidecar.proxy.features.validation import validator as validator_module
from kafka_sidecar.proxy.features.validation.stage import TopicConfigsKnown
from kafka_sidecar.proxy.features.validation.validator import Validator
from kafka_sidecar.proxy.relay.exchange import Respond
from kafka_sidecar.proxy.relay.exchange_driver import LoopBudget
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.runtime.threads import Threads

each_version = pytest.mark.parametrize("version", VERSIONS)
GUARDED: dict[str, Any] = {
    "policies": {"stub": {"type": "support.policies:Stub"}},
    "topics": [{"name": "orders", "policy": "stub"}, {"name": "odd", "policy": "stub"}],
}


NAMES = {topic_id(name): name for name in ("orders", "free")}


def started(kept: Any = None, **settings: Any) -> Validator:
    return Validator(config("a:1", **(settings or GUARDED)), kept)


def begun(validator: Validator, version: int, frame: bytes, end: int | None = None) -> Driven | None:
    """What looks into a request of which frame[:end] has arrived."""
    exchanges = ProduceExchanges(validator.stages().produce, NAMES.get)
    exchange = exchange_of(exchanges.begin(version, frame[:end], 0, len(frame), FAKE_CLIENT))
    return None if exchange is None else Driven(exchange)


@each_version
def test_no_exchange_begins_for_a_request_of_one_topic_without_a_policy(version: int) -> None:
    validator = started()
    assert begun(validator, version, produce_request(version, {"free": {0: GOOD, 1: GOOD}})) is None
    assert begun(validator, version, produce_request(version, {"orders": {0: GOOD}})) is not None
    assert begun(validator, version, produce_request(version, {"free": {0: GOOD}, "orders": {0: GOOD}})) is not None


@each_version
def test_an_exchange_begins_if_the_topics_are_not_known_yet(version: int) -> None:
    validator, frame = started(), produce_request(version, {"free": {0: GOOD}})
    here = produce_request(version, {}).index(b"tx") + 8  # what a session waits for: up to the acks
    taken = [at for at in range(here, len(frame)) if begun(validator, version, frame, at) is not None]
    assert taken == list(range(here, here + len(taken)))  # once the topic has arrived, it is known
    assert len(taken) < 40


def test_an_exchange_begins_for_an_unknown_id() -> None:
    assert begun(started(), FIRST_WITH_IDS, produce_request(FIRST_WITH_IDS, {"who": {0: GOOD}})) is not None


class Kept:
    """What is set on topics, known once it is said to be."""

    def __init__(self) -> None:
        self.ready = False
        self.texts: dict[str, str] = {}
        self.ids: list[bytes | None] = []
        self.trouble: str | None = None

    async def wait_ready(self) -> None:
        if self.trouble is not None:
            await asyncio.Event().wait()
        self.ready = True

    def policy_of(self, topic: str, topic_id: bytes | None = None) -> TopicPolicy:
        self.ids.append(topic_id)
        return TopicPolicy(self.texts.get(topic))


async def test_nothing_passes_before_the_configs_of_topics_are_known() -> None:
    kept = Kept()
    kept.texts["free"] = "stub"
    validator = started(kept, **GUARDED)
    exchange = begun(validator, 9, frame := produce_request(9, {"free": {0: batch("bad")}}))
    assert exchange is not None
    assert exchange.request(frame) == TopicConfigsKnown()
    assert isinstance(exchange.answer(await meet(validator)), Respond)
    assert begun(validator, 9, produce_request(9, {"elsewhere": {0: GOOD}})) is None
    assert set(kept.ids) == {None}
    begun(validator, 13, produce_request(13, {"free": {0: GOOD}}))
    assert kept.ids[-1] == topic_id("free")


async def test_configs_that_stay_unknown_reject_everything_with_a_retriable_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validator_module, "MAX_CONFIGS_WAIT_S", 0.01)
    kept = Kept()
    kept.trouble = "the sidecar cannot read its topic configs: no leader"
    frame = produce_request(9, {"free": {0: GOOD, 1: GOOD}, "orders": {0: GOOD}})
    validator = started(kept)
    exchange = begun(validator, 9, frame)
    assert exchange is not None
    assert exchange.request(frame) == TopicConfigsKnown()
    step = exchange.answer(await meet(validator))
    assert isinstance(step, Respond)
    code = ErrorCode.REQUEST_TIMED_OUT
    assert results(9, step.frame) == [("free", 0, code, -1), ("free", 1, code, -1), ("orders", 0, code, -1)]
    assert kept.trouble.encode() in step.frame
    kept.trouble = None
    exchange = begun(validator, 9, frame)
    assert exchange is not None
    assert exchange.request(frame) == TopicConfigsKnown()
    assert exchange.answer(await meet(validator)) is frame


async def meet(validator: Validator) -> object:
    """What a running sidecar does."""
    performer = Performer(LoopBudget(), Threads(1))
    validator.register(performer)
    return await performer.perform(TopicConfigsKnown())


def test_a_string_on_a_topic_that_no_policy_understands_is_looked_into() -> None:
    kept = Kept()
    kept.ready, kept.texts["free"] = True, "nothing"
    validator = started(kept, **GUARDED)
    assert begun(validator, 9, produce_request(9, {"free": {0: GOOD}})) is not None
    with pytest.raises(ValueError, match="unknown policy 'nothing'"):
        validator.check("nothing")
    validator.check("stub:x")


def test_rules_that_are_wrong_are_refused_and_the_old_ones_stay() -> None:
    validator = started()
    before = validator.rules
    with pytest.raises(ConfigError, match="topics: a: unknown policy 'nothing'"):
        validator.apply(config("a:1", topics=[{"name": "a", "policy": "nothing"}]))
    assert validator.rules is before


def test_a_request_that_has_begun_is_validated_by_the_rules_at_its_beginning() -> None:
    validator = started()
    old = Stub.opened[-1]
    frame = produce_request(9, {"orders": {0: batch("bad")}})
    exchange = begun(validator, 9, frame)
    assert exchange is not None
    validator.apply(config("a:1", policies={"stub": {"type": "support.policies:Stub", "refused": "worse"}}, topics=[]))
    assert begun(validator, 9, frame) is None
    gc.collect()
    assert old.closed == 0
    assert isinstance(exchange.request(frame), Respond)
    del exchange
    gc.collect()
    assert old.closed == 1


def test_the_limit_of_a_batch_is_read_again() -> None:
    validator = started()
    frame = produce_request(9, {"orders": {0: batch("x" * 5000, codec=1)}})
    exchange = begun(validator, 9, frame)
    assert exchange is not None
    assert exchange.request(frame) is frame
    validator.apply(config("a:1", validation={"max_batch": "1KiB"}, **GUARDED))
    exchange = begun(validator, 9, frame)
    assert exchange is not None
    assert isinstance(exchange.request(frame), Respond)


async def test_a_large_request_for_a_topic_without_a_policy_passes_as_it_comes() -> None:
    async with FakeBroker() as broker, serving(broker, **GUARDED) as server, connected(port_of(server)) as client:
        large = produce_request(9, {"free": {0: batch("x" * (1 << 20))}})
        client.send(large[: 1 << 19])
        await until(lambda: server.connections and next(iter(server.connections)).bytes_from_client == 1 << 19)
        (connection,) = server.connections
        assert connection.session._request_driver.is_busy is False
        broker.answers[ApiKey.PRODUCE] = stores
        client.send(large[1 << 19 :])
        assert results(9, await client.frame()) == [("free", 0, 0, 0)]


async def test_validation_begins_when_a_reload_brings_the_first_policy_and_ends_with_the_last() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.PRODUCE] = stores
        bad = produce_request(9, {"orders": {0: batch("bad")}})
        assert server.features.validator is None
        assert results(9, await client.ask(bad)) == [("orders", 0, 0, 0)]
        server.apply(config(broker, **GUARDED))
        assert results(9, await client.ask(bad)) == [("orders", 0, 87, -1)]
        validator = server.features.validator
        assert validator is not None
        server.apply(config(broker))
        assert results(9, await client.ask(bad)) == [("orders", 0, 0, 1)]
        assert validator.stats.rejections.total() == 1
