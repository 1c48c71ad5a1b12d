"""Where `inject` takes the brokers from."""

from __future__ import annotations

import pytest
import yaml
from support.commands import CliRunner

from kafka_sidecar.proxy.cli.main import app

VARIABLE = "env: [{name: KAFKA_BOOTSTRAP_SERVERS, value: 'kafka:9092'}]"
FLAGS = ["--image", "registry.example.com/kafka-sidecar:0.1.0", "--config-map", "policies"]


def manifest(file: str | None, container: str = "image: app") -> str:
    """A pod, and unless ``file`` is None the ConfigMap with it."""
    pod = f"kind: Pod\napiVersion: v1\nmetadata: {{name: app}}\nspec: {{containers: [{{name: app, {container}}}]}}\n"
    if file is None:
        return pod
    data = yaml.safe_dump({"kind": "ConfigMap", "metadata": {"name": "policies"}, "data": {"kafka-sidecar.yaml": file}})
    return f"{pod}---\n{data}"


def inject(given: str, *flags: str) -> tuple[int, dict[str, str], str]:
    """Exit code, the sidecar's variables, and stderr."""
    done = CliRunner().invoke(app, ["inject", *FLAGS, *flags], input=given)
    containers = [
        container
        for one in yaml.safe_load_all(done.stdout)
        for container in one.get("spec", {}).get("initContainers", ())
    ]
    return done.exit_code, {item["name"]: item["value"] for one in containers for item in one["env"]}, done.stderr


BROKERS = "KAFKA_SIDECAR__BOOTSTRAP_SERVERS"


@pytest.mark.parametrize("file", ["bootstrap_servers: [kafka:9092]", "bootstrap.servers: kafka:9092", "{", None])
def test_a_file_with_brokers_or_one_that_is_not_seen_is_not_overridden(file: str | None) -> None:
    code, variables, noted = inject(manifest(file, VARIABLE))
    assert (code, BROKERS in variables, noted) == (0, False, "kafka-sidecar: Pod app: injected\n")


@pytest.mark.parametrize("file", ["topics: [{name: orders, policy: json}]", "", "bootstrap_servers:"])
def test_a_file_without_brokers_gets_those_of_the_variable(file: str) -> None:
    code, variables, _ = inject(manifest(file, VARIABLE))
    assert (code, variables[BROKERS]) == (0, "kafka:9092")


def test_a_list_may_contain_the_config_map() -> None:
    items = list(yaml.safe_load_all(manifest("log: {level: info}", VARIABLE)))
    _, variables, _ = inject(
        yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": items[1:]}) + "---\n" + manifest(None, VARIABLE)
    )
    assert variables[BROKERS] == "kafka:9092"


def test_brokers_that_are_nowhere_are_an_error_that_names_the_config_map() -> None:
    code, _, noted = inject(manifest("topics: []"))
    problem = "no container has KAFKA_BOOTSTRAP_SERVERS"
    remedy = "name the brokers with --bootstrap-servers, or in ConfigMap policies"
    assert (code, noted) == (2, f"kafka-sidecar: standard input: Pod app: {problem}: {remedy}\n")


def test_the_flag_is_enough() -> None:
    code, variables, _ = inject(manifest("topics: []"), "--bootstrap-servers", "other:9092")
    assert (code, variables[BROKERS]) == (0, "other:9092")
