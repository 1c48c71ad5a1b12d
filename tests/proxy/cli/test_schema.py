"""The schema and the program agree: what one accepts the other accepts, what one rejects the other rejects."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support.examples import some

from kafka_sidecar.plugins.units import size
from kafka_sidecar.proxy.cli.schema import build_schema, size_pattern
from kafka_sidecar.proxy.config.loading import load, settings
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.sections import Interceptor, Policy, Topic
from kafka_sidecar.proxy.features.compose import find_mistakes

BASE: dict[str, Any] = {"bootstrap_servers": "kafka:9092"}
# Not 7.0: it is an integer in JSON Schema. Not addresses that only the network or another setting makes wrong.
VALUES: list[Any] = [
    None, True, False, 0, 1, 7, -1, 1.5, 1023, 1024, 65536, "", "x", "7", "yes", "5s", "0s", "0.0ms", "1m30s", "1 s",
    "64KiB", "1KiB", "1023", "1024", "1023B", "0001024 B", "64 kb", "off", "enforce", "shadow", "debug", "closed",
    "open", "a:1", "a:0", "a..b:1", "a:65536", "a:1,b:2", "a:1, b:", "[::1]:19092", "http://a:1", [], ["a"], ["a:1"],
    [1], {}, {"a": 1}, [{}], [None], "acme.policies:Orders",
]  # fmt: skip
ENTRIES: dict[str, tuple[Any, Any]] = {
    "topics": (Topic, {"name": "orders"}), "policies": (Policy, {"type": "json"}),
    "interceptors": (Interceptor, {"type": "latency"}),
}  # fmt: skip


@cache
def validator() -> Draft202012Validator:
    schema = build_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def loads(config: dict[str, Any], folder: Path) -> str | None:
    """Why the program rejects a configuration; None if it accepts it."""
    path = folder / "sidecar.yaml"
    path.write_text(json.dumps(config))  # which is YAML too, and is written faster
    try:
        loaded = load(path, {}, {})
    except ConfigError as error:
        return str(error)
    # Classes of one's own, files, and whether settings have an effect, are not the schema's.
    mistakes = [one for one in find_mistakes(loaded) if len(one.location) > 2 and "tls" not in one.location]
    return str(mistakes) if mistakes else None


def disagreement(config: dict[str, Any], folder: Path) -> str | None:
    program = loads(config, folder)
    schema = next((error.message for error in validator().iter_errors(config)), None)
    return None if (program is None) == (schema is None) else f"{config}: program {program}, schema {schema}"


def with_value(location: tuple[Any, ...], value: Any) -> dict[str, Any]:
    config = copy.deepcopy(BASE)
    part: Any = config
    for key in location[:-1]:
        part = part.setdefault(key, {})
    part[location[-1]] = value
    return config


def entry_settings() -> Iterator[tuple[str, str]]:
    for section, (kind, _) in ENTRIES.items():
        yield from ((section, name) for name in kind.model_fields if name not in ("type", "policy", "class_path"))
    yield from [("policies", name) for name in ("max_depth", "allow_null", "part", "nothing")]
    yield from [("interceptors", name) for name in ("produce", "max_topics", "from", "nothing")]


def in_entry(section: str, name: str, value: Any) -> dict[str, Any]:
    entry = {**ENTRIES[section][1], name: value}
    return {**BASE, section: {"mine": entry} if section == "policies" else [entry]}


CODE = {("policies",), ("interceptors",), ("topics",), ("validation", "class_name")}  # names, of which some are unknown


@pytest.mark.bulk
def test_both_agree_on_every_value_of_every_setting(tmp_path: Path) -> None:
    locations = [one for one in settings() if one not in CODE]
    configs = [with_value(one, value) for at, one in enumerate(locations) for value in some(VALUES, of=16, at=at)]
    assert [found for config in configs if (found := disagreement(config, tmp_path))] == []


def test_both_agree_on_every_value_of_every_key_of_an_entry(tmp_path: Path) -> None:
    configs = [in_entry(*key, value) for at, key in enumerate(entry_settings()) for value in some(VALUES, of=8, at=at)]
    assert [found for config in configs if (found := disagreement(config, tmp_path))] == []


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"bootstrap.servers": "a:1"},
        {"bootstrap.servers": "a:1", **BASE},
        {**BASE, "listne": "a:1"},
        {**BASE, "nodes": {"port": 1}},
        {**BASE, "nodes": None, "topics": None, "policies": None, "interceptors": None},
        {**BASE, "nodes": 1},
        {**BASE, "policies": {"json": {"max_depth": 7}, "key": None}},
        {**BASE, "policies": {"json": {"max_dept": 7}}},
        {**BASE, "policies": {"json": {"type": "key", "required": True}}},
        {**BASE, "policies": {"json": {"type": "key", "max_depth": 7}}},
        {**BASE, "policies": {"small": {"type": "limits", "max_value_bytes": "64KiB"}}},
        {**BASE, "policies": {"small": {"type": "limits", "max_value_bytes": "64kb"}}},
        {**BASE, "topics": [{"name": "a", "record.validation.policy": "json"}]},
        {**BASE, "topics": [{"name": "a", "record.validation.policy": "json", "policy": "json"}]},
        {**BASE, "topics": [{"policy": "json"}]},
        {**BASE, "topics": [{"name": "a", "mode": False}]},
        {**BASE, "topics": {"name": "a"}},
        {**BASE, "interceptors": ["latency", {"type": "counting", "max_series": 7}]},
        {**BASE, "interceptors": [{"type": "counting", "max_series": 0}]},
        {**BASE, "interceptors": [{"type": "mask_fields", "with": {"keep_last": 4}, "fields": ["$.a"]}]},
        {**BASE, "interceptors": [{"name": "a"}]},
        {**BASE, "interceptor.classes": "latency"},
        {**BASE, "interceptor.classes": ["latency"], "interceptors": ["latency"]},
        {**BASE, "validation": {"max_batch": "1KiB"}},
    ],
    ids=str,
)
def test_both_agree_on_whole_files(config: dict[str, Any], tmp_path: Path) -> None:
    assert disagreement(config, tmp_path) is None


def test_the_names_of_kip_940_are_in_the_schema() -> None:
    config = {**BASE, "record.validation.policy.class.name": "acme:Orders", "record.validation.policy.class.path": "a"}
    assert validator().is_valid(config)
    assert not validator().is_valid({**config, "validation": {"class_name": "acme:Orders"}})


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.sampled_from(["", "B", " B", "KiB", " MiB", "GiB"]))
def test_the_pattern_of_a_size_has_its_least_value(least: int, number: int, unit: str) -> None:
    text = f"{number}{unit}"
    assert bool(re.search(size_pattern(least), text)) == (size(text) >= least)


def test_an_editor_gets_dialect_title_and_a_description_of_every_setting() -> None:
    schema = build_schema()
    assert (schema["$schema"], schema["title"]) == (
        Draft202012Validator.META_SCHEMA["$id"],
        "Configuration of kafka-sidecar",
    )
    settings_of_json = schema["$defs"]["policy json"]["properties"]
    assert all(about["description"] for about in settings_of_json.values())
