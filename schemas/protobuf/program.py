"""The types of a pool as a program for `walk`."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from kafka_sidecar.schemas.protobuf.files import Files
from kafka_sidecar.schemas.protobuf.walk import (
    BYTES,
    ENUM,
    FIXED32,
    FIXED64,
    GROUP,
    MESSAGE,
    NO_FIELDS,
    REPEATED,
    STRING,
    VARINT,
)

_KINDS = {
    FieldDescriptor.TYPE_DOUBLE: FIXED64, FieldDescriptor.TYPE_FIXED64: FIXED64,
    FieldDescriptor.TYPE_SFIXED64: FIXED64, FieldDescriptor.TYPE_FLOAT: FIXED32,
    FieldDescriptor.TYPE_FIXED32: FIXED32, FieldDescriptor.TYPE_SFIXED32: FIXED32,
    FieldDescriptor.TYPE_STRING: STRING, FieldDescriptor.TYPE_BYTES: BYTES,
    FieldDescriptor.TYPE_MESSAGE: MESSAGE, FieldDescriptor.TYPE_GROUP: GROUP,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Type:
    """A type of message, as the program has it."""

    descriptor: Any
    fields: Sequence[Any]  # descriptors, with those of extensions, in the order of the program
    required: Sequence[Any]

    @property
    def is_entry(self) -> bool:
        return bool(self.descriptor.GetOptions().map_entry)


@dataclass(frozen=True, slots=True)
class Program:
    words: bytes
    other_words: bytes | None  # the same, where message indexes count in another way: without the entries of maps
    types: Mapping[int, Type]  # by their words
    nodes: Mapping[str, int]  # words by full names
    first: int | None  # the first type of the file
    count: int  # of types that the file declares

    @property
    def requires(self) -> bool:
        return any(one.required for one in self.types.values())


def compile_program(files: Files) -> Program:
    """A program for all types of the file, and all that they consist of."""
    return _Compiler(files).program()


class _Compiler:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._nodes: dict[str, int] = {}
        self._ahead: list[Any] = []
        self._rest: list[int] = []  # the words after those of the types
        self._base = 0
        self._is_ambiguous = False  # a type comes after the entry of a map

    def program(self) -> Program:
        file = self._files.pool.FindFileByName(self._files.name)
        roots = list(file.message_types_by_name.values())
        types = self._types_of(roots)
        self._base = NO_FIELDS + 4 + 4 * len(types)
        words = []
        for one in types:
            words += [self._base + len(self._rest), len(one.fields), len(one.required), 0]
            self._add_fields(one)
        trees = [self._tree(roots, counted) for counted in (True, False)]
        packed = []
        for tree in trees:
            all_words = [tree, 0, 0, 0, self._base, 0, 0, 0, *words, *self._rest]
            packed.append(struct.pack(f"={len(all_words)}i", *all_words))
        return Program(
            packed[0],
            packed[1] if self._is_ambiguous else None,
            {self._nodes[one.descriptor.full_name]: one for one in types},
            self._nodes,
            self._nodes[roots[0].full_name] if roots else None,
            sum(1 for one in types if one.descriptor.file.name == self._files.name and not one.is_entry),
        )

    def _types_of(self, roots: Sequence[Any]) -> list[Type]:
        types: list[Type] = []
        self._ahead = list(reversed(roots))
        while self._ahead:
            descriptor = self._ahead.pop()
            if descriptor.full_name in self._nodes:
                continue
            self._nodes[descriptor.full_name] = NO_FIELDS + 4 + 4 * len(types)
            extensions = self._files.pool.FindAllExtensions(descriptor) if descriptor.is_extendable else ()
            fields = sorted((*descriptor.fields, *extensions), key=lambda field: field.number)
            required = [field for field in fields if field.is_required]
            types.append(Type(descriptor, fields, required))
            self._ahead += [field.message_type for field in fields if field.message_type is not None]
            self._ahead += descriptor.nested_types
        return types

    def _add_fields(self, one: Type) -> None:
        enums: list[tuple[int, Any]] = []
        bits = {field.number: bit for bit, field in enumerate(one.required)}
        for field in one.fields:
            kind, target = _KINDS.get(field.type, VARINT), 0
            if kind in (MESSAGE, GROUP):
                target = self._nodes[field.message_type.full_name]
            elif kind == STRING and not self._is_utf8(field):
                kind = BYTES
            elif field.enum_type is not None and field.enum_type.is_closed:
                kind = ENUM
                enums.append((len(self._rest) + 2, field.enum_type))
            if field.is_repeated:
                kind |= REPEATED
            self._rest += (field.number, kind, target, bits.get(field.number, -1))
        for at, enum in enums:
            self._rest[at] = self._enum(enum)

    def _enum(self, enum: Any) -> int:
        if enum.full_name not in self._nodes:
            self._nodes[enum.full_name] = self._base + len(self._rest)
            numbers = sorted(enum.values_by_number)
            self._rest += (len(numbers), *numbers)
        return self._nodes[enum.full_name]

    def _tree(self, types: Sequence[Any], counted: bool) -> int:
        """The types of a file, or in a type, in the order in which message indexes count them.

        Serializers that work with descriptors count the entries of maps, those that work with texts have none.
        """
        entries = [bool(one.GetOptions().map_entry) for one in types]
        self._is_ambiguous = self._is_ambiguous or sorted(entries) != entries
        if not counted:
            types = [one for one, is_entry in zip(types, entries, strict=True) if not is_entry]
        below = [self._tree(one.nested_types, counted) for one in types]
        at = self._base + len(self._rest)
        self._rest.append(len(types))
        for one, tree in zip(types, below, strict=True):
            self._rest += (self._nodes[one.full_name], tree)
        return at

    def _is_utf8(self, field: Any) -> bool:
        syntax = self._files.syntax[field.file.name]
        if syntax != "editions":
            return syntax == "proto3"
        for options in (field.GetOptions(), field.file.GetOptions()):
            if options.features.utf8_validation:
                return bool(options.features.utf8_validation == options.features.VERIFY)
        return True
