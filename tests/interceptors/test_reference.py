"""The reference of built-in interceptors is complete, and its examples work."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.pages import ROOT, Block, page

from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.registry import INTERCEPTORS
from kafka_sidecar.plugins.settings import Settings
from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.features.interception.from_config import catalog

REFERENCE = page("docs/reference/built-in-interceptors.md")
EXAMPLES = [block for block in REFERENCE.blocks if block.language == "yaml"]
ENVIRONMENT = {"POD_NAME": "orders-7"}  # what the examples ask for
each_interceptor = pytest.mark.parametrize("name", INTERCEPTORS.built_in)


def rows(name: str, first: str) -> list[list[str]]:
    """The rows of the table under an interceptor's heading whose first column is headed so."""
    table = re.search(rf"^\| {first} \|.*\n\| ---.*\n((?:\|.*\n)*)", REFERENCE.section(name), re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()] if table else []


def written(default: Any) -> str:
    match default:
        case bool():
            return f"`{str(default).lower()}`"
        case None | [] | {}:
            return "none"
        case list() | tuple():
            return ", ".join(f"`{one}`" for one in default)
        case _:
            return f"`{default}`"


def test_every_built_in_interceptor_has_its_heading_and_no_other_is_there() -> None:
    assert sorted(REFERENCE.titles(2)) == sorted(INTERCEPTORS.built_in)


@each_interceptor
def test_every_setting_is_documented_with_its_default(name: str) -> None:
    settings = INTERCEPTORS.find(name, None).settings  # type: ignore[attr-defined]
    assert isinstance(settings, Settings)
    properties = type(settings).model_json_schema()["properties"]
    documented = {setting: default for setting, default, _ in rows(name, "setting")}
    assert documented == {f"`{setting}`": written(about["default"]) for setting, about in properties.items()}
    assert all(about["description"] for about in properties.values())


@each_interceptor
def test_every_interceptor_has_an_example(name: str) -> None:
    shown = [one["type"] for block in EXAMPLES for one in yaml.safe_load(block.text)["interceptors"]]
    assert name in shown


@pytest.mark.parametrize("block", EXAMPLES)
def test_every_example_can_be_used(block: Block, tmp_path: Path, report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    path = tmp_path / "sidecar.yaml"
    path.write_text(block.text)
    shutil.copytree(ROOT / "examples/policies/schemas", tmp_path / "schemas")
    found = catalog(load(path, {}, {}), report)
    assert len(found.guards) == len(yaml.safe_load(block.text)["interceptors"])


# Settings with which an interceptor has all its figures.
SETTINGS: dict[str, dict[str, Any]] = {
    "add_header": {"headers": {"a": "b"}},
    "mask_fields": {"fields": ["$.a"]},
    "remove_header": {"keys": ["a"]},
    "trace_context": {"otlp": "http://127.0.0.1:1/v1/traces"},
}


@each_interceptor
def test_every_metric_is_documented_with_its_labels(name: str, report: Any) -> None:
    found = InterceptorCatalog([InterceptorSettings(name, name, settings=SETTINGS.get(name, {}))], report)
    figures = {}
    for one in found.guards[0].interceptor.metrics():
        is_counter = not (one.name.endswith("_seconds") or one.name.startswith("distinct_"))
        shown = f"`{one.name}_total`" if is_counter else f"`{one.name}`"
        figures[shown] = ", ".join(f"`{label}`" for label in one.labels)
    assert {figure: labels for figure, labels, _ in rows(name, "metric")} == figures
