"""Setting the sidecar's own configs: what the broker sees of it, what is stored, what the client is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.client import SOMEBODY

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.relay.exchange import Answer
from kafka_sidecar.proxy.topic_configs.configs import TopicConfigs
from kafka_sidecar.proxy.topic_configs.store import Reader

POLICY = "record.validation.policy"
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
INCREMENTAL, LEGACY, CREATE = ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.CREATE_TOPICS
ORDERS = b"o" * 16

INCREMENTAL_VERSIONS = pytest.mark.parametrize("version", [0, 1])
LEGACY_VERSIONS = pytest.mark.parametrize("version", [0, 1, 2])
CREATE_VERSIONS = pytest.mark.parametrize("version", range(2, 8))


EXCHANGED = (INCREMENTAL, LEGACY, CREATE)
OWN = {"name": POLICY, "value": "headers"}
SAMPLES: dict[int, dict[str, Any]] = {
    INCREMENTAL: {"resources": [{"resource_type": TOPIC, "resource_name": "orders", "configs": [OWN]}]},
    LEGACY: {"resources": [{"resource_type": TOPIC, "resource_name": "orders", "configs": [OWN]}]},
    CREATE: {"topics": [{"name": "orders", "configs": [OWN]}]},
    ApiKey.DESCRIBE_CONFIGS: {"resources": [{"resource_type": TOPIC, "resource_name": "orders"}]},
    ApiKey.DELETE_TOPICS: {"topics": [{"name": "orders"}], "topic_names": ["orders"]},
}


class NoStore:
    """A log that is never written."""

    trouble = None

    async def start(self, reader: Reader) -> None: ...

    async def stop(self) -> None: ...

    async def write(self, key: bytes, value: bytes | None) -> None: ...


async def no_ids(names: Sequence[str]) -> Mapping[str, bytes]:
    return {}


def config(name: str, value: str | None, operation: int = SET) -> dict[str, Any]:
    return {"name": name, "config_operation": operation, "value": value}


def altered(*configs: dict[str, Any], topic: str = "orders", kind: int = TOPIC) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": topic, "configs": configs}


def agreed(*topics: str, code: int = 0, message: str | None = None) -> dict[str, Any]:
    """The broker's answer to an alteration."""
    results = [
        {"resource_type": TOPIC, "resource_name": topic, "error_code": code, "error_message": message}
        for topic in topics
    ]
    return {"responses": results}


def legacy(resource: dict[str, Any]) -> dict[str, Any]:
    configs = [{"name": config["name"], "value": config["value"]} for config in resource["configs"]]
    return {**resource, "configs": configs}


def created(*topics: str, code: int = 0, **more: Any) -> dict[str, Any]:
    return {"topics": [{"name": topic, "error_code": code, **more} for topic in topics]}


def names(resource: Any) -> list[str]:
    return [config.name for config in resource.configs]


def told(said: Any) -> list[tuple[str, int, str | None]]:
    return [(r.resource_name, r.error_code.value, r.error_message) for r in said.client.responses]


@INCREMENTAL_VERSIONS
async def test_a_policy_that_is_set_is_stored_and_the_rest_goes_to_the_broker(
    world: Any, say: Any, version: int
) -> None:
    async with world.sidecar() as configs:
        asked = {"resources": [altered(config(POLICY, "headers"), config("retention.ms", "1000"))]}
        said = await say(configs, INCREMENTAL, version, asked, agreed("orders"))
        assert [names(resource) for resource in said.broker.resources] == [["retention.ms"]]
        assert said.same_response
        assert configs.policy_of("orders") == configs.policy_of("orders", ORDERS) == "headers"
        assert configs.policy_of("orders", b"x" * 16) is None
        assert configs.policy_of("payments") is None
        assert world.changed == ["orders"]


@INCREMENTAL_VERSIONS
async def test_a_request_that_only_sets_a_policy_goes_to_the_broker_with_nothing_to_change(
    world: Any, say: Any, version: int
) -> None:
    async with world.sidecar() as configs:
        asked = {"resources": [altered(config(POLICY, "headers"))]}
        said = await say(configs, INCREMENTAL, version, asked, agreed("orders"))
        assert [(r.resource_name, names(r)) for r in said.broker.resources] == [("orders", [])]


