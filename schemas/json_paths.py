"""Finds the positions of values in a JSON text by JSON paths, so that they can be replaced and other bytes stay.

Other encodings follow the same paths by the states of the automaton.

Libraries for JSON paths return values without positions, and work on parsed text, which keeps one of several members of
the same name. Here the text is not parsed into objects and every member is found (docs/decisions/0010-json-paths.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kafka_sidecar.codec.checkpoint import checkpoint
from kafka_sidecar.codec.json.syntax import MAX_NESTING, after_value, find_fault

MAX_STATES = 1_000  # each wildcard after ".." can double them
SYNTAX = "write $, then .name, ['name'], [0], [*] or ..name"
_STEP = re.compile(
    r"""(?P<dots>\.\.?)(?:(?P<name>[^\W\d]\w*)|\*)
      | (?P<deep>\.\.)?\[(?:\*|(?P<index>0|[1-9][0-9]{0,8})
            |'(?P<single>(?:[^'\\]|\\['\\])*)'|"(?P<double>(?:[^"\\]|\\["\\])*)")\]""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")
# One step through a well-formed text: a member's name if there is one, then a string, number or word, or the opening of
# an object or array; or the closing of one. It matches nothing where the text is cut off within the step.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN = re.compile(
    rb"[ \t\r\n,]*+(?:(?:(%b)[ \t\r\n]*+:[ \t\r\n]*+)?"
    rb"(?:(%b|[^\[\]{}, \t\r\n\"]++)(?=[ \t\r\n]*+[,\]}])|([\[{]))|([\]}]))" % (_STRING, _STRING),
    re.DOTALL,
)
_NAME, _LEAF, _OPENS, _CLOSES = 1, 2, 3, 4
_KINDS = {ord("["): _OPENS, ord("{"): _OPENS, ord("]"): _CLOSES, ord("}"): _CLOSES}
_BACKSLASH = b"\\"
_SPACE, _GAP = re.compile(rb"[ \t\r\n]*+"), re.compile(rb"[ \t\r\n,:]*+")
# Bytes of one match, which other threads wait for; what is longer is left to a compiled loop.
_MAX_MATCH = 16 << 10
Span = tuple[int, int]


class NotReadableError(Exception):
    """The bytes are not one well-formed JSON object or array."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of a path: to a member (bytes), to an element (int), or to any (None); ``deep``: at any depth."""

    to: bytes | int | None
    deep: bool


_Path = Sequence[_Step]
_Reached = frozenset[tuple[int, int]]  # (path, number of steps taken)
_END: _Reached = frozenset([(-1, 0)])  # a path ends here: the value is matched, whatever is in it


@dataclass(slots=True, eq=False)
class State:
    """A state of the automaton: which paths have reached a value, and where its members and elements lead."""

    named: bool  # a path names the value itself
    ends: bool  # no path names anything in the value
    to: dict[bytes | int, State] = field(default_factory=dict)
    other: State = None  # type: ignore[assignment] # for all members not in ``to``; set right after creation

    def after(self, member: bytes | int) -> State:
        """Where a member or an element leads."""
        return self.to.get(member, self.other)


class JsonPaths:
    """A set of JSON paths (RFC 9535), without filters: those depend on values.

    >>> paths = JsonPaths(["$.card.number", "$..pin"])
    >>> paths.spans(b'{"card": {"number": "4000", "pin": [1, 2]}}')
    [(20, 26), (35, 41)]
    """

    def __init__(self, paths: Iterable[str]) -> None:
        """Raises ValueError for an invalid path."""
        self.texts = tuple(paths)
        self.first = _build_automaton([_parse_path(path) for path in self.texts])  # of the value itself
        self._outside = State(named=False, ends=False, other=self.first)  # its only element is the text's value

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def spans(self, text: bytes) -> list[Span]:
        """Start and end of the values that the paths name, in order; a value inside another one is not reported.

        Raises:
            NotReadableError: the text is not one well-formed JSON object or array, or deeper than 512 levels.
        """
        _check(text)
        found: list[Span] = []
        outer: list[tuple[State, int, int]] = []
        here, index, began = self._outside, 0, 0  # the enclosing value: state, next index, start
        at = read = 0
        while True:
            token = _TOKEN.match(text, at, at + _MAX_MATCH)
            if token is not None:
                kind, name, start, at = token.lastindex, token[_NAME], token.start(_LEAF), token.end()
            elif (long := _read_long(text, at)) is not None:
                kind, name, start, at = long
            else:
                return found
            if at - read > _MAX_MATCH:
                checkpoint()
                read = at
            if kind == _CLOSES:
                if here.named:
                    found.append((began, at))
                here, index, began = outer.pop()
                continue
            value = here.to.get(index if name is None else _unquote(name), here.other)
            index += 1
            if kind == _OPENS:
                start = at - 1
                if not value.ends:
                    outer.append((here, index, began))
                    here, index, began = value, 0, start
                    continue
                at = after_value(text, start)
            if value.named:
                found.append((start, at))


