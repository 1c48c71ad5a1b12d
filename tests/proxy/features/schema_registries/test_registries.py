"""Schema registries of a configuration: shared, kept over reloads, closed when they are gone, counted and described."""

from __future__ import annotations

import asyncio
import gc
import pickle
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.http_registry import ORDER, FakeRegistry, failing, running

from kafka_sidecar.interceptors.contract import ProducerInterceptor
from kafka_sidecar.plugins.settings import FileSettings, Settings, read_settings
from kafka_sidecar.policies.contract import RecordValidationPolicy, TopicMetadata
from kafka_sidecar.policies.plans import ignore_failure
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.registries import registries
from kafka_sidecar.proxy.features import compose
from kafka_sidecar.proxy.features.interception import from_config as interception
from kafka_sidecar.proxy.features.schema_registries import SchemaRegistries, find_mistakes
from kafka_sidecar.proxy.features.validation import from_config as validation
from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.registry import LatestOf, Registry, RegistryError, SchemaOf, SettingsRegistry

MODULE = __name__


class OfRegistry(Settings):
    registry: SettingsRegistry
    """The name of a schema registry."""


class Asks(RecordValidationPolicy):
    settings: OfRegistry

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = read_settings(OfRegistry, configs)

    def validate(self, topic: TopicMetadata, record: Any) -> None:
        return


class Watches(ProducerInterceptor):
    settings: OfRegistry

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = read_settings(OfRegistry, configs)

    def on_send(self, record: Any) -> Any:
        return record


def config(registry: str = "main", **registries: Any) -> Config:
    return Config.model_validate(
        {
            "bootstrap_servers": "a:1",
            "schema_registries": registries or {"main": {"urls": "http://registry:8081"}},
            "policies": {"asks": {"type": f"{MODULE}:Asks", "registry": registry}},
            "interceptors": [{"type": f"{MODULE}:Watches", "registry": registry}],
            "topics": [{"name": "orders", "policy": "asks"}],
        }
    )


