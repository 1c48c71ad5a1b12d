"""DescribeConfigs shows the sidecar's own configs as a broker shows its own."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.topic_configs.keeper import Change

POLICY = "record.validation.policy"
TOPIC, BROKER = 2, 4
DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG, STRING = 1, 5, 2
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3, 4])
DESCRIBE = ApiKey.DESCRIBE_CONFIGS
OF_THE_BROKER = {"name": "cleanup.policy", "value": "delete", "config_source": 5}


def described(*topics: str, kind: int = TOPIC, code: int = 0) -> dict[str, Any]:
    return {
        "results": [
            {"resource_type": kind, "resource_name": topic, "error_code": code, "configs": [OF_THE_BROKER]}
            for topic in topics
        ]
    }


def asked(topic: str = "orders", keys: list[str] | None = None, kind: int = TOPIC, **more: Any) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": topic, "configuration_keys": keys}], **more}


def shown(said: Any) -> dict[str, Any]:
    return {config.name: config for result in said.client.results for config in result.configs}


@VERSIONS
async def test_what_is_set_is_a_dynamic_config_of_the_topic(world: Any, say: Any, version: int) -> None:
    async with world.sidecar() as configs:
        await configs.alter([Change("orders", {POLICY: "headers"})])
        more = {"include_synonyms": True} | ({"include_documentation": True} if version >= 3 else {})
        said = await say(configs, DESCRIBE, version, asked(**more), described("orders"))
        assert said.same_request
        assert list(shown(said)) == ["cleanup.policy", POLICY]
        config = shown(said)[POLICY]
        assert (config.value, config.config_source, config.read_only, config.is_sensitive) == (
            "headers", DYNAMIC_TOPIC_CONFIG, False, False,
        )  # fmt: skip
        assert [(s.name, s.value, s.source) for s in config.synonyms] == [(POLICY, "headers", DYNAMIC_TOPIC_CONFIG)]
        if version >= 3:
            assert config.config_type == STRING
            assert config.documentation.startswith("The record policy to use for the topic.")


@VERSIONS
async def test_what_is_not_set_is_a_default_of_null(world: Any, say: Any, version: int) -> None:
    async with world.sidecar() as configs:
        said = await say(configs, DESCRIBE, version, asked(include_synonyms=True), described("orders"))
        config = shown(said)[POLICY]
        assert (config.value, config.config_source, config.synonyms) == (None, DEFAULT_CONFIG, ())
        if version >= 3:
            assert config.documentation is None


async def test_synonyms_are_shown_to_who_asks_for_them(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        await configs.alter([Change("orders", {POLICY: "headers"})])
        said = await say(configs, DESCRIBE, 4, asked(), described("orders"))
        assert shown(said)[POLICY].synonyms == ()


@pytest.mark.parametrize(
    ("keys", "is_shown"), [(None, True), ([], True), ([POLICY], True), (["cleanup.policy"], False)]
)
async def test_only_what_is_asked_for_is_shown(world: Any, say: Any, keys: list[str] | None, is_shown: bool) -> None:
    async with world.sidecar() as configs:
        said = await say(configs, DESCRIBE, 4, asked(keys=keys), described("orders"))
        assert (POLICY in shown(said)) is is_shown
        assert said.same_response is not is_shown


async def test_other_resources_and_errors_are_shown_as_they_came(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        said = await say(configs, DESCRIBE, 4, asked("1", kind=BROKER), described("1", kind=BROKER))
        assert said.same_response
        said = await say(configs, DESCRIBE, 4, asked(), described("orders", code=29))
        assert said.same_response


async def test_nothing_is_said_about_what_is_not_known(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        world.stores[0].trouble = "no broker answers"
        said = await say(configs, DESCRIBE, 4, asked(), described("orders"))
        assert said.same_response
