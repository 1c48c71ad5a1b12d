"""Fields of messages replaced by masks of the same type, while all other bytes stay as they are.

A path leads through names of fields as a JSON path does: ``$.card.number``, ``$.items[*].price``, ``$.notes['k']`` for
a key of a map, ``$..ssn``. What it names is masked wherever it occurs, also where a later occurrence replaces it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor as F
from google.protobuf.message_factory import GetMessageClass

if TYPE_CHECKING:
    from kafka_sidecar.schemas.masks import Mask
    from kafka_sidecar.schemas.protobuf.program import Type

SYNTAX = "write $, then .name, ['name'], [0], [*] or ..name"
MAX_PATH = 200  # characters that are shown
MAX_STATES = 10_000  # that are remembered
MAX_SHOWN = 20  # of the fields that cannot be masked
_STEP = re.compile(
    r"""(?P<dots>\.\.?)(?:(?P<name>[^\W\d]\w*)|\*)
      | (?P<deep>\.\.)?\[(?:\*|(?P<index>0|[1-9][0-9]{0,8})
            |'(?P<single>(?:[^'\\]|\\['\\])*)'|"(?P<double>(?:[^"\\]|\\["\\])*)")\]""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")
_WRAPPERS = re.compile(r"google\.protobuf\.(Bool|Bytes|Double|Float|Int32|Int64|String|UInt32|UInt64)Value")
_TEXTS = (F.TYPE_STRING, F.TYPE_BYTES)
_PACKED = {F.TYPE_DOUBLE: "<d", F.TYPE_FLOAT: "<f", F.TYPE_FIXED64: "<Q", F.TYPE_FIXED32: "<I",
           F.TYPE_SFIXED64: "<q", F.TYPE_SFIXED32: "<i"}  # fmt: skip
_RANGES = {
    F.TYPE_INT64: (-(2**63), 2**63 - 1), F.TYPE_SINT64: (-(2**63), 2**63 - 1), F.TYPE_UINT64: (0, 2**64 - 1),
    F.TYPE_INT32: (-(2**31), 2**31 - 1), F.TYPE_SINT32: (-(2**31), 2**31 - 1), F.TYPE_UINT32: (0, 2**32 - 1),
}  # fmt: skip
VARINT, FIXED64, BYTES, GROUP_START, FIXED32 = 0, 1, 2, 3, 5  # wire types
_State = frozenset[tuple[int, int]]  # (path, number of steps taken)


class UnmaskableError(ValueError):
    """A field cannot have the mask. The text names it and its type, and nothing of the value."""


def masked(field: Any, value: bytes, mask: Mask) -> bytes:
    """The bytes of the masked value of a field that is no message; without its length.

    Raises:
        UnmaskableError: there is none of the field's type.
    """
    kind = field.type
    if kind == F.TYPE_STRING:
        return b"" if mask.text is None else mask.of_text(value.decode("utf-8", "replace")).encode()
    if kind == F.TYPE_BYTES:
        return b"" if mask.text is None else mask.text.encode()
    number = _number(field, mask)
    if kind in _PACKED:
        return struct.pack(_PACKED[kind], number)
    if kind in (F.TYPE_SINT32, F.TYPE_SINT64):
        number = -2 * number - 1 if number < 0 else 2 * number
    return varint(number % 2**64)


def _number(field: Any, mask: Mask) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values[0].number
    if field.type == F.TYPE_BOOL:
        return 0
    is_float = field.type in (F.TYPE_DOUBLE, F.TYPE_FLOAT)
    number = 0 if mask.text is None else mask.number
    try:
        if not is_float and number != int(number):
            raise ValueError(number)
        number = float(number) if is_float else int(number)
        if field.type in _PACKED:
            struct.pack(_PACKED[field.type], number)
        elif not _RANGES[field.type][0] <= number <= _RANGES[field.type][1]:
            raise ValueError(number)
    except (ValueError, OverflowError, struct.error):
        raise UnmaskableError(f"{_type_of(field)} cannot be {mask.number}") from None
    return number


