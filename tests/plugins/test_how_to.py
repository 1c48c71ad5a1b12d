"""The examples on the page about plug-ins run as they are written."""

from __future__ import annotations

import logging
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.commands import CliRunner
from support.pages import page

from kafka_sidecar.interceptors.registry import INTERCEPTORS
from kafka_sidecar.plugins.registry import Kind
from kafka_sidecar.policies.registry import POLICIES
from kafka_sidecar.policies.testing import check
from kafka_sidecar.proxy.cli.main import app

PAGE = page("docs/how-to/plug-ins.md")


def examples(language: str) -> list[str]:
    return [block.text for block in PAGE.blocks if block.language == language]


@pytest.mark.parametrize("first_line", ["", "from __future__ import annotations\n"])
def test_the_example_with_settings_rejects_a_misspelt_one_and_has_the_types_of_the_file(
    first_line: str, tmp_path: Path
) -> None:
    (tmp_path / "fresh.py").write_text(first_line + examples("python")[0])
    sidecar = tmp_path / "sidecar.yaml"
    sidecar.write_text("bootstrap_servers: a:1\npolicies:\n  fresh: {type: fresh:Fresh, class_path: ., maximun: 5}\n")
    validated = CliRunner().invoke(app, ["validate", str(sidecar)])
    assert validated.exit_code == 2
    assert validated.stderr.strip().removeprefix(f"kafka-sidecar: {tmp_path}/") in PAGE.text
    policy: Any = POLICIES.find("fresh:Fresh", str(tmp_path))()
    policy.configure({"maximum": "1KiB", "timeout": "1m30s", "teams": ["a"]})
    assert (policy.settings.maximum, policy.settings.timeout, policy.settings.teams) == (1024, 90.0, ("a",))
    assert check(policy, value=bytes(1024)) is None
    assert check(policy, value=bytes(1025)) == "Topic topic takes no values of more than 1024 bytes"


def test_the_example_that_logs_writes_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        exec(examples("python")[1], {"__name__": "acme_plugins.policies"})
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("acme_plugins.policies", "registry is slow: 2.5 s")
    ]


@pytest.mark.parametrize("kind", [POLICIES, INTERCEPTORS], ids=lambda kind: kind.noun)
def test_the_example_of_a_package_has_the_groups_of_entry_points(kind: Kind[Any]) -> None:
    (example,) = examples("toml")
    points = tomllib.loads(example)["project"]["entry-points"]
    assert kind.entry_points in points
    assert len(points) == 2
