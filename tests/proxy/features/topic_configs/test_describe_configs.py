"""DescribeConfigs: the sidecar's own configs are described as a broker describes its own."""

from __future__ import annotations

from typing import Any

import pytest
from support.topic_configs import POLICY, Cluster, Exchanged, send

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.features.topic_configs.entries import Change

TOPIC, BROKER = 2, 4
DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG, STRING = 1, 5, 2
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3, 4])
DESCRIBE = ApiKey.DESCRIBE_CONFIGS
BROKER_CONFIG = {"name": "cleanup.policy", "value": "delete", "config_source": 5}


def describe_response(*topics: str, kind: int = TOPIC, code: int = 0) -> dict[str, Any]:
    return {
        "results": [
            {"resource_type": kind, "resource_name": topic, "error_code": code, "configs": [BROKER_CONFIG]}
            for topic in topics
        ]
    }


def describe_request(
    topic: str = "orders", keys: list[str] | None = None, kind: int = TOPIC, **more: Any
) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": topic, "configuration_keys": keys}], **more}


def configs_of(result: Exchanged) -> dict[str, Any]:
    return {config.name: config for result in result.response.results for config in result.configs}


@VERSIONS
async def test_a_value_that_is_set_is_a_dynamic_config_of_the_topic(cluster: Cluster, version: int) -> None:
    async with cluster.sidecar() as configs:
        await configs.store([Change("orders", {POLICY: "headers"})])
        more: dict[str, Any] = {"include_synonyms": True} | ({"include_documentation": True} if version >= 3 else {})
        result = await send(configs, DESCRIBE, version, describe_request(**more), describe_response("orders"))
        assert result.same_request
        assert list(configs_of(result)) == ["cleanup.policy", POLICY]
        config = configs_of(result)[POLICY]
        assert (config.value, config.config_source, config.read_only, config.is_sensitive) == (
            "headers", DYNAMIC_TOPIC_CONFIG, False, False,
        )  # fmt: skip
        assert [(s.name, s.value, s.source) for s in config.synonyms] == [(POLICY, "headers", DYNAMIC_TOPIC_CONFIG)]
        if version >= 3:
            assert config.config_type == STRING
            assert config.documentation.startswith("The record policy to use for the topic.")


@VERSIONS
async def test_a_config_that_is_not_set_is_a_default_of_null(cluster: Cluster, version: int) -> None:
    async with cluster.sidecar() as configs:
        result = await send(
            configs, DESCRIBE, version, describe_request(include_synonyms=True), describe_response("orders")
        )
        config = configs_of(result)[POLICY]
        assert (config.value, config.config_source, config.synonyms) == (None, DEFAULT_CONFIG, ())
        if version >= 3:
            assert config.documentation is None


async def test_synonyms_are_only_described_where_the_request_includes_them(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        await configs.store([Change("orders", {POLICY: "headers"})])
        result = await send(configs, DESCRIBE, 4, describe_request(), describe_response("orders"))
        assert configs_of(result)[POLICY].synonyms == ()


@pytest.mark.parametrize(
    ("keys", "is_described"), [(None, True), ([], True), ([POLICY], True), (["cleanup.policy"], False)]
)
async def test_only_configs_that_the_request_names_are_described(
    cluster: Cluster, keys: list[str] | None, is_described: bool
) -> None:
    async with cluster.sidecar() as configs:
        result = await send(configs, DESCRIBE, 4, describe_request(keys=keys), describe_response("orders"))
        assert (POLICY in configs_of(result)) is is_described
        assert result.same_response is not is_described


async def test_other_resources_and_errors_are_returned_unchanged(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        result = await send(
            configs, DESCRIBE, 4, describe_request("1", kind=BROKER), describe_response("1", kind=BROKER)
        )
        assert result.same_response
        result = await send(configs, DESCRIBE, 4, describe_request(), describe_response("orders", code=29))
        assert result.same_response


async def test_nothing_is_described_while_the_topic_configs_cannot_be_read(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        cluster.stores[0].trouble = "no broker answers"
        result = await send(configs, DESCRIBE, 4, describe_request(), describe_response("orders"))
        assert result.same_response
