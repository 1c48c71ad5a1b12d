"""File, variables and flags: near misses are mistakes, as is a setting under two names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.config.mistakes import ConfigError


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("KAFKA_SIDECAR_LISTEN", "KAFKA_SIDECAR__LISTEN"),
        ("kafka_sidecar__listen", "KAFKA_SIDECAR__LISTEN"),
        ("KAFKA_SIDECAR_BOOTSTRAP_SERVERS", "KAFKA_SIDECAR__BOOTSTRAP_SERVERS"),
        ("KAFKA_SIDECAR_NODES_PORTS", "KAFKA_SIDECAR__NODES__PORTS"),
        ("KAFKA_SIDECAR__NODES_PORTS", "KAFKA_SIDECAR__NODES__PORTS"),
    ],
)
def test_a_variable_that_is_nearly_that_of_a_setting_is_a_mistake(variable: str, meant: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(None, {variable: "7"}, {"bootstrap_servers": "a:1"})
    assert f"environment: {variable}: is not read: did you mean {meant}?" in error.value.lines


def test_other_variables_that_begin_alike_are_ignored_as_kubernetes_sets_them_for_a_service() -> None:
    variables = {"KAFKA_SIDECAR_SERVICE_HOST": "10.0.0.1", "KAFKA_SIDECAR_PORT": "tcp://10.0.0.1:9092"}
    assert load(None, variables, {"bootstrap_servers": "a:1"}).bootstrap_servers == ["a:1"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("bootstrap.servers: b:2", ":2: bootstrap.servers: is the same setting as bootstrap_servers; remove"),
        ("interceptor.classes: a.B\ninterceptors: []", ":2: interceptor.classes: is the same setting as interceptors;"),
        (
            "validation: {class_name: a:B}\nrecord.validation.policy.class.name: c:D",
            ":3: record.validation.policy.class.name: is the same setting as validation.class_name; remove",
        ),
    ],
)
def test_a_setting_under_both_of_its_names_is_a_mistake(text: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text(f"bootstrap_servers: a:1\n{text}")
    with pytest.raises(ConfigError) as error:
        load(path, {}, {})
    assert error.value.lines[0].startswith(f"{path}{line}")


def test_numbers_and_truth_values_are_read_from_variables_but_not_from_quotes(tmp_path: Path) -> None:
    variable = {"KAFKA_SIDECAR__NODES__PORTS": "7"}
    assert load(None, variable, {"bootstrap_servers": "a:1"}).nodes.ports == 7
    path = tmp_path / "sidecar.yaml"
    path.write_text("bootstrap_servers: a:1\nnodes: {ports: '7'}")
    with pytest.raises(ConfigError, match=r"nodes\.ports: write a whole number"):
        load(path, {}, {})
