"""Masks fields of Avro values: each by a value of its own type, so that readers go on; all other bytes stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from struct import Struct

from kafka_sidecar.codec.checkpoint import checkpoint
from kafka_sidecar.schemas.avro.types import AvroType
from kafka_sidecar.schemas.avro.values import ITEMS, MAX_EMPTY, number_at
from kafka_sidecar.schemas.avro.walk import (
    ARRAY,
    BOOLEAN,
    BYTES,
    DOUBLE,
    ENUM,
    FIXED,
    FLOAT,
    INT,
    LONG,
    MAP,
    NULL,
    RECORD,
    STRING,
    UNION,
)  # fmt: skip
from kafka_sidecar.schemas.json_paths import JsonPaths, State
from kafka_sidecar.schemas.masks import Mask, splice

_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")
_NO_UUID = "00000000-0000-0000-0000-000000000000"
_BITS = {INT: 32, LONG: 64}
_SIZES = {NULL: 0, BOOLEAN: 1, FLOAT: 4, DOUBLE: 8}
_CALLED = {RECORD: "a record", ARRAY: "an array", MAP: "a map"}
MAX_SHOWN = 20  # fields that cannot be masked


def replace_fields(
    types: Mapping[int, AvroType], data: bytes, start: int, end: int, paths: JsonPaths, mask: Mask
) -> bytes:
    """A value, which `walk` has accepted, with its fields masked.

    Raises:
        ValueError: a field has a type that cannot be masked, or the value too many elements that take no bytes.
    """
    masking = _Masking(types, data, start, end, mask)
    masking.value(types[0], paths.first)
    return splice(data, start, end, sorted(masking.parts))


def find_unmaskable(types: Mapping[int, AvroType], paths: JsonPaths, mask: Mask) -> list[str]:
    """The fields of a schema that paths name and that no mask fits, each as its path and why."""
    found: list[str] = []
    seen = set()
    ahead = [(0, paths.first, "$")]
    while ahead and len(found) < MAX_SHOWN:
        at, state, path = ahead.pop()
        if (at, state) in seen or (state.ends and not state.named):
            continue
        seen.add((at, state))
        about = types[at]
        if state.named:
            why = _why_not(types, about, mask)
            found += [f"{path}: {why}"] if why else []
            continue
        ahead += [(part, state_of, path + name) for part, state_of, name in _inside(about, state)]
    return sorted(found)


def _inside(about: AvroType, state: State) -> Iterator[tuple[int, State, str]]:
    """The types in a type, with the states in which a value of them can be."""
    if about.kind == RECORD:
        for name, part in zip(about.names, about.parts, strict=True):
            yield part, state.after(name.encode()), f".{name}"
    elif about.kind == UNION:
        yield from ((part, state, "") for part in about.parts)
    elif about.kind in (ARRAY, MAP):
        kind = int if about.kind == ARRAY else bytes
        for member, to in state.to.items():
            if isinstance(member, kind):
                yield about.parts[0], to, f"[{member}]" if isinstance(member, int) else "{}"
        yield about.parts[0], state.other, "[*]" if about.kind == ARRAY else "{}"


def _why_not(types: Mapping[int, AvroType], about: AvroType, mask: Mask) -> str | None:
    if about.kind == UNION:
        branches = [types[part] for part in about.parts]
        if mask.text is None and any(branch.kind == NULL for branch in branches):
            return None
        return next((why for why in (_why_not(types, branch, mask) for branch in branches) if why), None)
    if about.kind == NULL:
        return None
    if about.kind in _CALLED:
        return f"{_CALLED[about.kind]} cannot be masked"
    if mask.text is None:
        return "cannot be null"
    try:
        _replacement(about, mask, b"")
    except ValueError as error:
        return str(error)
    return None


class _Masking:
    """Steps through one value, as far as paths lead into it, and collects what is to be replaced."""

    def __init__(self, types: Mapping[int, AvroType], data: bytes, start: int, end: int, mask: Mask) -> None:
        self._types, self._data, self._at, self._mask = types, data, start, mask
        self._left = end - start + MAX_EMPTY  # elements
        self.parts: list[tuple[int, int, bytes]] = []  # from, to, what is there instead

    def value(self, about: AvroType, state: State) -> None:
        # One frame of Python for each level: a value has at most 512.
        begin = self._at
        branches = None
        if about.kind == UNION:
            branches = about.parts
            about = self._types[branches[self._number()]]
        start = self._at
        inside = _NOWHERE if state.named else state
        if about.kind == RECORD:
            for name, part in zip(about.names, about.parts, strict=True):
                self.value(self._types[part], inside if inside.ends else inside.after(name.encode()))
        elif about.kind in (ARRAY, MAP):
            self._blocks(about, inside)
        else:
            self._skip(about)
        if state.named and about.kind != NULL:
            self._mask_it(about, branches, begin, start)

    def _mask_it(self, about: AvroType, branches: object, begin: int, start: int) -> None:
        if self._mask.text is None:
            null = self._null_of(branches)
            self.parts.append((begin, self._at, as_number(null)))
        else:
            self.parts.append((start, self._at, _replacement(about, self._mask, self._data[start : self._at])))

    def _null_of(self, branches: object) -> int:
        for number, part in enumerate(branches if isinstance(branches, tuple) else ()):
            if self._types[part].kind == NULL:
                return number
        raise ValueError("a field cannot be null")

    def _blocks(self, about: AvroType, state: State) -> None:
        inner, index = self._types[about.parts[0]], 0
        while count := self._number():
            sized, size = self._at, None
            if count < 0:
                count, size = -count, self._number()
            begin, before = self._at, len(self.parts)
            self._left -= count
            if self._left < 0:
                raise ValueError("too many elements that take no bytes")
            for _ in range(count):
                member: bytes | int = index
                if about.kind == MAP:
                    length = self._number()
                    self._at += length
                    member = self._data[self._at - length : self._at]
                self.value(inner, state if state.ends else state.after(member))
                if index & ITEMS == ITEMS:
                    checkpoint()
                index += 1
            if size is not None and len(self.parts) > before:
                more = sum(len(new) - (to - at) for at, to, new in self.parts[before:])
                self.parts.append((sized, begin, as_number(self._at - begin + more)))

    def _skip(self, about: AvroType) -> None:
        if about.kind in (STRING, BYTES):
            size = self._number()
            self._at += size
        elif about.kind in (INT, LONG, ENUM):
            self._number()
        else:
            self._at += about.size if about.kind == FIXED else _SIZES[about.kind]

    def _number(self) -> int:
        number, self._at = number_at(self._data, self._at)
        return number


_NOWHERE = State(named=False, ends=True)  # everything in a masked field


def as_number(number: int) -> bytes:
    """A number of up to 64 bits: zigzag, seven bits a byte."""
    bits = (number << 1) ^ (number >> 63)
    found = bytearray()
    while bits > 0x7F:
        found.append(bits & 0x7F | 0x80)
        bits >>= 7
    found.append(bits)
    return bytes(found)


def _replacement(about: AvroType, mask: Mask, field: bytes) -> bytes:
    """A value of the field's own type.

    Raises:
        ValueError: the number of the mask is none of this type.
    """
    if about.logical is not None and about.logical.name == "decimal":
        return _decimal(about, mask)
    if about.logical is not None and about.logical.name == "uuid" and about.kind == STRING:
        return _sized(_NO_UUID.encode())
    if about.kind in _CALLED:
        raise ValueError(f"{_CALLED[about.kind]} cannot be masked")
    return _REPLACEMENTS[about.kind](about, mask, field)


def _text(about: AvroType, mask: Mask, field: bytes) -> bytes:
    size, at = number_at(field, 0) if field else (0, 0)
    return _sized(mask.of_text(field[at : at + size].decode()).encode())


def _whole(about: AvroType, mask: Mask, field: bytes) -> bytes:
    limit = 1 << _BITS[about.kind] - 1
    if mask.number != int(mask.number) or not -limit <= mask.number < limit:
        raise ValueError(f"{mask.number} is not a whole number of {_BITS[about.kind]} bits")
    return as_number(int(mask.number))


def _float(about: AvroType, mask: Mask, field: bytes) -> bytes:
    try:
        return bytes((_FLOAT if about.kind == FLOAT else _DOUBLE).pack(mask.number))
    except OverflowError as error:
        raise ValueError(f"{mask.number} is too large") from error


def _decimal(about: AvroType, mask: Mask) -> bytes:
    scale = about.logical.scale if about.logical is not None else 0
    try:
        unscaled: int = round(mask.number * 10**scale)
        if about.kind == FIXED:
            return unscaled.to_bytes(about.size, signed=True)
        return _sized(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, signed=True))
    except OverflowError as error:
        raise ValueError(f"{mask.number} does not fit a decimal of {about.size} bytes") from error


def _sized(data: bytes) -> bytes:
    return as_number(len(data)) + data


_REPLACEMENTS: Mapping[int, Callable[[AvroType, Mask, bytes], bytes]] = {
    BOOLEAN: lambda about, mask, field: b"\0",
    INT: _whole,
    LONG: _whole,
    FLOAT: _float,
    DOUBLE: _float,
    STRING: _text,
    BYTES: lambda about, mask, field: _sized((mask.text or "").encode()),
    FIXED: lambda about, mask, field: bytes(about.size),
    ENUM: lambda about, mask, field: as_number(about.default),
}