@pytest.fixture(autouse=True)
def _module(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import ModuleType

    module = ModuleType(MODULE)
    for kind in (Asks, Watches):
        setattr(module, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, MODULE, module)


def opened_by_policy(made: Config) -> Registry:
    applied = validation.rules(made, ignore_failure, None).of("orders", bytes(16))
    assert applied is not None
    registry = applied.plan.rules[0].policy.settings.registry  # type: ignore[attr-defined]
    assert isinstance(registry, Registry)
    return registry


def test_a_policy_and_an_interceptor_that_name_it_share_one_registry() -> None:
    made = config()
    catalog = interception.catalog(made, interception.NoReport())
    ((_, guard),) = catalog.opened
    registry = guard.interceptor.settings.registry  # type: ignore[attr-defined]
    assert registry is opened_by_policy(made)
    assert str(registry) == "main"


def test_a_name_that_is_not_there_is_a_mistake_that_lists_the_others() -> None:
    mistakes = [*validation.find_mistakes(config("other")), *interception.find_mistakes(config("other"))]
    assert [(one.location[0], one.location[-1]) for one in mistakes] == [
        ("policies", "registry"), ("interceptors", "registry"),
    ]  # fmt: skip
    for one in mistakes:
        assert one.text == "there is no schema registry 'other': add it under schema_registries: (there: main)"


def test_a_reload_keeps_a_registry_whose_settings_are_the_same_and_closes_the_others() -> None:
    feature = SchemaRegistries()
    feature.load(config())()
    first = feature.opened["main"]
    feature.load(config(main={"urls": "http://registry:8081"}, more={"urls": "http://other:8081"}))()
    assert feature.opened["main"] is first
    gone, turns = weakref.ref(first), first._turns
    del first
    feature.load(config(main={"urls": "http://moved:8081"}))()
    gc.collect()
    assert gone() is None
    assert turns._is_closed


def test_an_interceptor_is_opened_again_when_its_registry_has_changed_and_only_then() -> None:
    def catalog(made: Config, previous: Any = None) -> Any:
        return interception.catalog(made, interception.NoReport(), previous)

    before = catalog(config(main={"urls": "http://a"}, other={"urls": "http://o"}))
    same = catalog(config(main={"urls": "http://a"}, other={"urls": "http://p"}), before)
    moved = catalog(config(main={"urls": "http://b"}), before)
    ((_, first),), ((_, second),), ((_, third),) = before.opened, same.opened, moved.opened
    assert first.interceptor is second.interceptor
    assert first.interceptor is not third.interceptor


def test_settings_of_plug_ins_are_pickled_with_their_registries() -> None:
    made = config()
    settings = made.policies["asks"].settings_with(registries(made.schema_registries))
    again = pickle.loads(pickle.dumps(settings))
    assert isinstance(again, FileSettings)
    assert again == settings
    assert read_settings(OfRegistry, again).registry is read_settings(OfRegistry, settings).registry


def test_files_that_cannot_be_used_are_mistakes_with_their_keys(tmp_path: Path) -> None:
    made = config(
        main={"urls": "https://a", "ca": str(tmp_path / "none.pem")},
        more={"urls": "http://b", "username": "app", "password_file": str(tmp_path / "none")},
    )
    found = {".".join(map(str, one.location)): one.text for one in find_mistakes(made)}
    assert found.keys() == {"schema_registries.main.ca", "schema_registries.more.password_file"}
    assert found["schema_registries.main.ca"].endswith(
        "none.pem cannot be read: No such file or directory; name a readable file"
    )
    assert "cannot be read" in found["schema_registries.more.password_file"]
    assert [one for one in compose.find_mistakes(made) if one.location[0] == "schema_registries"]
    with pytest.raises(ConfigError, match="schema_registries: ca: "):
        SchemaRegistries().load(made)


@pytest.fixture(name="fake")
def _fake() -> Iterator[FakeRegistry]:
    with running() as fake:
        yield fake


def values(feature: SchemaRegistries) -> dict[str, Any]:
    return {family.name: dict(family.samples) for family in feature.families()}


def test_what_it_was_asked_is_counted_and_its_state_is_shown(fake: FakeRegistry) -> None:
    fake.add("orders-value", ORDER)
    feature = SchemaRegistries()
    feature.load(config(main={"urls": fake.url, "subjects_ttl": "10ms", "failure_ttl": "10s"}))()
    assert feature.states()["main"]["state"] == "not asked yet"
    assert values(feature)["schema_registry_reachable"] == {("main",): 1}
    registry = feature.opened["main"]

    async def scenario() -> None:
        await registry.fetch(SchemaOf(SchemaId("id", 1)))
        await registry.fetch(LatestOf("orders-value"))
        assert feature.states()["main"]["state"] == "ok"
        fake.behaviour = failing(503)
        await asyncio.sleep(0.02)
        await registry.fetch(LatestOf("orders-value"))
        registry.get(LatestOf("orders-value"))
        await registry.fetch(LatestOf("other"))
        with pytest.raises(RegistryError):
            registry.get(LatestOf("other"))

    asyncio.run(scenario())
    found = values(feature)
    assert found["schema_registry_requests"] == {("main", "ok"): 2, ("main", "unavailable"): 2}
    assert found["schema_registry_reachable"] == {("main",): 0}
    assert found["schema_registry_cached_schemas"] == {("main",): 1}
    assert found["schema_registry_cached_bytes"][("main",)] > len(ORDER)
    assert found["schema_registry_stale_answers"] == {("main",): 1}
    assert found["schema_registry_failures"] == {("main",): 1}
    assert sum(found["schema_registry_request_seconds"][("main",)].counts) == 4
    state = feature.states()["main"]
    assert state["state"] == "failing"
    assert state["failure"] == f"schema registry main: {fake.url} responds with 503"
