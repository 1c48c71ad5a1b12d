"""A YAML file as values with line numbers; a key that is there twice is a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_sidecar.proxy.config.document import Document, read_document
from kafka_sidecar.proxy.config.mistakes import Mistake


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
