"""Masks fields of messages: each by a value of its own type, so that readers go on; all other bytes stay.

A path leads through names of fields and keys of maps as a JSON path does. What it names is masked wherever it occurs,
also where a later occurrence replaces it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor as F
from google.protobuf.message_factory import GetMessageClass

from kafka_sidecar.codec.large_bytes import join
from kafka_sidecar.schemas.json_paths import JsonPaths, State
from kafka_sidecar.schemas.masks import Mask

if TYPE_CHECKING:
    from kafka_sidecar.schemas.protobuf.program import Type

MAX_PATH = 200  # characters that are shown
MAX_SHOWN = 20  # of the fields that cannot be masked
_WRAPPERS = re.compile(r"google\.protobuf\.(Bool|Bytes|Double|Float|Int32|Int64|String|UInt32|UInt64)Value")
_TEXTS = (F.TYPE_STRING, F.TYPE_BYTES)
_PACKED = {F.TYPE_DOUBLE: "<d", F.TYPE_FLOAT: "<f", F.TYPE_FIXED64: "<Q", F.TYPE_FIXED32: "<I",
           F.TYPE_SFIXED64: "<q", F.TYPE_SFIXED32: "<i"}  # fmt: skip
_RANGES = {
    F.TYPE_INT64: (-(2**63), 2**63), F.TYPE_SINT64: (-(2**63), 2**63), F.TYPE_UINT64: (0, 2**64),
    F.TYPE_INT32: (-(2**31), 2**31), F.TYPE_SINT32: (-(2**31), 2**31), F.TYPE_UINT32: (0, 2**32),
    F.TYPE_FIXED64: (0, 2**64), F.TYPE_FIXED32: (0, 2**32), F.TYPE_SFIXED64: (-(2**63), 2**63),
    F.TYPE_SFIXED32: (-(2**31), 2**31),
}  # fmt: skip
VARINT, FIXED64, BYTES, GROUP_START, FIXED32 = 0, 1, 2, 3, 5  # wire types


class UnmaskableError(ValueError):
    """A field cannot have the mask. The text says why, and nothing of the value."""


def replace_fields(
    types: Mapping[str, Type], descriptor: Any, data: bytes, start: int, end: int, paths: JsonPaths, mask: Mask
) -> bytes:
    """``data[start:end]``, which is a message of the type, with the fields masked that the paths name.

    Raises:
        UnmaskableError: a path leads to what cannot have the mask.
    """
    new = _Writer(types, data, mask).message(descriptor, start, end, paths.first)
    return data[start:end] if new is None else new


def find_unmaskable(types: Mapping[str, Type], roots: Sequence[Any], paths: JsonPaths, mask: Mask) -> list[str]:
    """The fields of these types that paths name and that no mask fits, each as its path and why."""
    found: set[str] = set()
    seen = set()
    ahead = [(descriptor, paths.first, "$") for descriptor in roots]
    while ahead and len(found) < MAX_SHOWN:
        descriptor, state, path = ahead.pop()
        if (descriptor.full_name, state) in seen:
            continue
        seen.add((descriptor.full_name, state))
        for field in types[descriptor.full_name].fields:
            for inner, after, more in _possible(field, state.after(name_of(field).encode()), paths):
                shown = f"{path}.{name_of(field)}{more}"[:MAX_PATH]
                if after.named:
                    why = _why_not(inner, mask)
                    found |= {f"{shown}: {why}"} if why else set()
                elif not after.ends and inner.message_type is not None:
                    ahead.append((inner.message_type, after, shown))
    return sorted(found)


def _possible(field: Any, state: State, paths: JsonPaths) -> Iterator[tuple[Any, State, str]]:
    """Where a field leads: the field that has the value, the state in it, and what the path is longer by."""
    inner = field.message_type.fields_by_name["value"] if is_map(field) else field
    if state.named or state.ends or not field.is_repeated:
        yield inner, state, ""
        return
    kind, shown = (bytes, "{}") if is_map(field) else (int, "[*]")
    yield inner, state.other, shown
    for member, to in state.to.items():
        # A name at any depth is that of a field: it could be a key of any map.
        if isinstance(member, kind) and not paths.first.after(member).named:
            yield inner, to, f"[{member}]" if isinstance(member, int) else shown


def _why_not(field: Any, mask: Mask) -> str | None:
    try:
        _check(field, mask)
    except UnmaskableError as error:
        return str(error)
    return None


def _check(field: Any, mask: Mask) -> None:
    """Raises UnmaskableError."""
    if field.message_type is None:
        _masked(field, mask, b"")
    elif _WRAPPERS.fullmatch(field.message_type.full_name):
        _masked(field.message_type.fields_by_name["value"], mask, b"")
    elif mask.text is not None or any(one.is_required for one in field.message_type.fields):
        raise UnmaskableError(f"a message {field.message_type.full_name} cannot be masked")


def _masked(field: Any, mask: Mask, value: bytes) -> bytes:
    """The bytes of the masked value of a field that is no message; without its length.

    Raises:
        UnmaskableError: the number of the mask is none of its type.
    """
    if field.type in _TEXTS:
        if mask.text is None:
            return b""
        if field.type == F.TYPE_BYTES:
            return mask.text.encode()
        return mask.of_text(value.decode("utf-8", "replace")).encode()
    number = _number(field, mask)
    if field.type in _PACKED:
        try:
            return struct.pack(_PACKED[field.type], number)
        except OverflowError as error:
            raise UnmaskableError(f"{number} is not a number of the type {_type_of(field)}") from error
    if field.type in (F.TYPE_SINT32, F.TYPE_SINT64):
        number = -2 * number - 1 if number < 0 else 2 * number
    return varint(int(number) % 2**64)


def _number(field: Any, mask: Mask) -> int | float:
    if field.type == F.TYPE_BOOL:
        return 0
    if field.enum_type is not None:
        return int(field.enum_type.values[0].number)
    number = mask.number
    if field.type in _RANGES:
        first, end = _RANGES[field.type]
        if number != int(number) or not first <= number < end:
            raise UnmaskableError(f"{number} is not a number of the type {_type_of(field)}")
        return int(number)
    return number


def varint(number: int) -> bytes:
    """A number as Protobuf writes it."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


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

    def __init__(self, types: Mapping[str, Type], data: bytes, mask: Mask) -> None:
        self._types = types
        self._data = data
        self._mask = mask

    def message(self, descriptor: Any, start: int, end: int, state: State) -> bytes | None:
        """The new bytes; None: they are the old ones."""
        fields = {field.number: field for field in self._types[descriptor.full_name].fields}
        counts: dict[int, int] = {}

        def change(part: _Part) -> bytes | None:
            field = fields.get(part.number)
            if field is None:
                return None
            after = state.after(name_of(field).encode())
            return self._field(field, part, after, counts) if after.named or not after.ends else None

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
        return join((*parts, self._data[copied:end])) if parts else None

    def _field(self, field: Any, part: _Part, state: State, counts: dict[int, int]) -> bytes | None:
        """The new value of a field, if it changes."""
        if is_map(field):
            return self._entry(field.message_type, part, state) if part.wire == BYTES else None
        wire = wire_of(field)
        if part.wire == BYTES != wire and wire != GROUP_START and field.is_repeated:
            return self._packed(field, part, state, counts)
        if part.wire != wire:
            return None
        return self._value(field, self._element(field, state, counts), part.start, part.end)

    def _element(self, field: Any, state: State, counts: dict[int, int]) -> State:
        if not field.is_repeated:
            return state
        index = counts[field.number] = counts.get(field.number, -1) + 1
        return state if state.named else state.after(index)

    def _value(self, field: Any, state: State, start: int, end: int) -> bytes | None:
        if not state.named:
            is_inside = field.message_type is not None and not state.ends
            return self.message(field.message_type, start, end, state) if is_inside else None
        if field.message_type is None:
            return _masked(field, self._mask, self._data[start:end])
        _check(field, self._mask)
        if self._mask.text is None:
            return b""
        wrapped = field.message_type.fields_by_name["value"]
        parts = [part for part in self._parts(start, end) if (part.number, part.wire) == (1, wire_of(wrapped))]
        new = _masked(wrapped, self._mask, self._data[parts[-1].start : parts[-1].end] if parts else b"")
        return varint(1 << 3 | wire_of(wrapped)) + (varint(len(new)) if wire_of(wrapped) == BYTES else b"") + new

    def _entry(self, entry: Any, whole: _Part, state: State) -> bytes | None:
        value = entry.fields_by_name["value"]
        if not state.named:
            key = GetMessageClass(entry).FromString(self._data[whole.start : whole.end]).key
            state = state.after((str(key).lower() if isinstance(key, bool) else str(key)).encode())

        def change(part: _Part) -> bytes | None:
            is_value = (part.number, part.wire) == (2, wire_of(value))
            return self._value(value, state, part.start, part.end) if is_value else None

        return self._copy(whole.start, whole.end, change) if state.named or not state.ends else None

    def _packed(self, field: Any, part: _Part, state: State, counts: dict[int, int]) -> bytes | None:
        new = bytearray()
        changed, at = False, part.start
        while at < part.end:
            after = self._after(at, wire_of(field))
            is_masked = self._element(field, state, counts).named
            new += _masked(field, self._mask, b"") if is_masked else self._data[at:after]
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


def name_of(field: Any) -> str:
    """As messages and paths call a field."""
    return f"[{field.full_name}]" if field.is_extension else str(field.name)


def is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def wire_of(field: Any) -> int:
    """The wire type of a value, if it is not packed."""
    if field.type in (*_TEXTS, F.TYPE_MESSAGE):
        return BYTES
    if field.type == F.TYPE_GROUP:
        return GROUP_START
    packed = _PACKED.get(field.type)
    return VARINT if packed is None else FIXED64 if struct.calcsize(packed) == 8 else FIXED32


def _type_of(field: Any) -> str:
    names = {number: name for name, number in vars(F).items() if name.startswith("TYPE_")}
    return str(names[field.type]).removeprefix("TYPE_").lower()
