"""Skippers: skip fields without creating their values, to find the position of one.

Sizes of fixed fields are added up when the code is generated; it reads lengths at constant offsets from ``at`` and
moves ``at`` as rarely as possible. Every loop reads at least one byte per turn, so a hostile count stops at the end of
the bytes; an overrun is checked once, at the end. Null is accepted also where a reader rejects it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from kafka_sidecar.codec.errors import TooManyError, UnsupportedVersionError
from kafka_sidecar.codec.schema.codegen import Source
from kafka_sidecar.codec.schema.fields import FIXED, Field, is_struct
from kafka_sidecar.codec.schema.plans import TAGS
from kafka_sidecar.codec.schema.structs import Declaration, Struct
from kafka_sidecar.codec.wire import (
    LENGTH,
    MAX_STRING_BYTES,
    Buffer,
    bad_length,
    read_long_uvarint,
    read_uvarint,
    skip_tags,
)

Skipper = Callable[[Buffer, int], int]
Span = Callable[[Buffer, int], tuple[int, int]]
Counter = Callable[[Buffer, int, int], int]
ElementSpans = Callable[[Buffer, int], tuple[tuple[int, int], Iterator[tuple[int, int]]]]

_built: dict[tuple[object, ...], Callable[..., Any]] = {}


def skipper(cls: type[Struct], version: int, after: str | None = None, before: str | None = None) -> Skipper:
    """The function ``(data, at) -> at`` that skips the fields of a ``cls`` after ``after`` and before ``before``.

    ``at`` is the position of the field that follows ``after``, or of the struct. Without ``before`` everything is
    skipped, including the tag section; with `TAGS` everything but that.

    Raises:
        UnsupportedVersionError: this version does not have these fields outside its tag section.
    """
    key = (cls, version, after, before)
    built = _built.get(key)
    if built is None:
        built = _built[key] = _build_skipper(cls.declaration_, version, after, before)
    return built


def span(cls: type[Struct], name: str, version: int) -> Span:
    """The function ``(data, at) -> (start, end)`` that finds a field, or `TAGS`, of the ``cls`` at ``at``."""
    key = (cls, name, version)
    built = _built.get(key)
    if built is None:
        built = _built[key] = _build_span(cls.declaration_, name, version)
    return cast("Span", built)


def counter(cls: type[Struct], version: int) -> Counter:
    """The function ``(data, at, limit) -> count`` that counts the elements of all arrays of the ``cls`` at ``at``.

    It raises TooManyError as soon as the arrays of one name, nested ones too, have more than ``limit`` elements: before
    these are read.
    """
    key = (cls, version, "counter")
    built = _built.get(key)
    if built is None:
        built = _built[key] = _build_counter(cls.declaration_, version)
    return built


def element_spans(cls: type[Struct], name: str, version: int) -> ElementSpans:
    """The function ``(data, at) -> ((start, first), spans)`` that finds an array of structs in the ``cls`` at ``at``.

    The array's count is at ``start``, its first element at ``first``; ``spans`` gives the start and the end of each
    element, one after the other, and is read no faster than they are asked for.
    """
    before, field = skipper(cls, version, before=name), cls.declaration_.field(name, version)
    is_flexible, skip = cls.declaration_.is_flexible(version), skipper(field.of, version)

    def find(data: Buffer, at: int) -> tuple[tuple[int, int], Iterator[tuple[int, int]]]:
        start = before(data, at)
        count, first = read_uvarint(data, start) if is_flexible else (LENGTH.unpack_from(data, start)[0] + 1, start + 4)
        return (start, first), _spans(data, first, count - 1, skip)

    return find


def _spans(data: Buffer, at: int, count: int, skip: Skipper) -> Iterator[tuple[int, int]]:
    for _ in range(count):
        start, at = at, skip(data, at)
        yield start, at


class _SkipperSource(Source):
    def __init__(self, declaration: Declaration, version: int, purpose: str) -> None:
        super().__init__(declaration, version, purpose, bad_length, read_long_uvarint, skip_tags)
        self._ahead = 0  # how far the position is ahead of the variable `at`

    def settle(self, more: str = "") -> None:
        """Move `at` to the position, and by ``more``."""
        terms = [str(self._ahead)] * bool(self._ahead) + [more] * bool(more)
        if terms:
            self.add(f"at += {' + '.join(terms)}")
        self._ahead = 0

    def here(self) -> str:
        return f"at + {self._ahead}" if self._ahead else "at"

    def field(self, field: Field) -> None:
        compact, nullable = self.is_compact(field.flexible), self.version in field.nullable
        self.value(field.kind, field.of, compact, nullable, field.name)

    def value(self, kind: str, of: Any, compact: bool, nullable: bool, what: str) -> None:
        if kind in FIXED:
            self._ahead += FIXED[kind][1]
        elif kind == "struct" and nullable:
            self.settle()
            self.add("at += 1")
            with self.block("if data[at - 1] < 128:"):
                self.struct(of.declaration_)
                self.settle()
        elif kind == "struct":
            self.struct(of.declaration_)
        elif kind != "array":
            self._bytes(kind, 1, compact, what)
        else:
            self._array(of, compact, what)

    def struct(self, declaration: Declaration) -> None:
        for field in declaration.plain(self.version):
            self.field(field)
        if declaration.is_flexible(self.version):
            self.tags()

    def tags(self) -> None:
        with self.block(f"if data[{self.here()}]:"):
            self.add(f"at = skip_tags(data, {self.here()}) - {self._ahead + 1}")
        self._ahead += 1

    def _bytes(self, kind: str, size: int, compact: bool, what: str) -> None:
        """Skip a length and as many times ``size`` bytes."""
        n = self._length(kind, compact, what)
        times = f" * {size}" if size != 1 else ""
        if compact:
            # The length is the count plus one; 0 (null) takes as many bytes as 1.
            self._ahead -= size
            self.settle(f"({n}{times} or {size})")
            return
        self.settle()
        self.add(f"if {n} > 0: at += {n}{times}", f"elif {n} < -1: {self.raise_bad_length(what, n)}")

    def _length(self, kind: str, compact: bool, what: str) -> str:
        n = self.fresh("n")
        if compact:
            self.add(f"{n} = data[{self.here()}]")
            with self.block(f"if {n} > 127:"):
                self.add(f"{n}, at = read_long_uvarint(data, at, {self._ahead})")
                if kind == "string":
                    self.add(f"if {n} > {MAX_STRING_BYTES + 1}: {self.raise_bad_length(what, f'{n} - 1')}")
            self._ahead += 1
        else:
            character = "h" if kind == "string" else "i"
            self.add(f"({n},) = {self.unpacker(character)}(data, {self.here()})")
            self._ahead += 2 if kind == "string" else 4
        return n

    def _array(self, of: Any, compact: bool, what: str) -> None:
        size = self._fixed_size(of)
        if size is not None:
            self._bytes("array", size, compact, what)
            return
        n = self._length("array", compact, what)
        self.settle()
        if not compact:
            self.add(f"if {n} < -1: {self.raise_bad_length(what, n)}")
        with self.block(f"for _ in range({n} - 1):" if compact else f"for _ in range({n}):"):
            self.value("struct" if is_struct(of) else of, of, compact, False, what)
            self.settle()

    def _fixed_size(self, of: Any) -> int | None:
        """The size of an element if it is the same for all."""
        if not is_struct(of):
            return FIXED[of][1] if of in FIXED else None
        kinds = [field.kind for field in of.declaration_.plain(self.version)]
        if of.declaration_.is_flexible(self.version) or any(kind not in FIXED for kind in kinds):
            return None
        return sum(FIXED[kind][1] for kind in kinds)

    def finish(self, result: str) -> Callable[..., Any]:
        self.settle()
        self.add("if at > len(data): raise TruncatedError(TITLE + ' ends early')", f"return {result}")
        self.close()
        self.add("except (IndexError, FormatError): raise TruncatedError(TITLE + ' ends early') from None")
        return self.function("skip")


class _CounterSource(_SkipperSource):
    """Has a variable for the number of elements in arrays of each name."""

    def _array(self, of: Any, compact: bool, what: str) -> None:
        n, total = self._length("array", compact, what), f"total_{what}"
        self.settle()
        if compact:
            self.add(f"{n} = max({n} - 1, 0)")
        else:
            self.add(f"if {n} < -1: {self.raise_bad_length(what, n)}", f"{n} = max({n}, 0)")
        self.add(f"{total} += {n}")
        self.add(f"if {total} > limit: raise TooManyError(f'{{{total}}} {what}, more than {{limit}}')")
        if (size := self._fixed_size(of)) is not None:
            self.settle(f"{n} * {size}")
            return
        with self.block(f"for _ in range({n}):"):
            self.value("struct" if is_struct(of) else of, of, compact, False, what)
            self.settle()

    def arrays(self, declaration: Declaration) -> Iterator[str]:
        """The names of all arrays, nested ones too."""
        for field in declaration.plain(self.version):
            if field.kind == "array":
                yield field.name
            if field.kind in ("array", "struct") and is_struct(field.of):
                yield from self.arrays(field.of.declaration_)


def _build_counter(declaration: Declaration, version: int) -> Counter:
    declaration.check(version)
    source = _CounterSource(declaration, version, "counter")
    source.bind("TooManyError", TooManyError)
    totals = sorted({f"total_{array}" for array in source.arrays(declaration)})
    source.open("def skip(data, at, limit):")
    source.add(*(f"{total} = 0" for total in totals))
    source.open("try:")
    for field in declaration.plain(version):
        source.field(field)
    return source.finish(" + ".join(totals) or "0")


def _begin(declaration: Declaration, version: int, purpose: str) -> _SkipperSource:
    declaration.check(version)
    source = _SkipperSource(declaration, version, purpose)
    source.open("def skip(data, at):")
    source.open("try:")
    return source


def _build_skipper(declaration: Declaration, version: int, after: str | None, before: str | None) -> Skipper:
    source = _begin(declaration, version, "skipper")
    fields = declaration.plain(version)
    start = 0 if after is None else _index(declaration, version, after) + 1
    end = len(fields) if before in (None, TAGS) else _index(declaration, version, before)
    for field in fields[start:end]:
        source.field(field)
    if before is None and declaration.is_flexible(version):
        source.tags()
    return cast("Skipper", source.finish("at"))


def _build_span(declaration: Declaration, name: str, version: int) -> Span:
    source = _begin(declaration, version, "span")
    fields = declaration.plain(version)
    at = len(fields) if name == TAGS else _index(declaration, version, name)
    for field in fields[:at]:
        source.field(field)
    source.settle()
    source.add("start = at")
    if name != TAGS:
        source.field(fields[at])
    elif declaration.is_flexible(version):
        source.tags()
    return cast("Span", source.finish("(start, at)"))


def _index(declaration: Declaration, version: int, name: str) -> int:
    for index, field in enumerate(declaration.plain(version)):
        if field.name == name:
            return index
    raise UnsupportedVersionError(f"{declaration.name} v{version} has no field {name} outside its tagged fields")
