"""A YAML file as values, and the line of each key; a key that is there twice is a mistake.

PyYAML keeps the last of two equal keys and drops the first silently, with all that it enforces; YAML forbids them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kafka_sidecar.proxy.config.mistakes import ConfigError, Location, Mistake

_MERGE = "tag:yaml.org,2002:merge"  # "<<" may be there several times


@dataclass(frozen=True, slots=True)
class Document:
    """What a file has, before any setting is checked."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[Location, int] = field(default_factory=dict)  # of keys and of entries of lists, from 1
    mistakes: list[Mistake] = field(default_factory=list)


def read_document(path: Path) -> Document:
    """The document of a file. Raises ConfigError if it cannot be read or is not a mapping."""
    try:
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
        root = loader.get_single_node()
        values = None if root is None else loader.construct_document(root)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; name a readable file with --config") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not YAML: {_yaml_message(error)}") from error
    if root is None or values is None:
        return Document()
    if not isinstance(values, dict):
        raise ConfigError(f'{path}: must be a mapping of settings, such as "bootstrap_servers: kafka-1:9092"')
    document = Document(values)
    for location, line, earlier in _keys(root, (), set()):
        if earlier is not None:
            document.mistakes.append(Mistake(location, f"is given twice, first in line {earlier}: remove one of them"))
        document.lines[location] = line
    return document


def _keys(node: yaml.Node, at: Location, seen: set[int]) -> Iterator[tuple[Location, int, int | None]]:
    """Each key or entry below a node: where, its line, and the line of the same key before it, if there is one."""
    if id(node) in seen:  # an alias; it may even contain itself
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, entry in enumerate(node.value):
            yield (*at, index), entry.start_mark.line + 1, None
            yield from _keys(entry, (*at, index), seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                yield (*at, key.value), line, lines.get(key.value)
                lines[key.value] = line
                yield from _keys(value, (*at, key.value), seen)


def _yaml_message(error: Exception) -> str:
    return " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
