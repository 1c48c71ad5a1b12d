"""File, variables and flags: near misses are mistakes, as is a setting under two names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.config.mistakes import ConfigError, Mistake
from kafka_sidecar.proxy.config.sources import Document, read_document


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


def read(folder: Path, text: str) -> Document:
    path = folder / "sidecar.yaml"
    path.write_text(text)
    return read_document(path)


def test_every_key_and_every_entry_has_its_line(tmp_path: Path) -> None:
    document = read(tmp_path, "a: 1\n\nb:\n  - c: 2\n    d: {e: 3}\n  - f\n")
    assert document.values == {"a": 1, "b": [{"c": 2, "d": {"e": 3}}, "f"]}
    assert document.lines == {
        ("a",): 1,
        ("b",): 3,
        ("b", 0): 4,
        ("b", 0, "c"): 4,
        ("b", 0, "d"): 5,
        ("b", 0, "d", "e"): 5,
        ("b", 1): 6,
    }


@pytest.mark.parametrize(
    ("text", "location", "line", "first"),
    [
        ("a: 1\nb: 2\na: 1", ("a",), 3, 1),
        ("a: 1\n'a': 2", ("a",), 2, 1),
        ("a:\n  b: 1\n  c: 2\n  b: 3", ("a", "b"), 4, 2),
        ("a:\n- {b: 1, b: 2}", ("a", 0, "b"), 2, 2),
    ],
)
def test_a_key_that_is_there_twice_is_a_mistake(
    text: str, location: tuple[int | str, ...], line: int, first: int, tmp_path: Path
) -> None:
    document = read(tmp_path, text)
    assert document.mistakes == [Mistake(location, f"is given twice, first in line {first}: remove one of them")]
    assert document.lines[location] == line


@pytest.mark.parametrize("text", ["a: &a {x: 1}\nb: {<<: *a, y: 2}", "a: [{x: 1}, {x: 1}]", "a: &a {x: 1}\nb: *a", ""])
def test_what_is_there_once_is_none(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text).mistakes == []


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}"])
def test_what_contains_itself_is_read(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text).lines["a",] == 1
