"""Writers: from a declaration and a version to a function that turns a value into bytes.

Nested writers append their pieces to the list of the root, which joins them once; record sets are copied only then.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeVar, cast

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.schema.codegen import Source
from kafka_sidecar.codec.schema.fields import FIXED, is_struct
from kafka_sidecar.codec.schema.structs import Declaration, Struct
from kafka_sidecar.codec.wire import MAX_STRING_BYTES, write_tags, write_uvarint

S = TypeVar("S", bound=Struct)
Writer = Callable[[S], bytes]
FieldWriter = Callable[[Any], bytes]
_Appender = Callable[[Any, Callable[[bytes], None]], None]

_built: dict[tuple[type, str, int], FieldWriter] = {}
_appenders: dict[tuple[type, int], _Appender] = {}


def writer(cls: type[S], version: int) -> Writer[S]:
    """The function that writes a ``cls``: ``(value) -> bytes``.

    Raises:
        UnsupportedVersionError: the declaration has no such version.
    """
    built = _built.get((cls, "", version))
    if built is None:
        cls.declaration_.check(version)
        built = _built[cls, "", version] = _joined(_appender(cls, version), f"{cls.__name__} v{version}")
    return cast("Writer[S]", built)


def field_writer(cls: type[Struct], name: str, version: int) -> FieldWriter:
    """The function that writes one field, or the payload of one known tagged field: ``(value) -> bytes``."""
    built = _built.get((cls, name, version))
    if built is None:
        cls.declaration_.check(version)
        built = _built[cls, name, version] = _build_field(cls.declaration_, name, version)
    return built


def _joined(append: _Appender, title: str) -> FieldWriter:
    def write(value: Any) -> bytes:
        parts: list[bytes] = []
        try:
            append(value, parts.append)
            return b"".join(parts)
        except (AttributeError, OverflowError, TypeError, ValueError, struct.error) as error:
            raise CodecError(f"{title} cannot be written: {error}") from error

    return write


class _WriterSource(Source):
    def __init__(self, declaration: Declaration, version: int) -> None:
        super().__init__(declaration, version, "writer", struct.pack, write_tags, write_uvarint)
        self._run: list[tuple[str, str]] = []  # (format character, expression)

    def fixed(self, character: str, expression: str) -> None:
        self._run.append((character, expression))

    def flush(self) -> None:
        if self._run:
            characters = "".join(character for character, _ in self._run)
            self.add(f"put({self.packer(characters)}({', '.join(expression for _, expression in self._run)}))")
            self._run.clear()

    def length(self, kind: str, compact: bool, length: str) -> None:
        if compact:
            self.flush()
            self.add(f"put(write_uvarint({length} + 1))")
        else:
            self.fixed("h" if kind == "string" else "i", length)

    def value(self, kind: str, of: Any, x: str, compact: bool, nullable: bool) -> None:
        """Write the value of the variable ``x``."""
        if kind == "uuid":
            self.add(f"if len({x}) != 16: raise CodecError(TITLE + ' has an id that is not 16 bytes')")
        if kind in FIXED:
            self.fixed(FIXED[kind][0], x)
        elif nullable:
            # A run of fixed fields cannot span both branches.
            self.flush()
            with self.block(f"if {x} is None:"):
                self.add(f"put({self._null(kind, compact)!r})")
            with self.block("else:"):
                if kind == "struct":
                    self.fixed("b", "1")
                self._present(kind, of, x, compact)
                self.flush()
        else:
            self._present(kind, of, x, compact)

    def _null(self, kind: str, compact: bool) -> bytes:
        if kind == "struct":
            return b"\xff"
        if compact:
            return b"\0"
        return b"\xff" * (2 if kind == "string" else 4)

    def _present(self, kind: str, of: Any, x: str, compact: bool) -> None:
        if kind == "struct":
            self.flush()
            self.add(f"{self.bind('append_' + of.__name__, _appender(of, self.version))}({x}, put)")
            return
        if kind == "string":
            raw = self.fresh("raw")
            self.add(f'{raw} = {x}.encode("utf-8", "surrogateescape")')
            self.add(f"if len({raw}) > {MAX_STRING_BYTES}: raise CodecError(TITLE + ' has a string that is too long')")
            x = raw
        self.length(kind, compact, f"len({x})")
        self.flush()
        if kind == "array":
            self._elements(of, x, compact)
        else:
            self.add(f"put({x})")

    def _elements(self, of: Any, x: str, compact: bool) -> None:
        if of in FIXED and of != "uuid":
            self.add(f'put(pack(f">{{len({x})}}{FIXED[of][0]}", *{x}))')
            return
        item = self.fresh("item")
        with self.block(f"for {item} in {x}:"):
            self.value("struct" if is_struct(of) else of, of, item, compact, False)
            self.flush()


def _appender(cls: type[Struct], version: int) -> _Appender:
    built = _appenders.get((cls, version))
    if built is None:
        built = _appenders[cls, version] = _build(cls.declaration_, version)
    return built


def _build(declaration: Declaration, version: int) -> _Appender:
    source = _WriterSource(declaration, version)
    with source.block("def append(value, put):"):
        source.add(f"({''.join(f'v_{f.name}, ' for f in declaration.fields)}tags) = value")
        for field in declaration.plain(version):
            compact, nullable = source.is_compact(field.flexible), version in field.nullable
            source.value(field.kind, field.of, f"v_{field.name}", compact, nullable)
        source.flush()
        if declaration.is_flexible(version):
            _write_tag_section(source)
        source.add("return")
    return source.function("append")


def _write_tag_section(source: _WriterSource) -> None:
    """Known tagged fields are written if they differ from their default, as Kafka does."""
    known = source.declaration.tagged(source.version)
    for field in known:
        write = source.bind(f"write_{field.name}", _build_field(source.declaration, field.name, source.version))
        default = source.bind(f"default_{field.name}", field.default)
        x = f"v_{field.name}"
        source.add(f"if {x} is not {default} and {x} != {default}:", f" tags = (*tags, ({field.tag}, {write}({x})))")
    source.add("put(write_tags(tags) if tags else b'\\0')")


def _build_field(declaration: Declaration, name: str, version: int) -> FieldWriter:
    field = declaration.field(name, version)
    source = _WriterSource(declaration, version)
    compact = True if version in field.tagged else source.is_compact(field.flexible)
    with source.block("def append(value, put):"):
        source.value(field.kind, field.of, "value", compact, version in field.nullable)
        source.flush()
    return _joined(source.function("append"), f"{name} of {source.title}")
