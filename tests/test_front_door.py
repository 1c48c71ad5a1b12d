"""Files that a forge or Docker reads: workflows, issue forms, hooks, compose.yaml. Valid, and calling what exists."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from typer.main import get_group

from kafka_sidecar.proxy.cli.main import app
from kafka_sidecar.proxy.config.loading import load

ROOT = Path(__file__).parent.parent
FORGE = ROOT / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "custom.github-workflows-require-timeout": WORKFLOWS,
    "vendor.github-issue-config": [FORGE / "ISSUE_TEMPLATE/config.yml"],
    "vendor.github-issue-forms": [FORGE / "ISSUE_TEMPLATE/bug.yml", FORGE / "ISSUE_TEMPLATE/wish.yml"],
    "vendor.dependabot": [FORGE / "dependabot.yml"],
    "vendor.compose-spec": [ROOT / "compose.yaml"],
}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TASKS = set(re.findall(r"^([a-z][a-z0-9-]*)(?:[ :])", MAKEFILE, re.MULTILINE))


def content(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def commands(workflow: Path) -> Iterator[str]:
    """What a workflow runs, with each value of its matrix."""
    for job in content(workflow)["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        for values in product(*matrix.values()):
            for step in job["steps"]:
                text = step.get("run", "")
                for name, value in zip(matrix, values, strict=True):
                    text = text.replace(f"${{{{ matrix.{name} }}}}", value)
                if text:
                    yield text


@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_file_is_what_its_reader_expects(schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, SCHEMAS[schema])]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_workflows_run_tasks_of_the_makefile_and_nothing_else() -> None:
    ran = [command for workflow in WORKFLOWS for command in commands(workflow)]
    assert "make test" in ran
    assert "make fuzz-sidecar" in ran
    assert [command for command in ran if command.removeprefix("make ") not in TASKS] == []


def test_hooks_before_a_commit_run_tasks_of_the_makefile() -> None:
    hooks = [hook for repo in content(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == ["make format", "make check"]
    assert {hook["entry"].removeprefix("make ") for hook in hooks} <= TASKS


def test_issue_forms_ask_for_commands_that_exist() -> None:
    text = (FORGE / "ISSUE_TEMPLATE/bug.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"`kafka-sidecar ([a-z-]+)", text)) <= {
        command.name for command in get_group(app).commands.values()
    }


def test_compose_publishes_the_ports_of_its_configuration_on_loopback_alone(tmp_path: Path) -> None:
    compose = content(ROOT / "compose.yaml")
    (path := tmp_path / "sidecar.yaml").write_text(compose["configs"]["sidecar"]["content"])
    config = load(path, {}, {})
    listen, admin = (int(str(address).rpartition(":")[2]) for address in (config.listen, config.admin.listen))
    node = int(compose["services"]["kafka"]["environment"]["KAFKA_NODE_ID"])
    ports = [listen, (config.nodes.first_port or listen + 1) + node, admin]
    assert compose["services"]["sidecar"]["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports]
    assert config.nodes.advertised_host == "127.0.0.1"


def test_nightly_builds_and_checks_the_site() -> None:
    (nightly,) = (workflow for workflow in WORKFLOWS if workflow.stem == "nightly")
    assert {"make docs-check"} <= set(commands(nightly))


def test_the_recorded_demo_is_small_complete_and_asks_no_host() -> None:
    recorded = (ROOT / "docs/images/demo.svg").read_text(encoding="utf-8")
    assert len(recorded.encode()) < 200_000
    names = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(recorded).iter()}
    assert names <= {"svg", "title", "rect", "animate", "g", "set", "text"}
    assert re.findall(r"https?://[^\"]+", recorded) == ["http://www.w3.org/2000/svg"]
    shown = " ".join(ElementTree.fromstring(recorded).itertext())
    assert "records sent" in shown
    assert "INVALID_RECORD" in shown
    assert "WRONG" not in shown
