"""The chart as it is committed: its documentation, its schema and what it renders."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness.helm import CHART, EXAMPLE, ROOT, SCENARIOS, Scenario
from jsonschema import Draft7Validator
from support.chart_docs import README, SCHEMA, all_keys, insert_table, read_sections, write_schema
from support.commands import CliRunner
from support.pages import page
from support.pods import container_of, is_native, pod_of

from kafka_sidecar import __version__
from kafka_sidecar.deploy.container import NAME, Sidecar, build_container, build_volumes
from kafka_sidecar.proxy.cli.main import app
from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.config.reload import RELOADED
from kafka_sidecar.proxy.config.sources import KAFKA_NAMES

each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
VALUES = yaml.safe_load((ROOT / CHART / "values.yaml").read_text())


def test_readme_and_schema_are_those_of_the_values() -> None:
    assert insert_table(README.read_text()) == README.read_text(), "run `make chart-docs`"
    assert write_schema() == SCHEMA.read_text(), "run `make chart-docs`"


def test_every_value_is_described_once() -> None:
    described = [one.name for parameters in read_sections().values() for one in parameters]
    assert sorted(all_keys(VALUES, set(described))) == sorted(described)


def test_the_version_is_that_of_the_program() -> None:
    chart, example = (yaml.safe_load((ROOT / one / "Chart.yaml").read_text()) for one in (CHART, EXAMPLE))
    assert chart["version"] == chart["appVersion"] == example["dependencies"][0]["version"] == __version__


@each_scenario
def test_the_schema_accepts_every_value_file(scenario: Scenario) -> None:
    validator = Draft7Validator(json.loads(SCHEMA.read_text()))
    assert list(validator.iter_errors(yaml.safe_load(scenario.values.read_text()))) == []


def documented_values() -> list[Any]:
    pages = [page(f"docs/how-to/{name}.md") for name in ("kubernetes", "gateway", "sizing")]
    return [
        pytest.param(yaml.safe_load(block.text), id=f"{one.path.stem}-{number}")
        for one in pages
        for number, block in enumerate(block for block in one.blocks if block.mark == "values")
    ]


@pytest.mark.parametrize("values", documented_values())
def test_documented_values_are_valid_and_so_is_the_configuration_in_them(values: Any, tmp_path: Path) -> None:
    values = values.get(NAME, values)  # of a chart that has this one as a dependency
    assert list(Draft7Validator(json.loads(SCHEMA.read_text())).iter_errors(values)) == []
    for name, text in values.get("files", {}).items():
        (tmp_path / name).write_text(text)
    for secret in ("token", "password"):
        (tmp_path / secret).write_text("abc")
    config = yaml.safe_dump({"bootstrap_servers": "a:1"} | values["config"])
    for folder in ("/etc/tokens", "/run/secrets/kafka"):
        config = config.replace(folder, str(tmp_path))
    (tmp_path / "kafka-sidecar.yaml").write_text(config)
    variables = {one["name"]: "a:1" for one in values.get("extraEnv", [])}
    validated = CliRunner(env=variables).invoke(app, ["validate", str(tmp_path / "kafka-sidecar.yaml")])
    assert validated.exit_code == 0, validated.output


def test_the_documented_template_is_in_the_example() -> None:
    (block,) = [block for block in page("docs/how-to/kubernetes.md").blocks if block.language == "helm"]
    example = {line.strip() for line in (ROOT / EXAMPLE / "templates" / "deployment.yaml").read_text().splitlines()}
    assert [line for line in block.text.splitlines() if line.strip() not in example] == []


@pytest.mark.parametrize(
    "values", [{"replicas": 3}, {"config": {"polices": {}}}, {"mode": "Gateway"}, {"image": {"tag": 1.0}}], ids=str
)
def test_the_schema_rejects_a_mistake(values: Any) -> None:
    assert list(Draft7Validator(json.loads(SCHEMA.read_text())).iter_errors(values))


def test_a_pod_starts_again_only_for_settings_that_are_not_reloaded() -> None:
    template = (ROOT / CHART / "templates" / "_config.tpl").read_text()
    reloaded, aliases = (
        set(re.findall(r'"([^"]+)"', re.findall(rf"\${name} := list (.*) -", template)[0]))
        for name in ("reloaded", "aliases")
    )
    assert reloaded == RELOADED
    assert aliases == {name for name, setting in KAFKA_NAMES.items() if setting[0] in RELOADED}


@pytest.mark.parametrize("kind", ["native", "plain"])
def test_the_container_is_the_one_that_inject_adds(kind: str) -> None:
    scenario = next(
        one
        for one in SCENARIOS
        if one.values.stem == "sidecar" and is_native(pod_of(one.manifests())) == (kind == "native")
    )
    pod = pod_of(scenario.manifests())
    sidecar = Sidecar(
        image="registry.example.com/kafka-sidecar:0.1.0", config_map="orders-kafka-sidecar", is_plain=kind == "plain"
    )
    assert container_of(pod) == build_container(sidecar)
    assert pod["volumes"] == build_volumes(sidecar)


@each_scenario
def test_the_configuration_of_a_config_map_is_valid(scenario: Scenario, tmp_path: Path) -> None:
    config_map = next(one for one in scenario.manifests() if "kafka-sidecar.yaml" in one.get("data", {}))
    for name, text in config_map["data"].items():
        (tmp_path / name).write_text(text)
    variables = {"KAFKA_SIDECAR__BOOTSTRAP_SERVERS": "kafka-1.kafka.svc:9092"}
    assert load(tmp_path / "kafka-sidecar.yaml", variables, {})


@each_scenario
def test_the_service_has_every_port_that_the_gateway_opens(scenario: Scenario) -> None:
    manifests = scenario.manifests()
    services = [one for one in manifests if one["kind"] == "Service" and not one["metadata"]["name"].endswith("-admin")]
    assert len(services) == (0 if scenario.is_sidecar else 1)
    for service in services:
        ports = [port["port"] for port in service["spec"]["ports"]]
        (text,) = [
            one["data"]["kafka-sidecar.yaml"] for one in manifests if "kafka-sidecar.yaml" in one.get("data", {})
        ]
        nodes = yaml.safe_load(text)["nodes"]
        assert ports == [9092, *range(nodes["first_port"], nodes["first_port"] + nodes["ports"])]
        assert ports == [port["targetPort"] for port in service["spec"]["ports"]]


@each_scenario
def test_no_container_may_more_than_it_must(scenario: Scenario) -> None:
    security = container_of(pod_of(scenario.manifests()))["securityContext"]
    assert security == VALUES["containerSecurityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["readOnlyRootFilesystem"]
    assert NAME == "kafka-sidecar"


@each_scenario
def test_no_selector_of_the_gateway_matches_the_pod_of_the_test(scenario: Scenario) -> None:
    manifests = scenario.manifests()
    pods = [one["metadata"]["labels"] for one in manifests if one["kind"] == "Pod"]
    selectors = [one["spec"]["selector"] for one in manifests if one["kind"] == "Service"]
    assert not [pod for pod in pods for selector in selectors if selector.items() <= pod.items()]
