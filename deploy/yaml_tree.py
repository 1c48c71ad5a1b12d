"""YAML documents as trees whose nodes know their place in the text, so that single lines of it can be changed.

A YAML library that loads and dumps would write the whole file again in a layout of its own (decision 18).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml import events

MERGE = "<<"
# Between the properties of a block sequence, such as an anchor, and its first dash.
_BEFORE_DASH = re.compile(r"(?:[&!][^\s]*|\s+|#[^\n]*)*")


class ManifestError(Exception):
    """The manifest is no valid YAML, or cannot be changed; says where, and what to do."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A value; the text from `start` to `end` includes its anchor and tag, but no comment after it."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Scalar(Node):
    value: str
    is_plain: bool


@dataclass(frozen=True, slots=True, eq=False)
class Alias(Node):
    name: str
    target: Node


@dataclass(frozen=True, slots=True, eq=False)
class Collection(Node):
    is_flow: bool
    head: int | None
    """Where the line ends after which its block begins: the key that it belongs to, or its anchor or tag."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Key and value of a mapping, as they are written."""

    key: Node
    value: Node

    @property
    def start(self) -> int:
        return self.key.start

    @property
    def end(self) -> int:
        return self.value.end


@dataclass(frozen=True, slots=True, eq=False)
class Mapping(Collection):
    children: list[Entry]


@dataclass(frozen=True, slots=True, eq=False)
class Sequence(Collection):
    children: list[Node]
    first_dash: int
    """Of a block sequence: its position. All of its dashes are in this column."""


@dataclass(slots=True)
class Document:
    """One document, and the aliases of it."""

    root: Node
    aliases: list[Alias] = field(default_factory=list)
    used: set[Alias] = field(default_factory=set)
    """Aliases that were followed to what is changed."""

    def resolve(self, node: Node) -> Node:
        """The node itself, or that of its alias."""
        if isinstance(node, Alias):
            self.used.add(node)
            return self.resolve(node.target)
        return node

    def entries(self, mapping: Mapping) -> Iterator[tuple[str, Mapping, Entry]]:
        """Key, mapping in which it is written, entry: its own entries, then merged ones."""
        merged = []
        for entry in mapping.children:
            match self.resolve(entry.key):
                case Scalar(value=key, is_plain=is_plain):
                    if key == MERGE and is_plain:
                        merged.append(self.resolve(entry.value))
                    else:
                        yield key, mapping, entry
        for other in merged:
            for one in map(self.resolve, other.children) if isinstance(other, Sequence) else [other]:
                if isinstance(one, Mapping):
                    yield from self.entries(one)

    def find(self, mapping: Node, key: str) -> tuple[Mapping, Entry] | None:
        """The entry of a key, and the mapping in which it is written."""
        found = None
        if isinstance(mapping, Mapping):
            for name, owner, entry in self.entries(mapping):
                if name == key and found is None:
                    found = owner, entry
        return found

    def get(self, mapping: Node, *keys: str) -> Node | None:
        """The value under some keys, aliases resolved."""
        node: Node | None = self.resolve(mapping)
        for key in keys:
            found = self.find(node, key) if node is not None else None
            node = self.resolve(found[1].value) if found is not None else None
        return node

    def text(self, mapping: Node, *keys: str) -> str:
        """The scalar under some keys; "" where there is none."""
        node = self.get(mapping, *keys)
        return node.value if isinstance(node, Scalar) else ""

    def items(self, mapping: Node, key: str) -> list[Node]:
        """The items of the list under a key, aliases resolved; none where there is no list."""
        node = self.get(mapping, key)
        return [self.resolve(item) for item in node.children] if isinstance(node, Sequence) else []

    def data(self, node: Node) -> Any:
        """A node as Python's own types."""
        match self.resolve(node):
            case Mapping() as mapping:
                return {key: self.data(entry.value) for key, _, entry in reversed(list(self.entries(mapping)))}
            case Sequence(children=children):
                return [self.data(child) for child in children]
            case Scalar(value=value, is_plain=is_plain):
                return yaml.safe_load(value) if is_plain else value


def is_empty(node: Node) -> bool:
    """Whether a value is null, or a collection without children."""
    if isinstance(node, Scalar):
        return node.is_plain and node.value in ("", "~", "null", "Null", "NULL")
    return isinstance(node, Mapping | Sequence) and not node.children


def parse(text: str) -> list[Document]:
    """The documents of a text; ManifestError if it is no valid YAML."""
    builder = _Builder(text)
    try:
        return list(builder.documents())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark is not None else ""
        problem = str(error.problem or error.context)
        hint = "; render templates first" if "{{" in text else ""
        raise ManifestError(f"{line}invalid YAML: {problem}{hint}") from error
    except yaml.YAMLError as error:
        raise ManifestError(f"invalid YAML: {' '.join(str(error).split())}") from error


class _Builder:
    def __init__(self, text: str) -> None:
        self._text = text
        self._events = yaml.parse(text, Loader=yaml.SafeLoader)
        self._anchors: dict[str, Node] = {}
        self._document = Document(Scalar(0, 0, "", True))

    def documents(self) -> Iterator[Document]:
        for event in self._events:
            if isinstance(event, events.DocumentStartEvent):
                self._anchors = {}
                document = self._document = Document(Scalar(0, 0, "", True))
                document.root = self._node(next(self._events), None)
                yield document

    def _node(self, event: Any, key_end: int | None) -> Node:
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, events.AliasEvent):
            return self._alias(event, start, end)
        node: Node
        if isinstance(event, events.ScalarEvent):
            node = Scalar(start, end, event.value, event.implicit[0])
        else:
            has_properties = event.anchor is not None or event.tag is not None
            head = start if has_properties and key_end is not None else key_end
            kind = self._sequence if isinstance(event, events.SequenceStartEvent) else self._mapping
            node = kind(start, end, bool(event.flow_style), head)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: Any, start: int, end: int) -> Alias:
        if event.anchor not in self._anchors:
            raise ManifestError(f"line {event.start_mark.line + 1}: *{event.anchor} has no anchor")
        alias = Alias(start, end, event.anchor, self._anchors[event.anchor])
        self._document.aliases.append(alias)
        return alias

    def _sequence(self, start: int, end: int, is_flow: bool, head: int | None) -> Sequence:
        items: list[Node] = []
        while not isinstance(event := next(self._events), events.SequenceEndEvent):
            items.append(self._node(event, None))
        last = items[-1].end if items and not is_flow else _end(event)
        dash = start if is_flow else self._first_dash(start)
        return Sequence(start, last, is_flow, head, items, dash)

    def _mapping(self, start: int, end: int, is_flow: bool, head: int | None) -> Mapping:
        entries: list[Entry] = []
        while not isinstance(event := next(self._events), events.MappingEndEvent):
            key = self._node(event, None)
            entries.append(Entry(key, self._node(next(self._events), key.end)))
        last = entries[-1].end if entries and not is_flow else _end(event)
        return Mapping(start, last, is_flow, head, entries)

    def _first_dash(self, start: int) -> int:
        found = _BEFORE_DASH.match(self._text, start)
        assert found is not None
        return found.end()


def _end(event: events.Event) -> int:
    assert event.end_mark is not None
    return int(event.end_mark.index)
