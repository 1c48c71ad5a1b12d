"""Readers: from a declaration and a version to a function that turns bytes into a value.

A run of fixed-size fields, with the length that follows it, is one `struct` call. A slice past the end of the bytes is
silently short, so every function compares its last position with the size before it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import unpack_from
from typing import Any, TypeVar, cast

from kafka_sidecar.codec.schema.codegen import Source
from kafka_sidecar.codec.schema.fields import FIXED, Field, is_struct
from kafka_sidecar.codec.schema.structs import Declaration, Struct
from kafka_sidecar.codec.wire import MAX_STRING_BYTES, Buffer, bad_length, read_known_tags, read_long_uvarint

S = TypeVar("S", bound=Struct)
Reader = Callable[[Buffer, int], tuple[S, int]]
FieldReader = Callable[[Buffer, int], tuple[Any, int]]

_built: dict[tuple[type, str, int], FieldReader] = {}
# The value of a slice, by wire type.
_SLICES = {
    "string": 'str(data[at:end], "utf-8", "surrogateescape")',
    "bytes": "bytes(data[at:end])",
    "records": "memoryview(data)[at:end] if end > at else b''",
}
_SIZES = dict(FIXED.values())
# Minimum size of a value that starts with a length: (compact, not compact).
_LENGTH_SIZES = {"string": (1, 2), "bytes": (1, 4), "records": (1, 4), "array": (1, 4)}


def reader(cls: type[S], version: int) -> Reader[S]:
    """The function that reads a ``cls``: ``(data, at) -> (value, position after it)``.

    Raises:
        UnsupportedVersionError: the declaration has no such version.
    """
    built = _built.get((cls, "", version))
    if built is None:
        cls.declaration_.check(version)
        built = _built[cls, "", version] = _build(cls, version)
    return cast("Reader[S]", built)


def field_reader(cls: type[Struct], name: str, version: int) -> FieldReader:
    """The function that reads one field, or the payload of one known tagged field: ``(data, at) -> (value, at)``."""
    built = _built.get((cls, name, version))
    if built is None:
        cls.declaration_.check(version)
        built = _built[cls, name, version] = _build_field(cls.declaration_, name, version)
    return built


class _ReaderSource(Source):
    def __init__(self, declaration: Declaration, version: int) -> None:
        super().__init__(declaration, version, "reader", bad_length, read_long_uvarint, read_known_tags, unpack_from)
        self._run: list[tuple[str, str]] = []  # (format character, name of the variable)

    def fixed(self, character: str, target: str) -> None:
        self._run.append((character, target))

    def flush(self) -> None:
        if self._run:
            characters = "".join(character for character, _ in self._run)
            targets = ", ".join(target for _, target in self._run)
            size = sum(_SIZES[character] for character, _ in self._run)
            self.add(f"({targets},) = {self.unpacker(characters)}(data, at)", f"at += {size}")
            self._run.clear()

    def length(self, kind: str, compact: bool, what: str) -> str:
        """Read the length of a string, array ...; -1 for null."""
        n = self.fresh("n")
        if not compact:
            self.fixed("h" if kind == "string" else "i", n)
            self.flush()
            return n
        self.flush()
        self.add(f"{n} = data[at] - 1", "at += 1")
        with self.block(f"if {n} > 126:"):
            self.add(f"{n}, at = read_long_uvarint(data, at, -1)", f"{n} -= 1")
            if kind == "string":
                self.add(f"if {n} > {MAX_STRING_BYTES}: {self.raise_bad_length(what, n)}")
        return n

    def value(self, kind: str, of: Any, target: str, compact: bool, nullable: bool, what: str) -> None:
        """Read one value of any kind into the variable ``target``."""
        if kind in FIXED:
            self.fixed(FIXED[kind][0], target)
        elif kind == "struct":
            self._struct(of, target, nullable)
        else:
            n = self.length(kind, compact, what)
            with self.block(f"if {n} >= 0:"):
                if kind == "array":
                    self._elements(of, n, target, compact, what)
                else:
                    self.add(f"end = at + {n}", f"{target} = {_SLICES[kind]}", "at = end")
            if nullable:
                self.add(f"elif {n} == -1: {target} = None")
            self.add(f"else: {self.raise_bad_length(what, n)}")

    def _struct(self, of: type[Struct], target: str, nullable: bool) -> None:
        there = self.fresh("there")
        if nullable:
            self.fixed("b", there)
        self.flush()
        read = f"{target}, at = {self.bind('read_' + of.__name__, reader(of, self.version))}(data, at)"
        self.add(f"if {there} < 0: {target} = None" if nullable else read)
        if nullable:
            self.add(f"else: {read}")

    def _elements(self, of: Any, n: str, target: str, compact: bool, what: str) -> None:
        self.add(
            f"if {n} * {self.min_bytes(of, compact)} > len(data) - at: raise TruncatedError(TITLE + ' ends early')"
        )
        if of in FIXED and of != "uuid":
            character, size = FIXED[of]
            self.add(f'{target} = unpack_from(f">{{{n}}}{character}", data, at)', f"at += {n} * {size}")
            return
        items, item = self.fresh("items"), self.fresh("item")
        self.add(f"{items} = []")
        with self.block(f"for _ in range({n}):"):
            self.value("struct" if is_struct(of) else of, of, item, compact, False, f"an element of {what}")
            self.flush()
            self.add(f"{items}.append({item})")
        self.add(f"{target} = tuple({items})")

    def min_bytes(self, of: Any, compact: bool) -> int:
        """The minimum size of one element; at least 1."""
        if not is_struct(of):
            return FIXED[of][1] if of in FIXED else _LENGTH_SIZES[of][0 if compact else 1]
        declaration: Declaration = of.declaration_
        size = sum(self._min_field_bytes(field) for field in declaration.plain(self.version))
        return max(size + declaration.is_flexible(self.version), 1)

    def _min_field_bytes(self, field: Field) -> int:
        if field.kind != "struct":
            return self.min_bytes(field.kind, self.is_compact(field.flexible))
        return 1 if self.version in field.nullable else self.min_bytes(field.of, True)


def _build(cls: type[Struct], version: int) -> FieldReader:
    declaration = cls.declaration_
    source = _ReaderSource(declaration, version)
    values = {f.name: source.bind(f"default_{f.name}", f.default) for f in declaration.fields}
    with source.block("def read(data, at):"), _guarded(source):
        for field in declaration.plain(version):
            values[field.name] = target = f"v_{field.name}"
            compact, nullable = source.is_compact(field.flexible), version in field.nullable
            source.value(field.kind, field.of, target, compact, nullable, field.name)
        source.flush()
        if declaration.is_flexible(version):
            _read_tag_section(source, values)
        source.add("if at > len(data): raise TruncatedError(TITLE + ' ends early')")
        tags = "tags" if declaration.is_flexible(version) else "()"
        source.bind("cls", cls)
        source.bind("new", tuple.__new__)
        source.add(f"return new(cls, ({''.join(value + ', ' for value in values.values())}{tags})), at")
    return source.function("read")


def _read_tag_section(source: _ReaderSource, values: dict[str, str]) -> None:
    declaration, version = source.declaration, source.version
    known = declaration.tagged(version)
    payloads = {f.tag: _build_field(declaration, f.name, version) for f in known}
    source.bind("known", payloads)
    for field in known:
        source.add(f"v_{field.name} = {values[field.name]}")
    source.add("tags = ()")
    with source.block("if data[at]:"):
        source.add("found, tags, at = read_known_tags(data, at, known)")
        for field in known:
            source.add(f"v_{field.name} = found.get({field.tag}, v_{field.name})")
            values[field.name] = f"v_{field.name}"
    source.add("else: at += 1")


def _build_field(declaration: Declaration, name: str, version: int) -> FieldReader:
    field = declaration.field(name, version)
    source = _ReaderSource(declaration, version)
    compact = True if version in field.tagged else source.is_compact(field.flexible)
    with source.block("def read(data, at):"), _guarded(source):
        source.value(field.kind, field.of, "value", compact, version in field.nullable, field.name)
        source.flush()
        source.add("if at > len(data): raise TruncatedError(TITLE + ' ends early')", "return value, at")
    return source.function("read")


@contextmanager
def _guarded(source: Source) -> Iterator[None]:
    """Turn errors at the end of the bytes into `TruncatedError`. Costs nothing if none is raised."""
    with source.block("try:"):
        yield
    source.add("except (IndexError, FormatError): raise TruncatedError(TITLE + ' ends early') from None")
