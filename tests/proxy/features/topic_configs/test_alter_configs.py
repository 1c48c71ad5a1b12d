"""Setting the sidecar's own configs: what the broker gets, what is stored, what the client gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.client import FAKE_CLIENT
from support.topic_configs import POLICY, Cluster, begin, send

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.features.topic_configs import configs as configs_module
from kafka_sidecar.proxy.features.topic_configs.configs import TopicConfigs
from kafka_sidecar.proxy.features.topic_configs.entries import Change, StoreConfigs, invalid, own_configs
from kafka_sidecar.proxy.features.topic_configs.kafka_store import Reader
from kafka_sidecar.proxy.relay.exchange import Respond

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
INCREMENTAL, LEGACY, CREATE = ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.CREATE_TOPICS
ORDERS = b"o" * 16

INCREMENTAL_VERSIONS = pytest.mark.parametrize("version", [0, 1])
LEGACY_VERSIONS = pytest.mark.parametrize("version", [0, 1, 2])
CREATE_VERSIONS = pytest.mark.parametrize("version", range(2, 8))


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

    trouble = lost = None

    async def start(self, reader: Reader) -> None: ...

    async def stop(self) -> None: ...

    async def write(self, key: bytes, value: bytes | None) -> None: ...

    def accept(self) -> None: ...


async def no_ids(names: Sequence[str]) -> Mapping[str, bytes]:
    return {}


def config(name: str, value: str | None, operation: int = SET) -> dict[str, Any]:
    return {"name": name, "config_operation": operation, "value": value}


def resource(*configs: dict[str, Any], topic: str = "orders", kind: int = TOPIC) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": topic, "configs": configs}


def alter_response(*topics: str, code: int = 0, message: str | None = None) -> dict[str, Any]:
    """The broker's results."""
    results = [
        {"resource_type": TOPIC, "resource_name": topic, "error_code": code, "error_message": message}
        for topic in topics
    ]
    return {"responses": results}


def legacy(resource: dict[str, Any]) -> dict[str, Any]:
    configs = [{"name": config["name"], "value": config["value"]} for config in resource["configs"]]
    return {**resource, "configs": configs}


def create_response(*topics: str, code: int = 0, **more: Any) -> dict[str, Any]:
    return {"topics": [{"name": topic, "error_code": code, **more} for topic in topics]}


def names(resource: Any) -> list[str]:
    return [config.name for config in resource.configs]


def results(result: Any) -> list[tuple[str, int, str | None]]:
    return [(r.resource_name, r.error_code.value, r.error_message) for r in result.response.responses]


@INCREMENTAL_VERSIONS
async def test_a_policy_is_stored_and_the_other_configs_go_to_the_broker(cluster: Cluster, version: int) -> None:
    async with cluster.sidecar() as configs:
        request = {"resources": [resource(config(POLICY, "headers"), config("retention.ms", "1000"))]}
        result = await send(configs, INCREMENTAL, version, request, alter_response("orders"))
        assert [names(topic) for topic in result.request.resources] == [["retention.ms"]]
        assert result.same_response
        assert configs.policy_of("orders").policy == configs.policy_of("orders", ORDERS).policy == "headers"
        assert configs.policy_of("orders", b"x" * 16).policy is None
        assert configs.policy_of("payments").policy is None
        assert result.needs == [StoreConfigs((Change("orders", {POLICY: "headers"}),))]


