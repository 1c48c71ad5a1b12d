"""The reference of policies is complete, and its examples work."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands import CliRunner
from support.pages import ROOT, Block, page, tree

from kafka_sidecar.plugins.settings import Settings
from kafka_sidecar.policies.registry import POLICIES
from kafka_sidecar.proxy.cli.main import app
from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.features.validation.from_config import rules

REFERENCE = page("docs/reference/policies.md")
each_policy = pytest.mark.parametrize("name", POLICIES.built_in)


def settings_of(name: str) -> dict[str, Any]:
    settings = POLICIES.by_name(name).settings  # type: ignore[attr-defined]
    assert isinstance(settings, Settings)
    properties: dict[str, Any] = type(settings).model_json_schema()["properties"]
    return properties


def modules_of(name: str) -> list[Path]:
    """The policy's module, and that of the class which it extends together with others."""
    modules = (base.__module__.split(".")[1:] for base in POLICIES.by_name(name).__mro__)
    return [Path(*parts).with_suffix(".py") for parts in modules if parts[:1] == ["policies"] and len(parts) == 3]


def reasons(name: str) -> Iterator[str]:
    """Patterns of the label values of a policy's rejections: the last argument of each."""
    for node in (node for module in modules_of(name) for node in ast.walk(tree(module))):
        match node:
            case ast.Call(func=ast.Name(id="Fault" | "InvalidRecordError"), args=[*_, ast.Constant(value=str(reason))]):
                yield reason
            case ast.Call(func=ast.Name(id="Fault" | "InvalidRecordError"), args=[*_, ast.JoinedStr(values=parts)]):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else ".*" for part in parts)
            case ast.Call(func=ast.Name(id="_WrongError"), args=[_, ast.Constant(value=str(reason)), *_]):
                yield reason
            case ast.Call(func=ast.Attribute(attr="_fault"), args=[ast.Constant(value=str(reason)), *_]):
                yield reason
            case ast.Call(func=ast.Attribute(attr="_fault"), args=[ast.JoinedStr(), *_]):
                yield "null_.*"


def messages(name: str) -> Iterator[str]:
    """The messages of a policy to clients: the texts at the top of its module."""
    for node in (node for module in modules_of(name) for node in tree(module).body):
        match node:
            case ast.Assign(value=ast.Constant(value=str(text))) if text.startswith("Topic "):
                yield text


def rows(name: str, first: str) -> list[list[str]]:
    """The rows of the table under a policy's heading whose first column is headed so."""
    table = re.search(rf"^\| {first} \|.*\n\| ---.*\n((?:\|.*\n)*)", REFERENCE.section(name), re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


def test_every_built_in_policy_has_its_heading_and_no_other_is_there() -> None:
    listed = re.findall(r"^### (.+)$", REFERENCE.section("Built-in policies"), re.MULTILINE)
    assert sorted(listed) == sorted(POLICIES.built_in)


@each_policy
def test_every_setting_is_documented_with_its_default(name: str) -> None:
    written = {setting: default for setting, default, _ in rows(name, "setting")}
    expected = {}
    for setting, about in settings_of(name).items():
        default = about["default"]
        text = str(default).lower() if isinstance(default, bool) else str(default).replace("'", "")
        expected[f"`{setting}`"] = "none" if default in (None, [], {}) and default is not False else f"`{text}`"
    assert written == expected


@each_policy
def test_exactly_the_reasons_of_the_policy_are_documented(name: str) -> None:
    documented = {word for reason, _ in rows(name, "reason") for word in re.findall("`([^`]+)`", reason)}
    known = set(reasons(name))
    assert {reason for reason in documented if not any(re.fullmatch(pattern, reason) for pattern in known)} == set()
    assert {pattern for pattern in known if not any(re.fullmatch(pattern, reason) for reason in documented)} == set()


@each_policy
def test_every_message_is_documented_word_for_word(name: str) -> None:
    documented = {message for _, message in rows(name, "reason")}
    assert set(messages(name)) - documented == set()


@pytest.mark.parametrize("block", [block for block in REFERENCE.blocks if block.language == "yaml"])
def test_every_example_can_be_used(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text(block.text)
    shutil.copytree(ROOT / "examples/policies/schemas", tmp_path / "schemas")
    config = load(path, {}, {})
    if config.validation.class_path is not None:  # of another project
        with pytest.raises(ValueError, match=r"class path: /opt/acme/policies\.whl"):
            rules(config, lambda name, error: None, None)
    else:
        found = rules(config, lambda name, error: None, None)
        assert [found.of(topic.name.replace("*", "x"), bytes(16)) for topic in config.topics].count(None) == 0


def test_the_documented_example_policy_runs() -> None:
    blocks = [block.text for block in REFERENCE.blocks if block.language == "python"]
    assert len(blocks) == 2
    exec("\n".join(blocks), {"__name__": "reference"})


def test_the_documented_examples_give_the_documented_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the class path is relative to the file
    folder = ROOT / "examples" / "policies"
    config = str(folder / "sidecar.yaml")
    verdicts = CliRunner().invoke(
        app, ["policy", "test", str(folder / "orders.jsonl"), "-c", config, "--topic", "orders"]
    )
    assert [line.partition(":")[0] for line in verdicts.stdout.splitlines()] == ["1", "2", "3", "4", "5"]
    assert re.findall(r"accepted|\((\w+)\)", verdicts.stdout) == ["", "condition", "no_header", "not_json", "no_key"]
    explained = CliRunner().invoke(app, ["policy", "explain", "payments", "-c", config])
    assert "no-secrets: no_secrets:NoSecrets; reads the value" in explained.stdout