def _check(text: bytes) -> None:
    """Raises NotReadableError."""
    begin = _after(_SPACE, text, 0)
    if text[begin : begin + 1] not in (b"[", b"{") or find_fault(text, 0, len(text), MAX_NESTING) is not None:
        raise NotReadableError


def _read_long(text: bytes, at: int) -> tuple[int, bytes | None, int, int] | None:
    """As a match of `_TOKEN`, of any length: kind, name, start and end of the value; None at the end of the text."""
    name = None
    while (at := _after(_GAP, text, at)) < len(text):
        kind = _KINDS.get(text[at], _LEAF)
        if kind != _LEAF:
            return kind, name, at, at + 1
        start, at = at, after_value(text, at)
        if name is not None or not _is_name(text, at):
            return _LEAF, name, start, at
        name = text[start:at]
    return None


def _is_name(text: bytes, end: int) -> bool:
    """Whether the value that ends there is the name of a member."""
    at = _after(_SPACE, text, end)
    return text[at : at + 1] == b":"


def _after(run: re.Pattern[bytes], text: bytes, at: int) -> int:
    """The end of a run of characters that begins at ``at``."""
    while (found := run.match(text, at, at + _MAX_MATCH)) is not None and found.end() - at == _MAX_MATCH:
        at = found.end()
    return at if found is None else found.end()


def _unquote(quoted: bytes) -> bytes:
    """A name without its quotes and escapes."""
    return quoted[1:-1] if _BACKSLASH not in quoted else json.loads(quoted).encode()


def _parse_path(path: str) -> _Path:
    if not path.startswith("$") or path == "$":
        raise ValueError(f"{path!r} names no field: {SYNTAX}")
    steps = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ValueError(f"{path!r} is invalid from {path[at:]!r} on: {SYNTAX}")
        at = step.end()
        quoted = step["single"] if step["single"] is not None else step["double"]
        name = step["name"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
        index = None if step["index"] is None else int(step["index"])
        steps.append(_Step(index if name is None else name.encode(), deep=".." in (step["dots"], step["deep"])))
    return steps


def _build_automaton(paths: Sequence[_Path]) -> State:
    """An automaton that follows all paths at once, deterministic (by the powerset construction)."""
    members = {step.to for path in paths for step in path if step.to is not None}
    first = frozenset((path, 0) for path in range(len(paths)))
    states = {first: State(named=False, ends=False)}
    todo = [first]

    def state(reached: _Reached) -> State:
        if reached not in states:
            if len(states) >= MAX_STATES:
                raise ValueError('too many paths, or too many wildcards after "..": name the members in between')
            states[reached] = State(named=reached is _END, ends=reached is _END or not reached)
            todo.append(reached)
        return states[reached]

    while todo:
        reached = todo.pop()
        own = states[reached]
        own.other = state(_step_to(paths, reached, None))
        for member in members:
            if (after := state(_step_to(paths, reached, member))) is not own.other:
                own.to[member] = after
    return states[first]


def _step_to(paths: Sequence[_Path], reached: _Reached, member: bytes | int | None) -> _Reached:
    """What a step to ``member`` reaches; None: to a member that no path names."""
    if reached is _END:
        return frozenset()
    after = set()
    for path, done in reached:
        step = paths[path][done]
        if step.deep:
            after.add((path, done))
        if step.to is None or step.to == member:
            after.add((path, done + 1))
    return _END if any(done == len(paths[path]) for path, done in after) else frozenset(after)
