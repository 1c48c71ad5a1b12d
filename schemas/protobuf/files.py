"""The files of a schema, in a pool of descriptors of their own.

Texts and descriptors are hostile input: their size, number, depth and what they declare have limits, and an import
leads to what was given with the schema, or to a file that always is there.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError

from kafka_sidecar.schemas.protobuf.errors import ProtobufSchemaError
from kafka_sidecar.schemas.protobuf.known_files import KNOWN_FILES
from kafka_sidecar.schemas.protobuf.text import MAX_SHOWN, parse_proto

MAX_TEXT = 1 << 20  # characters of a text, bytes of a descriptor
MAX_BYTES = 8 << 20  # of all files together
MAX_FILES = 1000
MAX_IMPORTS = 100  # files that import each other in a row
MAX_TYPES = 10_000
MAX_FIELDS = 100_000  # and numbers of enums
MAX_NESTING = 64  # types in types
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]{2,}={0,2}\s*")
_ALWAYS_THERE = re.compile(
    r"google/protobuf/(any|api|descriptor|duration|empty|field_mask|source_context|struct|timestamp|type|wrappers)\.proto"
)
_OPTIONS_ALONE = re.compile(r"google/protobuf/(cpp|csharp|go|java)_features\.proto")  # no value depends on them


class Files:
    """A file and those that it imports, in a pool."""

    def __init__(self, root: str | bytes, references: Mapping[str, str]) -> None:
        """``root`` and references are texts, or descriptors: bytes, or bytes in base64.

        Raises:
            ProtobufSchemaError: one of them is invalid, is not there, or is over a limit.
        """
        self.pool = descriptor_pool.DescriptorPool()
        self.syntax: dict[str, str] = {}  # of the files by their names
        self._references = references
        self._types = self._fields = self._bytes = 0
        self.name = "the schema"
        while self.name in references:
            self.name = f"_{self.name}"
        self._add_all(root)

    def _add_all(self, root: str | bytes) -> None:
        """Add files in the order in which they import each other, the imported ones first."""
        first = self._load(self.name, root)
        ahead = [(first, list(first.dependency))]
        open_files = {self.name}
        while ahead:
            file, imports = ahead[-1]
            if not imports:
                ahead.pop()
                open_files.remove(file.name)
                self._add(file)
                continue
            name = imports.pop()
            if name in self.syntax:
                continue
            if name in open_files:
                raise ProtobufSchemaError(f"{self._called(file.name)}imports {_shown(name)}, which imports it")
            if len(ahead) >= MAX_IMPORTS:
                raise ProtobufSchemaError(f"more than {MAX_IMPORTS} files import each other in a row")
            imported = self._import(name, file.name)
            open_files.add(name)
            ahead.append((imported, list(imported.dependency)))

    def _import(self, name: str, importer: str) -> Any:
        if (known := _ALWAYS_THERE.fullmatch(name)) is not None:
            module = import_module(f"google.protobuf.{known[1]}_pb2")
            return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        if name in self._references:
            return self._load(name, self._references[name])
        if name in KNOWN_FILES:
            return self._load(name, KNOWN_FILES[name])
        if _OPTIONS_ALONE.fullmatch(name) is not None:
            return descriptor_pb2.FileDescriptorProto(name=name)
        raise ProtobufSchemaError(f"{self._called(importer)}imports {_shown(name)}, which did not come with the schema")

    def _load(self, name: str, source: str | bytes) -> Any:
        self._bytes += len(source)
        if len(source) > MAX_TEXT:
            raise ProtobufSchemaError(f"{self._called(name)}has {len(source)} characters: at most {MAX_TEXT} are read")
        if self._bytes > MAX_BYTES:
            raise ProtobufSchemaError(f"the files have more than {MAX_BYTES} characters")
        try:
            file = parse_proto(source) if isinstance(source, str) and not _BASE64.fullmatch(source) else _decode(source)
        except ProtobufSchemaError as error:
            raise ProtobufSchemaError(f"{self._called(name)}{error}") from error
        file.name = name
        file.ClearField("source_code_info")
        self._count(file, name)
        return file

    def _count(self, file: Any, name: str) -> None:
        ahead = [(one, 0) for one in file.message_type]
        enums = list(file.enum_type)
        self._fields += len(file.extension)
        while ahead:
            message, depth = ahead.pop()
            if depth > MAX_NESTING:
                raise ProtobufSchemaError(f"{self._called(name)}types are nested deeper than {MAX_NESTING} levels")
            if message.options.message_set_wire_format:
                raise ProtobufSchemaError(
                    f"{self._called(name)}{_shown(message.name)} has message_set_wire_format, which is not supported"
                )
            ahead += [(one, depth + 1) for one in message.nested_type]
            enums += message.enum_type
            self._types += 1
            self._fields += len(message.field) + len(message.extension)
            self._limit()
        self._types += len(enums)
        self._fields += sum(len(enum.value) for enum in enums)
        self._limit()

    def _limit(self) -> None:
        if self._types > MAX_TYPES or self._fields > MAX_FIELDS:
            raise ProtobufSchemaError(f"more than {MAX_TYPES} types, or {MAX_FIELDS} fields and numbers of enums")

    def _add(self, file: Any) -> None:
        if len(self.syntax) >= MAX_FILES:
            raise ProtobufSchemaError(f"more than {MAX_FILES} files import each other")
        try:
            self.pool.AddSerializedFile(file.SerializeToString())
        except (TypeError, ValueError) as error:
            raise ProtobufSchemaError(f"{self._called(file.name)}{_reason(error)}") from error
        self.syntax[file.name] = file.syntax

    def _called(self, name: str) -> str:
        return "" if name == self.name else f"{_shown(name)}: "


def _decode(source: str | bytes) -> Any:
    try:
        data = source if isinstance(source, bytes) else base64.b64decode("".join(source.split()), validate=True)
        return descriptor_pb2.FileDescriptorProto.FromString(data)
    except (DecodeError, binascii.Error) as error:
        raise ProtobufSchemaError("is neither a text in Protobuf's language nor a descriptor of a file") from error


def _reason(error: Exception) -> str:
    """What the pool says, in one line."""
    text = (str(error) or "is not valid").splitlines()[0]
    text = text.removeprefix("Couldn't build proto file into descriptor pool: ")
    return text if len(text) <= 200 else f"{text[:200]}..."


def _shown(name: str) -> str:
    return repr(name if len(name) <= MAX_SHOWN else f"{name[:MAX_SHOWN]}...")