async def test_each_stored_change_leaves_a_line_that_says_who_and_what(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster.sidecar() as configs:
        with caplog.at_level("INFO"):
            for policy in ("headers", "headers", "json"):
                request = {"resources": [resource(config(POLICY, policy))]}
                await send(configs, INCREMENTAL, 1, request, alter_response("orders"))
            await send(configs, INCREMENTAL, 1, request | {"validate_only": True}, alter_response("orders"))
        lines = [vars(one) for one in caplog.records if one.message == "topic config changed"]
        assert [(one["topic"], one["config"], one["before"], one["after"]) for one in lines] == [
            ("orders", POLICY, None, "headers"), ("orders", POLICY, "headers", "json"),
        ]  # fmt: skip
        assert {one["principal"] for one in lines} == {"User:ANONYMOUS"}
        assert configs.changes.stored == {POLICY: 2}


REFUSED: dict[str, tuple[Any, str | None, str]] = {
    "an invalid value": (resource(config(POLICY, "bad")), None, "invalid"),
    "an operation for lists": (
        resource({"name": POLICY, "config_operation": APPEND, "value": "headers"}),
        None,
        "invalid",
    ),
    "nothing can be stored": (resource(config(POLICY, "headers")), "the disk is full", "failed"),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_what_is_refused_is_counted_and_leaves_a_line_that_says_to_whom_and_why(
    cluster: Cluster, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked, cluster.log.fault, reason = REFUSED[why]
    async with cluster.sidecar() as configs:
        for _ in range(2):
            result = await send(configs, INCREMENTAL, 1, {"resources": [asked]}, alter_response("orders"))
        assert {name: number for name, number in configs.changes.refused.items() if number} == {reason: 2}
    (line,) = [vars(one) for one in caplog.records if one.message == "topic config refused"]
    ((_, code, message),) = results(result)
    assert code
    assert (line["topic"], line["principal"], line["detail"]) == ("orders", "User:ANONYMOUS", message)


async def test_what_the_broker_refuses_is_not_counted_here(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        request = {"resources": [resource(config(POLICY, "headers"))]}
        await send(configs, INCREMENTAL, 1, request, alter_response("orders", code=29, message="not you"))
        assert not any(configs.changes.refused.values())


async def test_of_very_many_refusals_some_are_written_and_all_are_counted(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster.sidecar() as configs:
        long = "\u4e2d" * 10_000
        refused = [(f"{number}{long}", invalid("no")) for number in range(1000)]
        configs.changes.refuse(FAKE_CLIENT, refused)
        assert configs.changes.refused["invalid"] == 1000
    lines = [vars(one) for one in caplog.records if one.message == "topic config refused"]
    assert 0 < len(lines) <= 20
    assert max(len(one["topic"]) for one in lines) < 250


@INCREMENTAL_VERSIONS
async def test_a_request_that_only_sets_a_policy_goes_to_the_broker_with_nothing_to_change(
    cluster: Cluster, version: int
) -> None:
    async with cluster.sidecar() as configs:
        request = {"resources": [resource(config(POLICY, "headers"))]}
        result = await send(configs, INCREMENTAL, version, request, alter_response("orders"))
        assert [(r.resource_name, names(r)) for r in result.request.resources] == [("orders", [])]


@INCREMENTAL_VERSIONS
async def test_the_brokers_error_wins_and_nothing_is_stored(cluster: Cluster, version: int) -> None:
    async with cluster.sidecar() as configs:
        request = {"resources": [resource(config(POLICY, "headers"))]}
        result = await send(
            configs, INCREMENTAL, version, request, alter_response("orders", code=29, message="not you")
        )
        assert results(result) == [("orders", 29, "not you")]
        assert cluster.log.records == []


DENIED, INVALID_CONFIG = 29, 40
ASKS: dict[int, Any] = {
    INCREMENTAL: (1, {"resources": [resource(config(POLICY, "bad"))]}, alter_response("orders", code=DENIED)),
    LEGACY: (2, {"resources": [legacy(resource(config(POLICY, "bad")))]}, alter_response("orders", code=DENIED)),
    CREATE: (7, {"topics": [{"name": "orders", "configs": [{"name": POLICY, "value": "bad"}]}]},
             create_response("orders", code=DENIED)),
}  # fmt: skip


@pytest.mark.parametrize("key", ASKS)
async def test_a_policy_is_not_validated_for_a_client_that_may_not_alter_the_topic(cluster: Cluster, key: int) -> None:
    version, request, denied = ASKS[key]
    checked: list[str] = []
    async with cluster.sidecar() as configs:
        configs.own = own_configs(checked.append)
        result = await send(configs, key, version, request, denied)
        array = result.response.topics if key == CREATE else result.response.responses
        assert [one.error_code.value for one in array] == [DENIED]
        assert (result.request, checked) == (None, [])
        await send(
            configs, key, version, request, create_response("orders") if key == CREATE else alter_response("orders")
        )
        assert checked == ["bad"]


async def test_the_broker_is_asked_about_topics_that_get_a_policy_and_no_others(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        resources = [
            resource(config(POLICY, "headers"), config("retention.ms", "1")),
            resource(config(POLICY, None, DELETE), topic="payments"),
            resource(config("retention.ms", "1"), topic="other"),
        ]
        names_ = [one["resource_name"] for one in resources]
        result = await send(configs, INCREMENTAL, 1, {"resources": resources}, alter_response(*names_))
        (question,) = result.asked
        assert [(one.resource_name, names(one)) for one in question.resources] == [("orders", ["retention.ms"])]
        assert [one.resource_name for one in result.request.resources] == names_


async def test_a_policy_that_is_deleted_is_null_again(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        for operation in (config(POLICY, "headers"), config(POLICY, None, DELETE)):
            await send(configs, INCREMENTAL, 1, {"resources": [resource(operation)]}, alter_response("orders"))
        assert configs.policy_of("orders").policy is None
        assert [value is None for _, value in cluster.log.records] == [False, True]


async def test_a_request_to_validate_only_stores_nothing(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        request = {"resources": [resource(config(POLICY, "headers"))], "validate_only": True}
        await send(configs, INCREMENTAL, 1, request, alter_response("orders"))
        rejected = await send(configs, INCREMENTAL, 1, {**request, "resources": [resource(config(POLICY, "bad"))]})
        assert [code for _, code, _ in results(rejected)] == [40]
        assert cluster.log.records == []


@INCREMENTAL_VERSIONS
async def test_an_invalid_policy_is_rejected_beside_others_in_the_order_of_the_request(
    cluster: Cluster, version: int
) -> None:
    cluster.ids["refunds"] = b"r" * 16
    async with cluster.sidecar() as configs:
        resources = [
            resource(config(POLICY, "headers"), topic="payments"),
            resource(config(POLICY, "bad"), config("retention.ms", "1"), topic="orders"),
            resource(config(POLICY, "size"), topic="refunds"),
        ]
        response = alter_response("refunds", "payments")
        result = await send(configs, INCREMENTAL, version, {"resources": resources}, response)
        assert [topic.resource_name for topic in result.request.resources] == ["payments", "refunds"]
        why = f"Invalid value for configuration {POLICY}: no policy is called 'bad'"
        assert results(result) == [("payments", 0, None), ("orders", 40, why), ("refunds", 0, None)]
        assert [configs.policy_of(topic).policy for topic in ("payments", "orders", "refunds")] == [
            "headers",
            None,
            "size",
        ]


@INCREMENTAL_VERSIONS
async def test_a_request_of_which_nothing_is_left_does_not_reach_the_broker(cluster: Cluster, version: int) -> None:
    async with cluster.sidecar() as configs:
        result = await send(configs, INCREMENTAL, version, {"resources": [resource(config(POLICY, "bad"))]})
        assert result.request is None
        assert [code for _, code, _ in results(result)] == [40]


@pytest.mark.parametrize(
    ("configs_", "code", "why"),
    [
        ([config(POLICY, "a", APPEND)], 40, f"Can't APPEND to key {POLICY} because its type is not LIST."),
        ([config(POLICY, "a", SUBTRACT)], 40, f"Can't SUBTRACT to key {POLICY} because its type is not LIST."),
        ([config(POLICY, None)], 42, f"Null value not supported for : {POLICY}"),
        ([config(POLICY, "a"), config(POLICY, "b")], 42, "Error due to duplicate config keys"),
    ],
)
async def test_errors_are_those_of_kafka_for_its_own_configs(
    cluster: Cluster, configs_: list[dict[str, Any]], code: int, why: str
) -> None:
    async with cluster.sidecar() as configs:
        result = await send(configs, INCREMENTAL, 1, {"resources": [resource(*configs_)]})
        assert results(result) == [("orders", code, why)]


async def test_resources_that_are_not_topics_are_forwarded_unchanged(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        request = {"resources": [resource(config(POLICY, "headers"), topic="1", kind=BROKER)]}
        result = await send(configs, INCREMENTAL, 1, request, {"responses": []})
        assert result.same_request
        assert result.same_response


async def test_a_topic_that_is_named_twice_is_left_to_the_broker_to_reject(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        request = {"resources": [resource(config(POLICY, "bad")), resource(config(POLICY, "headers"))]}
        result = await send(configs, INCREMENTAL, 1, request, alter_response("orders", code=42, message="twice"))
        assert [names(topic) for topic in result.request.resources] == [[], []]
        assert results(result) == [("orders", 42, "twice")]
        assert cluster.log.records == []


@LEGACY_VERSIONS
async def test_alter_configs_replaces_all(cluster: Cluster, version: int) -> None:
    async with cluster.sidecar() as configs:
        request = {"resources": [legacy(resource(config(POLICY, "headers"), config("retention.ms", "1")))]}
        result = await send(configs, LEGACY, version, request, alter_response("orders"))
        assert names(result.request.resources[0]) == ["retention.ms"]
        assert configs.policy_of("orders").policy == "headers"
        result = await send(configs, LEGACY, version, {"resources": [legacy(resource())]}, alter_response("orders"))
        assert result.same_request
        assert configs.policy_of("orders").policy is None


async def test_alter_configs_of_topics_without_own_configs_is_forwarded_unchanged(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        request = {"resources": [legacy(resource(config("retention.ms", "1")))]}
        result = await send(configs, LEGACY, 2, request, alter_response("orders"))
        assert result.same_request
        assert result.same_response
        assert cluster.log.records == []


@CREATE_VERSIONS
async def test_a_topic_is_created_with_its_policy(cluster: Cluster, version: int) -> None:
    cluster.ids = {} if version >= 7 else {"orders": ORDERS}
    async with cluster.sidecar() as configs:
        topic = {"name": "orders", "configs": [{"name": POLICY, "value": "headers"}, {"name": "a", "value": "b"}]}
        response = create_response("orders", topic_id=ORDERS, configs=[{"name": "a", "value": "b"}])
        result = await send(configs, CREATE, version, {"topics": [topic]}, response)
        assert names(result.request.topics[0]) == ["a"]
        assert configs.policy_of("orders", ORDERS).policy == "headers"
        assert [topic.error_code.value for topic in result.response.topics] == [0]
        if version >= 5:
            shown = {c.name: (c.value, c.config_source, c.read_only) for c in result.response.topics[0].configs}
            assert shown[POLICY] == ("headers", 1, False)


@CREATE_VERSIONS
async def test_a_topic_with_an_invalid_policy_is_not_created(cluster: Cluster, version: int) -> None:
    async with cluster.sidecar() as configs:
        topics = [
            {"name": "orders", "configs": [{"name": POLICY, "value": "bad"}]},
            {"name": "refunds", "configs": [{"name": POLICY, "value": None}]},
            {"name": "payments"},
        ]
        result = await send(configs, CREATE, version, {"topics": topics}, create_response("payments"))
        assert [topic.name for topic in result.request.topics] == ["payments"]
        assert [(topic.name, topic.error_code.value) for topic in result.response.topics] == [
            ("orders", 40), ("refunds", 40), ("payments", 0),
        ]  # fmt: skip
        assert result.response.topics[1].error_message == f"Null value not supported for topic configs: {POLICY}"


async def test_a_topic_that_is_created_again_has_no_policy(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        await send(
            configs, INCREMENTAL, 1, {"resources": [resource(config(POLICY, "headers"))]}, alter_response("orders")
        )
        result = await send(
            configs, CREATE, 7, {"topics": [{"name": "orders"}]}, create_response("orders", topic_id=b"2" * 16)
        )
        assert result.same_request
        assert result.same_response
        assert cluster.log.records[-1][1] is None
        assert configs.policy_of("orders").policy is None


async def test_creating_topics_without_policies_is_forwarded_unchanged(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        result = await send(
            configs, CREATE, 7, {"topics": [{"name": "orders"}]}, create_response("orders", topic_id=ORDERS)
        )
        assert result.same_request
        assert result.same_response


async def test_a_client_that_may_not_read_configs_gets_none(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        topic = {"name": "orders", "configs": [{"name": POLICY, "value": "headers"}]}
        response = create_response("orders", topic_id=ORDERS, configs=None, topic_config_error_code=29)
        result = await send(configs, CREATE, 7, {"topics": [topic]}, response)
        assert result.response.topics[0].configs is None
        assert configs.policy_of("orders").policy == "headers"


async def test_a_policy_that_cannot_be_stored_is_an_error(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        cluster.log.fault = "the disk is full"
        resources = [resource(config(POLICY, "headers")), resource(config("a", "b"), topic="payments")]
        result = await send(configs, INCREMENTAL, 1, {"resources": resources}, alter_response("orders", "payments"))
        why = f"The broker has done its part, but {POLICY} could not be stored: the disk is full"
        assert results(result) == [("orders", -1, why), ("payments", 0, None)]
        assert configs.policy_of("orders").policy is None


async def test_the_id_of_a_topic_that_no_broker_knows_yet_is_looked_up_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configs_module, "MAX_WRITE_S", 0.2)
    del cluster.ids["orders"]
    async with cluster.sidecar() as configs:
        request = {"resources": [resource(config(POLICY, "headers"))]}
        result = await send(configs, INCREMENTAL, 1, request, alter_response("orders"))
        assert [code for _, code, _ in results(result)] == [-1]
        assert cluster.lookups > 1


async def test_nothing_is_changed_while_the_topic_configs_cannot_be_read(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        cluster.stores[0].trouble = "no broker answers"
        why = "Nothing was changed: the sidecar cannot read its topic configs: no broker answers"
        result = await send(configs, INCREMENTAL, 1, {"resources": [resource(config(POLICY, "headers"))]})
        assert results(result) == [("orders", -1, why)]
        result = await send(configs, LEGACY, 2, {"resources": [legacy(resource())]})
        assert results(result) == [("orders", -1, why)]
        result = await send(configs, CREATE, 7, {"topics": [{"name": "orders"}]}, create_response("orders"))
        assert result.same_request
        result = await send(
            configs, INCREMENTAL, 1, {"resources": [resource(config("a", "b"))]}, alter_response("orders")
        )
        assert result.same_request


async def test_a_policy_that_raises_while_it_checks_its_string_is_an_error_of_that_request(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        result = await send(configs, INCREMENTAL, 1, {"resources": [resource(config(POLICY, "broken"))]})
        why = f'{POLICY} cannot be set: the policy failed to check it: TypeError("a bug of the policy\'s")'
        assert results(result) == [("orders", -1, why)]


@INCREMENTAL_VERSIONS
async def test_a_long_error_message_is_cut(cluster: Cluster, version: int) -> None:
    async with cluster.sidecar() as configs:
        request = {"resources": [resource(config(POLICY, "bad" * 10_000))]}
        (_, code, why), *_ = results(await send(configs, INCREMENTAL, version, request))
        assert (code, len(why or "")) == (40, 1000)


@given(st.sampled_from([*SAMPLES]), st.data())
def test_any_bytes_are_a_request_or_a_codec_error(key: int, data: st.DataObject) -> None:
    version = data.draw(st.integers(APIS[key].min_version, APIS[key].max_version))
    good = oracle.request_frame(oracle.request(key, version, **SAMPLES[key]), 1)
    frame = bytearray(good)
    for at, byte in data.draw(st.lists(st.tuples(st.integers(8, len(good) - 1), st.integers(0, 255)), max_size=4)):
        frame[at] = byte
    invalid = bytes(frame[: data.draw(st.integers(12, len(good)))])
    exchange = begin(TopicConfigs(NoStore(), no_ids, lambda text: None), key, version)
    with suppress(CodecError):
        assert isinstance(exchange.request(invalid), bytes | Respond)


@pytest.mark.parametrize(("key", "oldest"), [(CREATE, 2), (ApiKey.DESCRIBE_CONFIGS, 1), (ApiKey.DELETE_TOPICS, 1)])
async def test_versions_that_kafka_has_dropped_are_left_to_the_broker(cluster: Cluster, key: int, oldest: int) -> None:
    async with cluster.sidecar() as configs:
        stage = configs.stages().messages[key]
        assert stage(FAKE_CLIENT, oldest - 1) is None
        assert stage(FAKE_CLIENT, oldest) is not None
