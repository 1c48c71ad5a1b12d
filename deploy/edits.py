"""Changes to the text of a manifest: whole lines are added and removed again, all others stay as they are.

What is added to a list or mapping is added at its top, on lines of its own; in flow style, such as JSON, as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from textwrap import indent
from typing import Any

import yaml

from kafka_sidecar.deploy.yaml_tree import (
    Alias,
    Document,
    Entry,
    ManifestError,
    Mapping,
    Node,
    Sequence,
    is_empty,
)

Content = dict[str, Any] | list[Any]
Was = str | None
"""What a collection was before something was added: None: absent; a text: empty, and written so; KEPT: neither."""
KEPT = "\N{NULL}"


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


class _IndentedDumper(_Dumper):
    """Lists are indented under their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


class Edits:
    """Replacements in the text of a document, which are made at once."""

    def __init__(self, text: str, document: Document, indents_lists: bool) -> None:
        self._text = text
        self._document = document
        self._dumper = _IndentedDumper if indents_lists else _Dumper
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._visited: set[tuple[int, str]] = set()
        self.made: list[tuple[int, int, str]] = []

    def replace(self, start: int, end: int, text: str) -> None:
        if start == end or (start, end, text) not in self.made:  # what two pods share is changed once
            self.made.append((start, end, text))

    def state(self, owner: Mapping, key: str) -> Was:
        """What `take` needs to undo what `add` does."""
        found = self._document.find(owner, key)
        if found is None:
            return None
        entry = found[1]
        return self._text[self._colon(entry) : entry.end] if is_empty(self._document.resolve(entry.value)) else KEPT

    def add(self, owner: Mapping, key: str, content: Content) -> None:
        """Add items or entries to the collection under a key, which may be empty or absent."""
        found = self._document.find(owner, key)
        if self._is_done(owner, key):
            return
        if found is None:
            self._insert(owner, {key: content})
            return
        mapping, entry = found
        value = self._document.resolve(entry.value)
        if is_empty(value):
            self._fill(mapping, entry, content)
        elif isinstance(value, Sequence if isinstance(content, list) else Mapping):
            self._insert(value, content)
        else:
            kind = "list" if isinstance(content, list) else "mapping"
            raise ManifestError(f"{self.line(entry.start)}: {key}: write a {kind}")

    def take(self, owner: Mapping, key: str, is_added: Callable[[Node | Entry], bool], was: Was) -> None:
        """Remove what was added to the collection under a key, and restore what it was, if nothing else is in it."""
        found = self._document.find(owner, key)
        value = self._document.resolve(found[1].value) if found is not None else None
        if found is None or not isinstance(value, Mapping | Sequence) or self._is_done(owner, key):
            return
        mapping, entry = found
        added = [child for child in value.children if is_added(child)]
        if not added:
            return
        if len(added) < len(value.children):
            for child in added:
                self._cut(value, child)
        elif was is None:
            self._cut(mapping, entry)
        else:
            empty = " []" if isinstance(value, Sequence) else " {}"
            self._empty(entry, value, empty if was == KEPT else was)

    def add_entry(self, owner: Mapping, key: str, value: str) -> None:
        """Add an entry to a mapping that is not empty."""
        if not self._is_done(owner, key):
            self._insert(owner, {key: value})

    def replace_entry(self, owner: Mapping, entry: Entry, key: str, value: str) -> list[str]:
        """Put an entry in place of another one. Returns its text; if that has aliases, also one without."""
        text = self._text[entry.start : entry.end]
        ending = self._newline if text.endswith("\n") else ""
        new = _flow_children({key: value}) if owner.is_flow else f"{key}: {value}"
        self.replace(entry.start, entry.end, new + ending)
        # In a block the margin of the other lines is relative to that of the first one.
        margin = " " * self.column(entry.start) if "\n" in text and not owner.is_flow else ""
        texts = [margin + text]
        if any(entry.start <= alias.start < entry.end for alias in self._document.aliases):
            old_key = self._document.data(entry.key)
            texts.append(_flow_children({old_key: self._document.data(entry.value)}))
        return texts

    def restore_entry(self, owner: Mapping, entry: Entry, text: str) -> None:
        """Put the text that `replace_entry` has returned in the place of its entry; "" if there was none."""
        if not text:
            self._cut(owner, entry)
            return
        column, margin = self.column(entry.start), len(text) - len(text.lstrip(" "))
        text = text[margin:]
        if not _is_entry(text, owner.is_flow):  # the manifest was written again, in the other style
            content = yaml.safe_load(text if owner.is_flow else f"{{{text}}}")
            text = _flow_children(content) if owner.is_flow else self._block(content, column).strip()
        elif margin:
            text = _shift(text, column - margin)
        end = self._next_line(entry.end) if text.endswith("\n") else entry.end
        self.replace(entry.start, end, text)

    def line(self, position: int) -> str:
        """The line of a position, for messages."""
        count = self._text.count("\n", 0, position) + 1
        return f"line {count}"

    def column(self, position: int) -> int:
        return position - self._line_start(position)

    def apply(self) -> str:
        """The changed text; ManifestError if an alias shows a change where it must not be."""
        for alias in self._document.aliases:
            if self._is_broken(alias):
                where = self.line(alias.start)
                raise ManifestError(f"{where}: *{alias.name} is shared with a pod that is changed; write it out")
        parts, at = [], 0
        for start, end, new in sorted(self.made, key=lambda edit: edit[:2]):
            assert start >= at
            parts += [self._text[at:start], new]
            at = end
        return "".join((*parts, self._text[at:]))

    def _is_broken(self, alias: Alias) -> bool:
        """Whether an alias, which itself stays, shows a change where it must not be, or loses its anchor."""
        target, is_used = alias.target, alias in self._document.used
        if any(start <= alias.start < end for start, end, _ in self.made):
            return False
        return any(
            start <= target.start < end or (not is_used and target.start <= end and start <= target.end)
            for start, end, _ in self.made
        )

    def _is_done(self, owner: Mapping, key: str) -> bool:
        """Whether this was done: two pods may share a collection. An empty one is filled wherever it is written."""
        found = self._document.find(owner, key)
        value = self._document.resolve(found[1].value) if found is not None else owner
        place = (id(found[1] if found is not None and is_empty(value) else value), key)
        is_done = place in self._visited
        self._visited.add(place)
        return is_done

    def _insert(self, collection: Mapping | Sequence, content: Content) -> None:
        if collection.is_flow:
            self._insert_flow(collection, content)
            return
        first = collection.children[0]
        start = collection.first_dash if isinstance(collection, Sequence) else first.start
        if collection.head is not None and "\n" in self._text[collection.head : start]:
            at = self._next_line(collection.head)  # before comments, which belong to the first child
        else:
            at = self._next_line(first.end)  # its first child shares a line with what is above it
        self.replace(at, at, self._block(content, self.column(start)))

    def _insert_flow(self, collection: Mapping | Sequence, content: Content) -> None:
        at = self._text.index("{" if isinstance(collection, Mapping) else "[", collection.start) + 1
        if not collection.children:
            self.replace(at, at, _flow_children(content))
            return
        margin = re.match(r"\s*\n([ \t]*)", self._text[at : collection.children[0].start])
        if margin is None:
            self.replace(at, at, f"{_flow_children(content)}, ")
        else:
            space = margin[1]
            lines = json.dumps(content, indent=2)[2:-2].splitlines()
            text = "".join(f"{self._newline}{space}{line.removeprefix('  ')}" for line in lines)
            self.replace(at, at, f"{text},")

    def _fill(self, mapping: Mapping, entry: Entry, content: Content) -> None:
        colon = self._colon(entry)
        if mapping.is_flow:
            self.replace(colon, entry.end, f" {json.dumps(content)}")
            return
        self.replace(colon, entry.end, "")
        at = self._next_line(entry.end)
        is_indented = isinstance(content, dict) or self._dumper is _IndentedDumper
        self.replace(at, at, self._block(content, self.column(entry.start) + 2 * is_indented))

    def _empty(self, entry: Entry, value: Mapping | Sequence, text: str) -> None:
        """Write an empty value in place of a collection."""
        colon = self._colon(entry)
        if value.is_flow:
            self.replace(colon, entry.end, text)
            return
        self.replace(colon, colon, text if text[:1] in ("", " ", "\t") else f" {text}")
        first = value.first_dash if isinstance(value, Sequence) else value.children[0].start
        self.replace(self._line_start(first), self._next_line(value.end), "")

    def _cut(self, collection: Mapping | Sequence, child: Node | Entry) -> None:
        if collection.is_flow:
            self._cut_flow(collection, child)
            return
        start = self._dash(collection, child) if isinstance(collection, Sequence) else child.start
        line = self._line_start(start)
        if self._text[line:start].strip():  # shares its line with the dash of an item
            following = collection.children[1].start
            self.replace(start, following, "")
        else:
            self.replace(line, self._next_line(child.end), "")

    def _cut_flow(self, collection: Mapping | Sequence, child: Node | Entry) -> None:
        """The child with the comma after it, or, if it is the last one, before it."""
        place = [one is child for one in collection.children].index(True)
        if place == len(collection.children) - 1:
            self.replace(collection.children[place - 1].end if place else child.start, child.end, "")
            return
        comma = self._text.index(",", child.end) + 1
        margin = re.search(r"\r?\n[ \t]*$", self._text[: child.start])
        if margin is not None:
            self.replace(margin.start(), comma, "")
        else:
            self.replace(child.start, comma + self._text.startswith(" ", comma), "")

    def _dash(self, sequence: Sequence, child: Node | Entry) -> int:
        """The dash of an item: in the column of the first one, on the item's line or, with comments between, above."""
        column, line = self.column(sequence.first_dash), self._line_start(child.start)
        while line and (self._text[line : line + column].strip() or self._text[line + column] != "-"):
            line = self._line_start(line - 1)
        return line + column

    def _block(self, content: Content, column: int) -> str:
        text = yaml.dump(content, Dumper=self._dumper, sort_keys=False, default_flow_style=False, width=1 << 30)
        return indent(text, " " * column).replace("\n", self._newline)

    def _colon(self, entry: Entry) -> int:
        return self._text.index(":", entry.key.end) + 1

    def _line_start(self, position: int) -> int:
        return self._text.rfind("\n", 0, position) + 1

    def _next_line(self, position: int) -> int:
        """The start of the next line; of this one if the position is there, as after a block scalar."""
        if position and self._text[position - 1] == "\n":
            return position
        return self._text.index("\n", position) + 1


def _flow_children(content: Content) -> str:
    return json.dumps(content)[1:-1]


def _is_entry(text: str, is_flow: bool) -> bool:
    """Whether a text is one entry of a mapping in this style."""
    try:
        content = yaml.safe_load(f"{{{text}}}" if is_flow else text)
    except yaml.composer.ComposerError:  # an alias of the document
        return True
    except yaml.YAMLError:
        return False
    return isinstance(content, dict) and len(content) == 1


def _shift(text: str, columns: int) -> str:
    """Indent all lines but the first by more columns, or by less."""
    if columns < 0:
        return re.sub(rf"\n {{1,{-columns}}}", "\n", text)
    return re.sub(r"\n(?=[^\r\n])", "\n" + " " * columns, text)