@INCREMENTAL_VERSIONS
async def test_the_brokers_error_wins_and_nothing_is_stored(world: Any, say: Any, version: int) -> None:
    async with world.sidecar() as configs:
        asked = {"resources": [altered(config(POLICY, "headers"))]}
        said = await say(configs, INCREMENTAL, version, asked, agreed("orders", code=29, message="not you"))
        assert told(said) == [("orders", 29, "not you")]
        assert world.log.records == []


async def test_a_policy_that_is_deleted_is_null_again(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        for operation in (config(POLICY, "headers"), config(POLICY, None, DELETE)):
            await say(configs, INCREMENTAL, 1, {"resources": [altered(operation)]}, agreed("orders"))
        assert configs.policy_of("orders") is None
        assert [value is None for _, value in world.log.records] == [False, True]


async def test_what_is_only_validated_is_not_stored(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        asked = {"resources": [altered(config(POLICY, "headers"))], "validate_only": True}
        await say(configs, INCREMENTAL, 1, asked, agreed("orders"))
        refused = await say(configs, INCREMENTAL, 1, {**asked, "resources": [altered(config(POLICY, "bad"))]})
        assert [code for _, code, _ in told(refused)] == [40]
        assert world.log.records == []


@INCREMENTAL_VERSIONS
async def test_a_policy_that_cannot_be_is_refused_while_the_others_go_on_in_the_order_of_the_request(
    world: Any, say: Any, version: int
) -> None:
    world.ids["refunds"] = b"r" * 16
    async with world.sidecar() as configs:
        resources = [
            altered(config(POLICY, "headers"), topic="payments"),
            altered(config(POLICY, "bad"), config("retention.ms", "1"), topic="orders"),
            altered(config(POLICY, "size"), topic="refunds"),
        ]
        answer = agreed("refunds", "payments")
        said = await say(configs, INCREMENTAL, version, {"resources": resources}, answer)
        assert [resource.resource_name for resource in said.broker.resources] == ["payments", "refunds"]
        why = f"Invalid value for configuration {POLICY}: no policy is called 'bad'"
        assert told(said) == [("payments", 0, None), ("orders", 40, why), ("refunds", 0, None)]
        assert [configs.policy_of(topic) for topic in ("payments", "orders", "refunds")] == ["headers", None, "size"]


@INCREMENTAL_VERSIONS
async def test_a_request_of_which_nothing_is_left_is_answered_here(world: Any, say: Any, version: int) -> None:
    async with world.sidecar() as configs:
        said = await say(configs, INCREMENTAL, version, {"resources": [altered(config(POLICY, "bad"))]})
        assert said.broker is None
        assert [code for _, code, _ in told(said)] == [40]


@pytest.mark.parametrize(
    ("configs_", "code", "why"),
    [
        ([config(POLICY, "a", APPEND)], 40, f"Can't APPEND to key {POLICY} because its type is not LIST."),
        ([config(POLICY, "a", SUBTRACT)], 40, f"Can't SUBTRACT to key {POLICY} because its type is not LIST."),
        ([config(POLICY, None)], 42, f"Null value not supported for : {POLICY}"),
        ([config(POLICY, "a"), config(POLICY, "b")], 42, "Error due to duplicate config keys"),
        ([config(POLICY, "é" * 16384)], 40, f"The value of {POLICY} is longer than 32767 bytes."),
    ],
)
async def test_what_kafka_refuses_of_its_own_configs_is_refused_in_its_words(
    world: Any, say: Any, configs_: list[dict[str, Any]], code: int, why: str
) -> None:
    async with world.sidecar() as configs:
        said = await say(configs, INCREMENTAL, 1, {"resources": [altered(*configs_)]})
        assert told(said) == [("orders", code, why)]


async def test_resources_that_are_no_topics_pass_as_they_came(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        asked = {"resources": [altered(config(POLICY, "headers"), topic="1", kind=BROKER)]}
        said = await say(configs, INCREMENTAL, 1, asked, {"responses": []})
        assert said.same_request
        assert said.same_response


async def test_a_topic_that_is_asked_twice_is_the_brokers_to_refuse(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        asked = {"resources": [altered(config(POLICY, "bad")), altered(config(POLICY, "headers"))]}
        said = await say(configs, INCREMENTAL, 1, asked, agreed("orders", code=42, message="twice"))
        assert [names(resource) for resource in said.broker.resources] == [[], []]
        assert told(said) == [("orders", 42, "twice")]
        assert world.log.records == []


@LEGACY_VERSIONS
async def test_alter_configs_replaces_all(world: Any, say: Any, version: int) -> None:
    async with world.sidecar() as configs:
        asked = {"resources": [legacy(altered(config(POLICY, "headers"), config("retention.ms", "1")))]}
        said = await say(configs, LEGACY, version, asked, agreed("orders"))
        assert names(said.broker.resources[0]) == ["retention.ms"]
        assert configs.policy_of("orders") == "headers"
        said = await say(configs, LEGACY, version, {"resources": [legacy(altered())]}, agreed("orders"))
        assert said.same_request
        assert configs.policy_of("orders") is None


async def test_alter_configs_of_topics_without_own_configs_passes_as_it_came(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        asked = {"resources": [legacy(altered(config("retention.ms", "1")))]}
        said = await say(configs, LEGACY, 2, asked, agreed("orders"))
        assert said.same_request
        assert said.same_response
        assert world.log.records == []


@CREATE_VERSIONS
async def test_a_topic_is_made_with_its_policy(world: Any, say: Any, version: int) -> None:
    world.ids = {} if version >= 7 else {"orders": ORDERS}
    async with world.sidecar() as configs:
        topic = {"name": "orders", "configs": [{"name": POLICY, "value": "headers"}, {"name": "a", "value": "b"}]}
        answer = created("orders", topic_id=ORDERS, configs=[{"name": "a", "value": "b"}])
        said = await say(configs, CREATE, version, {"topics": [topic]}, answer)
        assert names(said.broker.topics[0]) == ["a"]
        assert configs.policy_of("orders", ORDERS) == "headers"
        assert [topic.error_code.value for topic in said.client.topics] == [0]
        if version >= 5:
            shown = {c.name: (c.value, c.config_source, c.read_only) for c in said.client.topics[0].configs}
            assert shown[POLICY] == ("headers", 1, False)


@CREATE_VERSIONS
async def test_a_topic_whose_policy_cannot_be_is_not_made(world: Any, say: Any, version: int) -> None:
    async with world.sidecar() as configs:
        topics = [
            {"name": "orders", "configs": [{"name": POLICY, "value": "bad"}]},
            {"name": "refunds", "configs": [{"name": POLICY, "value": None}]},
            {"name": "payments"},
        ]
        said = await say(configs, CREATE, version, {"topics": topics}, created("payments"))
        assert [topic.name for topic in said.broker.topics] == ["payments"]
        assert [(topic.name, topic.error_code.value) for topic in said.client.topics] == [
            ("orders", 40), ("refunds", 40), ("payments", 0),
        ]  # fmt: skip
        assert said.client.topics[1].error_message == f"Null value not supported for topic configs: {POLICY}"


async def test_a_topic_that_is_made_again_forgets_what_the_former_had(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        await say(configs, INCREMENTAL, 1, {"resources": [altered(config(POLICY, "headers"))]}, agreed("orders"))
        said = await say(configs, CREATE, 7, {"topics": [{"name": "orders"}]}, created("orders", topic_id=b"2" * 16))
        assert said.same_request
        assert said.same_response
        assert world.log.records[-1][1] is None
        assert configs.policy_of("orders") is None


async def test_making_topics_without_policies_passes_as_it_came(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        said = await say(configs, CREATE, 7, {"topics": [{"name": "orders"}]}, created("orders", topic_id=ORDERS))
        assert said.same_request
        assert said.same_response


async def test_a_client_that_may_not_read_configs_is_not_shown_any(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        topic = {"name": "orders", "configs": [{"name": POLICY, "value": "headers"}]}
        answer = created("orders", topic_id=ORDERS, configs=None, topic_config_error_code=29)
        said = await say(configs, CREATE, 7, {"topics": [topic]}, answer)
        assert said.client.topics[0].configs is None
        assert configs.policy_of("orders") == "headers"


async def test_what_cannot_be_stored_is_no_success(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        world.log.fault = "the disk is full"
        resources = [altered(config(POLICY, "headers")), altered(config("a", "b"), topic="payments")]
        said = await say(configs, INCREMENTAL, 1, {"resources": resources}, agreed("orders", "payments"))
        why = f"The broker has done its part, but {POLICY} could not be stored: the disk is full"
        assert told(said) == [("orders", -1, why), ("payments", 0, None)]
        assert configs.policy_of("orders") is None


async def test_a_topic_that_no_broker_knows_yet_is_asked_for_again(world: Any, say: Any) -> None:
    del world.ids["orders"]
    async with world.sidecar(write_limit_s=0.2) as configs:
        asked = {"resources": [altered(config(POLICY, "headers"))]}
        said = await say(configs, INCREMENTAL, 1, asked, agreed("orders"))
        assert [code for _, code, _ in told(said)] == [-1]
        assert world.asked > 1


async def test_nothing_is_changed_while_it_is_not_known_what_is_set(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        world.stores[0].trouble = "no broker answers"
        why = "Nothing was changed: the sidecar cannot read its topic configs: no broker answers"
        said = await say(configs, INCREMENTAL, 1, {"resources": [altered(config(POLICY, "headers"))]})
        assert told(said) == [("orders", -1, why)]
        said = await say(configs, LEGACY, 2, {"resources": [legacy(altered())]})
        assert told(said) == [("orders", -1, why)]
        said = await say(configs, CREATE, 7, {"topics": [{"name": "orders"}]}, created("orders"))
        assert said.same_request
        said = await say(configs, INCREMENTAL, 1, {"resources": [altered(config("a", "b"))]}, agreed("orders"))
        assert said.same_request


async def test_a_policy_that_fails_to_look_at_its_string_costs_one_answer(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        said = await say(configs, INCREMENTAL, 1, {"resources": [altered(config(POLICY, "broken"))]})
        why = f'{POLICY} cannot be set: the policy failed to look at it: TypeError("a bug of the policy\'s")'
        assert told(said) == [("orders", -1, why)]


@INCREMENTAL_VERSIONS
async def test_a_long_refusal_fits_its_answer(world: Any, say: Any, version: int) -> None:
    async with world.sidecar() as configs:
        asked = {"resources": [altered(config(POLICY, "bad" * 10_000))]}
        (_, code, why), *_ = told(await say(configs, INCREMENTAL, version, asked))
        assert (code, len(why)) == (40, 1000)


KEYS = [*EXCHANGED, ApiKey.DESCRIBE_CONFIGS, ApiKey.DELETE_TOPICS]


@given(st.sampled_from(KEYS), st.data())
def test_any_bytes_are_a_request_or_a_codec_error(key: int, data: st.DataObject) -> None:
    version = data.draw(st.integers(APIS[key].min_version, APIS[key].max_version))
    good = oracle.request_frame(oracle.request(key, version, **SAMPLES[key]), 1)
    frame = bytearray(good)
    for at, byte in data.draw(st.lists(st.tuples(st.integers(8, len(good) - 1), st.integers(0, 255)), max_size=4)):
        frame[at] = byte
    spoilt = bytes(frame[: data.draw(st.integers(12, len(good)))])
    begin = TopicConfigs(NoStore(), no_ids, lambda text: None).exchange(key, version)
    assert begin is not None
    exchange = begin(spoilt, 0, len(spoilt), SOMEBODY)
    assert exchange is not None
    with suppress(CodecError):
        assert isinstance(exchange.request(spoilt), bytes | Answer)


@pytest.mark.parametrize(("key", "oldest"), [(CREATE, 2), (ApiKey.DESCRIBE_CONFIGS, 1), (ApiKey.DELETE_TOPICS, 1)])
async def test_versions_that_kafka_has_dropped_are_left_to_the_broker(world: Any, key: int, oldest: int) -> None:
    async with world.sidecar() as configs:
        assert configs.exchange(key, oldest - 1) is None
        assert configs.exchange(key, oldest) is not None
        assert configs.exchange(ApiKey.PRODUCE, 9) is None
