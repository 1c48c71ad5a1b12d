"""Nodes know their place in the text, whatever its style."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kafka_sidecar.deploy.yaml_tree import Mapping, Node, Scalar, Sequence, is_empty, parse

MANIFESTS = sorted((Path(__file__).parent / "manifests").iterdir())


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_the_data_are_those_of_a_yaml_loader(manifest: Path) -> None:
    text = manifest.read_bytes().decode()
    assert [document.data(document.root) for document in parse(text)] == list(yaml.safe_load_all(text))


@pytest.mark.parametrize("text", ["a", "'a'", '"a b"', "[a, b]", "{a: b}", "&x a", "!!str 1"])
def test_a_node_ends_before_the_comment_after_it(text: str) -> None:
    (document,) = parse(f"key: {text}  # comment\nother: 1\n")
    node = document.get(document.root, "key")
    assert node is not None
    assert f"key: {text}  # comment"[node.start : node.end] == text


def test_a_block_ends_with_its_last_child() -> None:
    text = "a:\n  - b: 1\n    c: 2  # c\n\n# end\nd: 3\n"
    (document,) = parse(text)
    node = document.get(document.root, "a")
    assert isinstance(node, Sequence)
    assert text[node.first_dash : node.end] == "- b: 1\n    c: 2"


def test_the_first_dash_is_found_after_anchor_tag_and_comments() -> None:
    text = "a: &x !!seq  # - no\n  # - no\n  - b\n"
    (document,) = parse(text)
    node = document.get(document.root, "a")
    assert isinstance(node, Sequence)
    assert text[node.first_dash :] == "- b\n"


def test_an_own_entry_comes_before_a_merged_one() -> None:
    (document,) = parse("a: &a {x: 1, y: 1}\nb: {<<: [*a, {z: 3}], x: 2}\n")
    assert [document.text(document.root, "b", key) for key in "xyz"] == ["2", "1", "3"]
    assert document.text(document.root, "b", "none", "below") == ""


@pytest.mark.parametrize(
    ("text", "empty"), [("", True), ("~", True), ("null", True), ("{}", True), ("''", False), ("[1]", False)]
)
def test_null_and_collections_without_children_are_empty(text: str, empty: bool) -> None:
    (document,) = parse(f"a: {text}\n")
    node = document.get(document.root, "a")
    assert isinstance(node, Node)
    assert is_empty(node) is empty


def test_documents_have_anchors_of_their_own() -> None:
    first, second = parse("a: &x 1\n---\nb: &x 2\nc: *x\n")
    assert second.text(second.root, "c") == "2"
    assert first.aliases == []
    assert isinstance(first.root, Mapping)
    assert isinstance(second.get(second.root, "c"), Scalar)
