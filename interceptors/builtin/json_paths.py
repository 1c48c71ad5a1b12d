"""Where in a JSON text the values stand that paths name, so that they can be replaced and every other byte stays.

Libraries for JSON paths answer with values, not with places, and ask a reader that keeps one of two members of the same
name. Here nothing is built from the text and every member is seen (docs/decisions/0010-json-paths.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kafka_sidecar.codec.json.syntax import MAX_NESTING, find_fault

MAX_STATES = 1_000  # each wildcard behind ".." can double them
KNOWN = "write $, and behind it .name, ['name'], [0], [*] or ..name"
_STEP = re.compile(
    r"""(?P<dots>\.\.?)(?:(?P<name>[^\W\d]\w*)|\*)
      | (?P<deep>\.\.)?\[(?:\*|(?P<index>0|[1-9][0-9]{0,8})
            |'(?P<single>(?:[^'\\]|\\['\\])*)'|"(?P<double>(?:[^"\\]|\\["\\])*)")\]""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")
# A step through a text that is known to be well formed: a member's name where there is one, then a string, number or
# word, or what opens an object or array; or what closes one.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN = re.compile(
    rb"[ \t\r\n,]*+(?:(?:(%b)[ \t\r\n]*+:[ \t\r\n]*+)?(?:(%b|[^\[\]{}, \t\r\n]++)|([\[{]))|([\]}]))"
    % (_STRING, _STRING),
    re.DOTALL,
)
_NAME, _LEAF, _OPENS, _CLOSES = 1, 2, 3, 4
_BACKSLASH = b"\\"


def _whole(levels: int) -> bytes:
    """An expression for an object or array with at most so many levels of others in it, as one step."""
    inner = b"|" + _whole(levels - 1) if levels else b""
    return rb"[\[{](?:[^\[\]{}\"]++|%b%b)*+[\]}]" % (_STRING, inner)


_WHOLE = re.compile(_whole(3), re.DOTALL)
_BEGINS = re.compile(rb"[ \t\r\n]*+[\[{]")
Span = tuple[int, int]


class NotReadableError(Exception):
    """The bytes are not one well-formed JSON object or array."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of a path: to a member (bytes), to an element (int), or to any (None); ``deep``: at any depth."""

    to: bytes | int | None
    deep: bool


_Path = Sequence[_Step]
_Reached = frozenset[tuple[int, int]]  # of which path how many steps have been taken
_END: _Reached = frozenset([(-1, 0)])  # a path ends here; what is below does not matter


@dataclass(slots=True, eq=False)
class _State:
    """What the paths make of a value's members and elements."""

    named: bool  # the value itself is meant
    ends: bool  # nothing within the value is
    to: dict[bytes | int, _State] = field(default_factory=dict)
    other: _State = None  # type: ignore[assignment] # of all that are not in ``to``; filled in at once


class JsonPaths:
    """Some paths of RFC 9535, of those kinds that name places without looking at values.

    >>> paths = JsonPaths(["$.card.number", "$..pin"])
    >>> paths.spans(b'{"card": {"number": "4000", "pin": [1, 2]}}')
    [(20, 26), (35, 41)]
    """

    def __init__(self, paths: Iterable[str]) -> None:
        """Raises ValueError for a text that is no such path."""
        first = _automaton([_steps(path) for path in paths])
        self._around = _State(named=False, ends=False, other=first)  # the value is the only element of this

    def spans(self, text: bytes) -> list[Span]:
        """Where the values begin and end that the paths name, in order; of one within another the outer alone.

        Raises:
            NotReadableError: the text is not one well-formed JSON object or array, or deeper than 512 levels.
        """
        if _BEGINS.match(text) is None or find_fault(text, 0, len(text), MAX_NESTING) is not None:
            raise NotReadableError
        found: list[Span] = []
        outer: list[tuple[_State, int, int]] = []
        here, index, began = self._around, 0, 0  # what we are in, how much of it is behind us, where it begins
        at = 0
        while (token := _TOKEN.match(text, at)) is not None:
            at, kind = token.end(), token.lastindex
            if kind == _CLOSES:
                if here.named:
                    found.append((began, at))
                here, index, began = outer.pop()
                continue
            name = token[_NAME]
            value = here.to.get(index if name is None else _plain(name), here.other)
            index += 1
            if kind == _LEAF:
                if value.named:
                    found.append(token.span(_LEAF))
            elif value.ends and (whole := _WHOLE.match(text, at - 1)) is not None:
                at = whole.end()
                if value.named:
                    found.append(whole.span())
            else:
                outer.append((here, index, began))
                here, index, began = value, 0, at - 1
        return found


def _plain(quoted: bytes) -> bytes:
    """A name without its quotes and escapes."""
    return quoted[1:-1] if _BACKSLASH not in quoted else json.loads(quoted).encode()


def _steps(path: str) -> _Path:
    if not path.startswith("$") or path == "$":
        raise ValueError(f"{path!r} names no place in a value: {KNOWN}")
    steps = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ValueError(f"{path!r} is not understood from {path[at:]!r} on: {KNOWN}")
        at = step.end()
        quoted = step["single"] if step["single"] is not None else step["double"]
        name = step["name"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
        index = None if step["index"] is None else int(step["index"])
        steps.append(_Step(index if name is None else name.encode(), deep=".." in (step["dots"], step["deep"])))
    return steps


def _automaton(paths: Sequence[_Path]) -> _State:
    """All paths followed at once: from each state one step leads to one other (the powerset construction)."""
    places = {step.to for path in paths for step in path if step.to is not None}
    first = frozenset((path, 0) for path in range(len(paths)))
    states = {first: _State(named=False, ends=False)}
    todo = [first]

    def state(reached: _Reached) -> _State:
        if reached not in states:
            if len(states) >= MAX_STATES:
                raise ValueError('too many paths, or too many wildcards behind "..": name what stands in between')
            states[reached] = _State(named=reached is _END, ends=reached is _END or not reached)
            todo.append(reached)
        return states[reached]

    while todo:
        reached = todo.pop()
        own = states[reached]
        own.other = state(_after(paths, reached, None))
        for place in places:
            if (after := state(_after(paths, reached, place))) is not own.other:
                own.to[place] = after
    return states[first]


def _after(paths: Sequence[_Path], reached: _Reached, place: bytes | int | None) -> _Reached:
    """What is reached with a step to ``place``; None: to one that no path names."""
    if reached is _END:
        return frozenset()
    after = set()
    for path, done in reached:
        step = paths[path][done]
        if step.deep:
            after.add((path, done))
        if step.to is None or step.to == place:
            after.add((path, done + 1))
    return _END if any(done == len(paths[path]) for path, done in after) else frozenset(after)
