"""Kubernetes manifests, read and written again with their comments; and the pods in them.

A document that is not changed keeps its bytes. One that is changed keeps its comments, order, anchors and scalars as
far as ruamel.yaml keeps them (decision 18); JSON stays JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any

import yaml as pyyaml
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString

Mapping = dict[str, Any]  # ruamel.yaml's are dicts and lists too
# (API group, kind) -> where the pod's metadata and spec are. All other kinds are left unchanged.
TEMPLATES = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "Job"): ("spec", "template"),
}
_START = re.compile(r"^(?=---(?:\s|$))", re.MULTILINE)  # of a document
_BEFORE = re.compile(r"(?:[%#][^\n]*|\s)*")  # what may be before its marker, or is all of it
_MARKER = re.compile(r"---(?:[ \t]*(?:#[^\n]*)?\r?\n|[ \t]+)")
_NESTED = re.compile(r"^( *)[^\s#:-][^\n:]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*( *)(-?)", re.MULTILINE)


class ManifestError(Exception):
    """The manifest is no valid YAML, or cannot be changed; says where, and what to do."""


@dataclass(frozen=True, slots=True)
class Pod:
    """The template of a pod, or the pod itself."""

    kind: str
    name: str
    template: Mapping
    """It has `metadata`, which may be absent, and `spec`."""

    @property
    def spec(self) -> Mapping:
        spec: Mapping = self.template["spec"]
        return spec

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def change(text: str, change_document: Callable[[Any], bool]) -> str:
    """The text with its documents changed, of which ``change_document`` says whether it has. Raises ManifestError."""
    return "".join(_changed(part, line, change_document) for part, line in _parts(text))


def documents(text: str) -> Iterator[Any]:
    """The documents as plain values. Raises ManifestError."""
    for part, line in _parts(text):
        yield unshared(_load(YAML(), part, line))


def find_pods(root: Any, kind: str = "", version: str = "") -> Iterator[Pod]:
    """The pods of a document, or of an item of a list, whose own kind and API version may be absent."""
    if not isinstance(root, dict):
        return
    kind, version = str(root.get("kind") or kind), str(root.get("apiVersion") or version)
    items = root.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for item in items:
            yield from find_pods(item, kind.removesuffix("List"), version)
        return
    place = version.rpartition("/")[0], kind
    template = value_at(root, *TEMPLATES[place]) if place in TEMPLATES else None
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        name = value_at(root, "metadata", "name") or value_at(root, "metadata", "generateName") or ""
        yield Pod(kind, str(name), template)


def value_at(root: Any, *keys: str) -> Any:
    """The value under some keys; None where there is none."""
    for key in keys:
        root = root.get(key) if isinstance(root, dict) else None
    return root


def unshared(node: Any) -> Any:
    """Plain values in place of aliases and merged mappings, so that a change of one is not seen elsewhere."""
    if isinstance(node, dict):
        return {key: unshared(value) for key, value in node.items()}
    return [unshared(item) for item in node] if isinstance(node, list) else node


def written(content: Any) -> Any:
    """Values to be added: strings that YAML 1.1 reads as something else, as Kubernetes does, get quotes."""
    if isinstance(content, dict):
        return {key: written(value) for key, value in content.items()}
    if isinstance(content, list):
        return [written(item) for item in content]
    if not isinstance(content, str) or _is_plain(content):
        return content
    return SingleQuotedScalarString(content) if content.isprintable() else DoubleQuotedScalarString(content)


def _is_plain(text: str) -> bool:
    try:
        return bool(pyyaml.safe_load(text) == text)
    except (pyyaml.YAMLError, ValueError):
        return False


def _parts(text: str) -> Iterator[tuple[str, int]]:
    """The text of each document, with its marker, and the lines before it."""
    line, before = 0, ""
    for part in _START.split(text):
        if not _BEFORE.fullmatch(part):
            yield before + part, line - before.count("\n")
            before = ""
        else:
            before += part
        line += part.count("\n")
    if before:
        yield before, line - before.count("\n")


def _changed(part: str, line: int, change_document: Callable[[Any], bool]) -> str:
    marker = found[0] if (found := _MARKER.match(part)) is not None else ""
    body = part.removeprefix(marker).replace("\r\n", "\n")
    yaml = _yaml_like(body)
    root = _load(yaml, body, line + marker.count("\n"))
    if not change_document(root):
        return part
    ending = "\n" if body.endswith("\n") else ""
    if root.fa.flow_style():
        text = json.dumps(unshared(root), indent=2, ensure_ascii=False, default=str)
    else:
        out = StringIO()
        yaml.dump(root, out)
        text = out.getvalue().removesuffix("\n")
    text += ending
    return marker + (text.replace("\n", "\r\n") if "\r\n" in part else text)


def _load(yaml: YAML, text: str, line: int) -> Any:
    try:
        return yaml.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1 + line}: " if mark is not None else ""
        problem = str(error.problem or error.context)
        hint = "; render templates first" if "{{" in text else ""
        raise ManifestError(f"{where}invalid YAML: {problem}{hint}") from error
    except (YAMLError, ValueError) as error:
        raise ManifestError(f"invalid YAML: {' '.join(str(error).split())}") from error


def _yaml_like(text: str) -> YAML:
    """Writes in the layout of the text: its indentation, quotes and line width."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1 << 30
    steps = {dash: len(inner) - len(outer) for outer, inner, dash in reversed(_NESTED.findall(text))}
    nested, dashes = max(steps.get("", 2), 1), max(steps.get("-", 2), 0)
    yaml.indent(mapping=nested, sequence=dashes + 2, offset=dashes)
    return yaml