def varint(number: int) -> bytes:
    """A number as Protobuf writes it."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def replace_fields(
    types: Mapping[str, Type], descriptor: Any, data: bytes, start: int, end: int, paths: Sequence[str], mask: Mask
) -> bytes:
    """``data[start:end]``, which is a message of the type, with the fields masked that the paths name.

    Raises:
        UnmaskableError: a path leads to what cannot have the mask.
        ValueError: a path is invalid.
    """
    own = _Paths.of(tuple(paths))
    new = _Writer(types, data, own, mask).message(descriptor, start, end, own.start)
    return data[start:end] if new is None else new


def find_unmaskable(types: Mapping[str, Type], roots: Sequence[Any], paths: Sequence[str], mask: Mask) -> list[str]:
    """The fields of these types that the paths can lead to and that cannot have the mask, each in one line.

    Raises:
        ValueError: a path is invalid.
    """
    own = _Paths.of(tuple(paths))
    found: set[str] = set()
    seen = set()
    ahead = [(descriptor, own.start, "$") for descriptor in roots]
    while ahead and len(found) < MAX_SHOWN:
        descriptor, state, path = ahead.pop()
        if (descriptor.full_name, state) in seen:
            continue
        seen.add((descriptor.full_name, state))
        for field in types[descriptor.full_name].fields:
            inner, after, more = own.possible(field, state)
            shown = f"{path}.{name_of(field)}{more}"[:MAX_PATH]
            if own.ends(after):
                try:
                    _check(inner, mask)
                except UnmaskableError as error:
                    found.add(f"{shown}: {error}")
            elif after and inner.message_type is not None:
                ahead.append((inner.message_type, after, shown))
    return sorted(found)


def _check(field: Any, mask: Mask) -> None:
    """Raises UnmaskableError."""
    if field.message_type is None:
        masked(field, b"", mask)
    elif _WRAPPERS.fullmatch(field.message_type.full_name):
        masked(field.message_type.fields_by_name["value"], b"", mask)
    elif mask.text is not None or any(one.is_required for one in field.message_type.fields):
        raise UnmaskableError(f"a {field.message_type.full_name} cannot be {'null' if mask.text is None else 'masked'}")


class _Paths:
    """Paths, followed together."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = [_parse(path) for path in paths]
        self.start: _State = frozenset((path, 0) for path in range(len(paths)))
        self._known: dict[tuple[_State, str | int], _State] = {}

    @staticmethod
    @lru_cache(maxsize=64)
    def of(paths: tuple[str, ...]) -> _Paths:
        return _Paths(paths)

    def ends(self, state: _State) -> bool:
        return any(done == len(self._paths[path]) for path, done in state)

    def after(self, state: _State, to: str | int) -> _State:
        """What a step to a member of that name, or to an element, reaches."""
        known = self._known.get((state, to))
        if known is None:
            known = self._step(state, lambda wanted, _: wanted is None or wanted == to)
            if len(self._known) < MAX_STATES:
                self._known[state, to] = known
        return known

    def possible(self, field: Any, state: _State) -> tuple[Any, _State, str]:
        """What a step to a field can reach: the field that has the value, the state, and what the path is longer by."""
        after = self.after(state, name_of(field))
        if self.ends(after) or not field.is_repeated:
            return _inner(field), after, ""
        if is_map(field):  # a name at any depth is no key: it could be one of any map
            return (
                _inner(field),
                self._step(after, lambda to, deep: not (deep and to) and not isinstance(to, int)),
                "{}",
            )
        return field, self._step(after, lambda to, _: not isinstance(to, str)), "[*]"

    def _step(self, state: _State, leads: Callable[[str | int | None, bool], bool]) -> _State:
        after = set()
        for path, done in state:
            if done < len(self._paths[path]):
                to, deep = self._paths[path][done]
                if deep:
                    after.add((path, done))
                if leads(to, deep):
                    after.add((path, done + 1))
        return frozenset(after)


class _Part(NamedTuple):
    """A field in the bytes."""

    number: int
    wire: int
    tag: int  # where the tag ends
    start: int  # of the value, without its length
    end: int
    after: int  # of a group, after its end's tag


