"""Avro schemas, as programs for `walk`.

A schema is hostile input, too: its size, depth, names and types have limits. What is checked is what a value's bytes
depend on (Avro 1.12, "Schema Declaration"): names, types, fields, symbols, sizes, unions. Defaults, aliases, order and
documentation are left alone; a logical type changes no byte, and one that is not valid counts as none, as in Avro.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from kafka_sidecar.schemas.avro.masking import find_unmaskable, replace_fields
from kafka_sidecar.schemas.avro.types import AvroType, Logical, logical_of
from kafka_sidecar.schemas.avro.values import decode
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
    MAX_DEPTH,
    NULL,
    REASONS,
    RECORD,
    STACK_BYTES,
    STRING,
    UNION,
    find_not_avro,
    walk_long,
)  # fmt: skip
from kafka_sidecar.schemas.language import NotOfSchemaError

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records
    from kafka_sidecar.schemas.json_paths import JsonPaths
    from kafka_sidecar.schemas.masks import Mask

MAX_FAULTS = 1000  # of one batch that are looked for

MAX_TEXT = 1 << 20  # characters of a schema
MAX_TYPES = 10_000  # with those that it refers to
MAX_SCHEMA_DEPTH = 100  # declarations inside declarations
MAX_FIXED = 1 << 30  # bytes
MAX_PATH = 200  # characters that are shown
PRIMITIVE = {
    "null": NULL, "boolean": BOOLEAN, "int": INT, "long": LONG, "float": FLOAT, "double": DOUBLE, "bytes": BYTES,
    "string": STRING,
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,999}")
_NAMED = {"record": RECORD, "error": RECORD, "enum": ENUM, "fixed": FIXED}


class AvroSchemaError(ValueError):
    """An invalid Avro schema, or one over a limit. The message is one line with the place."""


class _UnknownNameError(AvroSchemaError):
    """A text refers to a name that is not declared yet."""


@dataclass(frozen=True, slots=True)
class AvroFault:
    """Why bytes are not a value of a schema; it quotes nothing of them."""

    path: str  # of names in the schema, as ``$.items[2].price``; a key of a map is ``{}``
    rule: str
    at: int  # bytes from the beginning of the value

    def __str__(self) -> str:
        return f"{self.path}: {self.rule} at byte {self.at}"


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema with all that it refers to."""

    name: str  # full name of a record, enum or fixed; else the type
    program: bytes  # for `walk`
    types: Mapping[int, AvroType]  # by their words in the program
    has_types: ClassVar[bool] = False

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str] = MappingProxyType({})) -> AvroSchema:
        """The schema of a text. Each reference, by what messages call it, declares names for it and the others.

        Raises:
            AvroSchemaError: a text is not a schema, refers to a name that no other declares, or is over a limit.
        """
        compiler = _Compiler()
        waiting = {name: _load(reference, f"{name}: ") for name, reference in references.items()}
        while waiting:  # in the order in which they refer to each other
            before, failed = len(waiting), None
            for name, reference in list(waiting.items()):
                try:
                    compiler.add(reference, f"{name}: $")
                    del waiting[name]
                except _UnknownNameError as error:
                    failed = error
            if failed is not None and len(waiting) == before:
                raise failed
        return compiler.finish(compiler.add(_load(text), "$"))

    def find_faults(
        self, records: Records, of_key: bool, skip: int, max_depth: int, framed: bool = False
    ) -> Iterator[tuple[int, str]]:
        data = records.payload
        for index, start, end in find_not_avro(records, of_key, skip, self.program, max_depth, MAX_FAULTS):
            if start + skip <= end:
                yield index, str(self.fault_of(data, start + skip, end, max_depth))

    def find_fault(
        self, data: bytes, start: int, end: int, max_depth: int = MAX_DEPTH, framed: bool = False
    ) -> str | None:
        fault = self.fault_of(data, start, end, max_depth)
        return None if fault is None else str(fault)

    def typed(self, indexes: bytes) -> AvroSchema:
        raise ValueError("Avro has no message indexes")

    def record_name(self, data: bytes, start: int, end: int, framed: bool = False) -> str | None:
        return self.name

    def decode(self, data: bytes, start: int, end: int, max_depth: int, framed: bool = False) -> Any:
        self._check(data, start, end, max_depth)
        return decode(self.types, data, start, end)

    def replace_fields(
        self, data: bytes, start: int, end: int, paths: JsonPaths, mask: Mask, framed: bool = False
    ) -> bytes:
        self._check(data, start, end, MAX_DEPTH)
        return replace_fields(self.types, data, start, end, paths, mask)

    def find_unmaskable(self, paths: JsonPaths, mask: Mask) -> list[str]:
        return find_unmaskable(self.types, paths, mask)

    def _check(self, data: bytes, start: int, end: int, max_depth: int) -> None:
        fault = self.fault_of(data, start, end, max_depth)
        if fault is not None:
            raise NotOfSchemaError(str(fault))

    def fault_of(self, data: bytes, start: int, end: int, max_depth: int = 128) -> AvroFault | None:
        """Why ``data[start:end]`` is not one value of this schema in the binary encoding, or None if it is.

        Raises:
            ValueError: the range is outside the data, or ``max_depth`` is over `MAX_DEPTH` levels.
        """
        if not (0 <= start <= end <= len(data) and 0 <= max_depth <= MAX_DEPTH):
            raise ValueError(f"invalid range {start} to {end} of {len(data)} bytes, or depth {max_depth}")
        stack = bytearray(STACK_BYTES)
        found = walk_long(self.program, data, start, end, stack, max_depth)
        if found == 0:
            return None
        return AvroFault(self._path(stack), REASONS[-found % 16], -found // 16 - start)

    def _path(self, stack: bytearray) -> str:
        path = "$"
        for level in range(_slot(stack, 0)):
            node, left, elements = (_slot(stack, 3 * level + part) for part in (1, 2, 3))
            about = self.types[node]
            if about.kind == RECORD:
                path += f".{about.names[left - 1]}" if left else ""
            elif elements:
                path += f"[{elements - 1}]" if about.kind == ARRAY else "{}"
            if len(path) > MAX_PATH:
                return f"{path[:MAX_PATH]}..."
        return path


def _slot(stack: bytearray, at: int) -> int:
    return int(struct.unpack_from("=q", stack, 8 * at)[0])


def _load(text: str, name: str = "") -> Any:
    if len(text) > MAX_TEXT:
        raise AvroSchemaError(f"{name}has {len(text)} characters: at most {MAX_TEXT} are read")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise AvroSchemaError(f"{name}is nested deeper than {MAX_SCHEMA_DEPTH} levels") from error
    except ValueError as error:
        raise AvroSchemaError(f"{name}is not JSON: {error}") from error


@dataclass(slots=True)
class _Node:
    kind: int
    size: int = 0  # of a fixed; symbols of an enum
    parts: Sequence[int] = ()  # nodes
    names: Sequence[str] = ()  # of fields; symbols
    default: int = 0  # symbol of an enum
    logical: Logical | None = None


class _Compiler:
    def __init__(self) -> None:
        self._nodes: list[_Node] = []
        self._named: dict[str, int] = {}
        self._primitive: dict[int, int] = {}

    def add(self, declared: Any, path: str) -> int:
        """The number of a type. What a text declares that cannot be understood yet is forgotten."""
        size, named = len(self._nodes), dict(self._named)
        try:
            return self._type(declared, "", path, 0)
        except _UnknownNameError:
            del self._nodes[size:]
            self._named = named
            self._primitive = {kind: number for kind, number in self._primitive.items() if number < size}
            raise

    def finish(self, root: int) -> AvroSchema:
        """The program: the first node is the root's copy, so that a walk begins at word 0."""
        nodes = [self._nodes[root], *self._nodes]
        at = 4 * len(nodes)
        words: list[int] = []
        links: list[int] = []
        types: dict[int, AvroType] = {}
        for number, node in enumerate(nodes):
            parts = [4 * (part + 1) for part in node.parts]
            if node.kind in (RECORD, UNION):
                words += [node.kind, at + len(links), len(parts), 0]
                links += parts
            elif node.kind in (ARRAY, MAP):
                words += [node.kind, parts[0], 0, 0]
            else:
                words += [node.kind, node.size, 0, 0]
            types[4 * number] = AvroType(
                node.kind, node.size, tuple(parts), tuple(node.names), node.default, node.logical
            )
        name = next((name for name, number in self._named.items() if number == root), None)
        kind = nodes[0].kind
        return AvroSchema(
            name or next((word for word, one in {**PRIMITIVE, **_COMPLEX}.items() if one == kind), "union"),
            struct.pack(f"={len(words) + len(links)}i", *words, *links),
            types,
        )

    def _new(self, node: _Node, path: str) -> int:
        if len(self._nodes) >= MAX_TYPES:
            raise AvroSchemaError(f"{path}: more than {MAX_TYPES} types")
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _type(self, declared: Any, namespace: str, path: str, depth: int) -> int:
        if depth > MAX_SCHEMA_DEPTH:
            raise AvroSchemaError(f"{path[:200]}: is nested deeper than {MAX_SCHEMA_DEPTH} levels")
        if isinstance(declared, str):
            return self._by_name(declared, namespace, path)
        if isinstance(declared, list):
            return self._union(declared, namespace, path, depth)
        if not isinstance(declared, dict):
            raise AvroSchemaError(f"{path}: is neither a name, a list nor an object")
        kind = declared.get("type")
        if not isinstance(kind, str):  # {"type": {"type": ...}}, as older tools write it
            return self._type(kind, namespace, f"{path}.type", depth + 1)
        if kind == "array":
            return self._new_of(ARRAY, declared, "items", namespace, path, depth)
        if kind == "map":
            return self._new_of(MAP, declared, "values", namespace, path, depth)
        if kind in _NAMED:
            return self._declare(kind, declared, namespace, path, depth)
        logical = logical_of(PRIMITIVE.get(kind, -1), declared)
        if logical is not None:  # a type of its own
            return self._new(_Node(PRIMITIVE[kind], logical=logical), path)
        return self._by_name(kind, namespace, path)

    def _by_name(self, name: str, namespace: str, path: str) -> int:
        kind = PRIMITIVE.get(name)
        if kind is not None:
            if kind not in self._primitive:
                self._primitive[kind] = self._new(_Node(kind), path)
            return self._primitive[kind]
        for full in (name, f"{namespace}.{name}") if "." in name or not namespace else (f"{namespace}.{name}", name):
            if full in self._named:
                return self._named[full]
        raise _UnknownNameError(f"{path}: {_shown(name)} is not a type, and no type of that name is declared before")

    def _new_of(self, kind: int, declared: Mapping[str, Any], part: str, namespace: str, path: str, depth: int) -> int:
        if part not in declared:
            raise AvroSchemaError(f"{path}: has no {part}")
        inner = self._type(declared[part], namespace, f"{path}.{part}", depth + 1)
        return self._new(_Node(kind, parts=(inner,)), path)

    def _union(self, declared: Sequence[Any], namespace: str, path: str, depth: int) -> int:
        parts = [self._type(one, namespace, f"{path}[{number}]", depth + 1) for number, one in enumerate(declared)]
        kinds = [self._nodes[part].kind for part in parts]
        if UNION in kinds:
            raise AvroSchemaError(f"{path}: a union is directly in a union")
        # Named types may be several; of each other type there is one (Avro 1.12, "Unions").
        of_kinds = [part if kind in _NAMED.values() else -1 - kind for part, kind in zip(parts, kinds, strict=True)]
        if len(set(of_kinds)) < len(parts):
            raise AvroSchemaError(f"{path}: a union has a type twice")
        return self._new(_Node(UNION, parts=parts), path)

    def _declare(self, kind: str, declared: Mapping[str, Any], namespace: str, path: str, depth: int) -> int:
        full, namespace = _full_name(declared, namespace, path)
        if full in self._named or full in PRIMITIVE:
            raise AvroSchemaError(f"{path}: {_shown(full)} is declared twice")
        node = _Node(_NAMED[kind])
        number = self._named[full] = self._new(node, path)  # before its fields: they may refer to it
        if kind == "enum":
            node.names = _symbols(declared, path)
            node.size = len(node.names)
            default = declared.get("default")
            node.default = node.names.index(default) if default in node.names else 0
        elif kind == "fixed":
            node.size = _fixed_size(declared, path)
            node.logical = logical_of(FIXED, declared, node.size)
        else:
            fields = list(_fields(declared, path))
            node.names = [name for name, _ in fields]
            node.parts = [self._type(type_, namespace, f"{path}.{name}", depth + 1) for name, type_ in fields]
            self._end(number, path)
        return number

    def _end(self, number: int, path: str) -> None:
        """A record that consists of itself has no value that ends."""
        inside, ahead = set(), [number]
        while ahead:
            node = self._nodes[ahead.pop()]
            for part in node.parts if node.kind == RECORD else ():
                if part == number:
                    raise AvroSchemaError(f"{path}: contains itself without an array, a map or a union between")
                if part not in inside:
                    inside.add(part)
                    ahead.append(part)


_COMPLEX = {"array": ARRAY, "map": MAP, "union": UNION}


def _shown(name: object) -> str:
    return repr(name if len(str(name)) <= 100 else str(name)[:100] + "...")


def _full_name(declared: Mapping[str, Any], namespace: str, path: str) -> tuple[str, str]:
    """The full name of a type, and the namespace for what is declared in it."""
    name, own = declared.get("name"), declared.get("namespace", namespace)
    if not isinstance(name, str) or not isinstance(own, str):
        raise AvroSchemaError(f"{path}: has no name, or a namespace that is not text")
    full = name if "." in name or not own else f"{own}.{name}"
    if not all(_NAME.fullmatch(part) for part in full.split(".")):
        raise AvroSchemaError(f"{path}: {_shown(full)} is not a name: use letters, digits and _, with dots between")
    return full, full.rpartition(".")[0]


def _symbols(declared: Mapping[str, Any], path: str) -> Sequence[str]:
    symbols = declared.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(one, str) and _NAME.fullmatch(one) for one in symbols):
        raise AvroSchemaError(f"{path}: symbols must be a list of names")
    if len(set(symbols)) < len(symbols):
        raise AvroSchemaError(f"{path}: has a symbol twice")
    return symbols


def _fixed_size(declared: Mapping[str, Any], path: str) -> int:
    size = declared.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_FIXED:
        raise AvroSchemaError(f"{path}: size must be a number of bytes from 0 to {MAX_FIXED}")
    return size


def _fields(declared: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    fields, seen = declared.get("fields"), set()
    if not isinstance(fields, list):
        raise AvroSchemaError(f"{path}: fields must be a list")
    for number, one in enumerate(fields):
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name) or "type" not in one:
            raise AvroSchemaError(f"{path}: field {number} has no type, or no name of letters, digits and _")
        if name in seen:
            raise AvroSchemaError(f"{path}: has the field {_shown(name)} twice")
        seen.add(name)
        yield name, one["type"]