class _Writer:
    """Copies a message that is valid; what is masked is spliced in."""

    def __init__(self, types: Mapping[str, Type], data: bytes, paths: _Paths, mask: Mask) -> None:
        self._types = types
        self._data = data
        self._paths = paths
        self._mask = mask

    def message(self, descriptor: Any, start: int, end: int, state: _State) -> bytes | None:
        """The new bytes; None: they are the old ones."""
        fields = {field.number: field for field in self._types[descriptor.full_name].fields}
        counts: dict[int, int] = {}

        def change(part: _Part) -> bytes | None:
            field = fields.get(part.number)
            after = self._paths.after(state, name_of(field)) if field is not None else None
            return self._field(field, part, after, counts) if after else None

        return self._copy(start, end, change)

    def _copy(self, start: int, end: int, change: Callable[[_Part], bytes | None]) -> bytes | None:
        parts: list[bytes] = []
        copied = start
        for part in self._parts(start, end):
            new = change(part)
            if new is not None:
                size = varint(len(new)) if part.wire == BYTES else b""
                closing = varint(part.number << 3 | 4) if part.wire == GROUP_START else b""
                parts += (self._data[copied : part.tag], size, new, closing)
                copied = part.after
        return b"".join((*parts, self._data[copied:end])) if parts else None

    def _field(self, field: Any, part: _Part, state: _State, counts: dict[int, int]) -> bytes | None:
        """The new value of a field, if it changes."""
        if is_map(field):
            return self._entry(field.message_type, part, state) if part.wire == BYTES else None
        wire = wire_of(field)
        if part.wire == BYTES != wire and wire != GROUP_START and field.is_repeated:
            return self._packed(field, part, state, counts)
        if part.wire != wire:
            return None
        return self._value(field, self._element(field, state, counts), part.start, part.end)

    def _element(self, field: Any, state: _State, counts: dict[int, int]) -> _State:
        if not field.is_repeated:
            return state
        index = counts[field.number] = counts.get(field.number, -1) + 1
        return state if self._paths.ends(state) else self._paths.after(state, index)

    def _value(self, field: Any, state: _State, start: int, end: int) -> bytes | None:
        if not self._paths.ends(state):
            return self.message(field.message_type, start, end, state) if state and field.message_type else None
        if field.message_type is None:
            return masked(field, self._data[start:end], self._mask)
        _check(field, self._mask)
        if self._mask.text is None:
            return b""
        wrapped = field.message_type.fields_by_name["value"]
        parts = [part for part in self._parts(start, end) if (part.number, part.wire) == (1, wire_of(wrapped))]
        new = masked(wrapped, self._data[parts[-1].start : parts[-1].end] if parts else b"", self._mask)
        return varint(1 << 3 | wire_of(wrapped)) + (varint(len(new)) if wire_of(wrapped) == BYTES else b"") + new

    def _entry(self, entry: Any, whole: _Part, state: _State) -> bytes | None:
        value = entry.fields_by_name["value"]
        if not self._paths.ends(state):
            key = GetMessageClass(entry).FromString(self._data[whole.start : whole.end]).key
            state = self._paths.after(state, str(key).lower() if isinstance(key, bool) else str(key))

        def change(part: _Part) -> bytes | None:
            is_value = (part.number, part.wire) == (2, wire_of(value))
            return self._value(value, state, part.start, part.end) if is_value else None

        return self._copy(whole.start, whole.end, change) if state else None

    def _packed(self, field: Any, part: _Part, state: _State, counts: dict[int, int]) -> bytes | None:
        new = bytearray()
        changed, at = False, part.start
        while at < part.end:
            after = self._after(at, wire_of(field))
            is_masked = self._paths.ends(self._element(field, state, counts))
            new += masked(field, b"", self._mask) if is_masked else self._data[at:after]
            changed |= is_masked
            at = after
        return bytes(new) if changed else None

    def _parts(self, at: int, end: int) -> Iterator[_Part]:
        while at < end:
            bits, tag = self._varint(at)
            number, wire = bits >> 3, bits & 7
            if wire == GROUP_START:
                start, (inside, at) = tag, self._after_group(tag)
            else:
                start = self._varint(tag)[1] if wire == BYTES else tag
                inside = at = self._after(tag, wire)
            yield _Part(number, wire, tag, start, inside, at)

    def _after(self, at: int, wire: int) -> int:
        if wire == VARINT:
            return self._varint(at)[1]
        if wire == BYTES:
            size, at = self._varint(at)
            return at + size
        return at + (8 if wire == FIXED64 else 4)

    def _after_group(self, at: int) -> tuple[int, int]:
        """Where the inside of a group ends, and the group."""
        depth = 1
        while True:
            before = at
            bits, at = self._varint(at)
            if bits & 7 == GROUP_START:
                depth += 1
            elif bits & 7 == GROUP_START + 1:
                depth -= 1
                if depth == 0:
                    return before, at
            else:
                at = self._after(at, bits & 7)

    def _varint(self, at: int) -> tuple[int, int]:
        number = shift = 0
        while True:
            byte = self._data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number, at
            shift += 7


def _parse(path: str) -> list[tuple[str | int | None, bool]]:
    """Steps to a name, an element, or any (None), and whether they are at any depth."""
    if not path.startswith("$") or path == "$":
        raise ValueError(f"{path!r} names no field: {SYNTAX}")
    steps: list[tuple[str | int | None, bool]] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ValueError(f"{path!r} is invalid from {path[at:]!r} on: {SYNTAX}")
        at = step.end()
        quoted = step["single"] if step["single"] is not None else step["double"]
        name = step["name"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
        index = None if step["index"] is None else int(step["index"])
        steps.append((index if name is None else name, ".." in (step["dots"], step["deep"])))
    return steps


def name_of(field: Any) -> str:
    """As messages and paths call a field."""
    return f"[{field.full_name}]" if field.is_extension else str(field.name)


def is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _inner(field: Any) -> Any:
    return field.message_type.fields_by_name["value"] if is_map(field) else field


def wire_of(field: Any) -> int:
    """The wire type of a value, if it is not packed."""
    if field.type in (*_TEXTS, F.TYPE_MESSAGE):
        return BYTES
    if field.type == F.TYPE_GROUP:
        return GROUP_START
    packed = _PACKED.get(field.type)
    return VARINT if packed is None else FIXED64 if struct.calcsize(packed) == 8 else FIXED32


def _type_of(field: Any) -> str:
    if field.enum_type is not None:
        return f"an enum {field.enum_type.full_name}"
    names = {number: name for name, number in vars(F).items() if name.startswith("TYPE_")}
    return f"a field of the type {names[field.type].removeprefix('TYPE_').lower()}"
