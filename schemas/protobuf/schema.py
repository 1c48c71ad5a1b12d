"""Protobuf schemas: what they accept, as `walk` defines it, and the values."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kafka_sidecar.codec.checkpoint import checkpoint
from kafka_sidecar.schemas.language import NotOfSchemaError
from kafka_sidecar.schemas.protobuf.errors import ProtobufSchemaError
from kafka_sidecar.schemas.protobuf.walk import (
    FRAMED,
    FRAMED_ANY,
    IGNORE_REQUIRED,
    LEVEL,
    MAX_DEPTH,
    OTHER_MESSAGE,
    REASONS,
    REJECT_UNKNOWN,
    REQUIRED,
    STACK_BYTES,
    find_not_protobuf,
    read_indexes,
    walk_long,
)

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records
    from kafka_sidecar.schemas.json_paths import JsonPaths
    from kafka_sidecar.schemas.masks import Mask
    from kafka_sidecar.schemas.protobuf.program import Program, Type

try:
    from google.protobuf import message_factory
    from google.protobuf.message import DecodeError

    from kafka_sidecar.schemas.protobuf import masks
    from kafka_sidecar.schemas.protobuf.files import Files
    from kafka_sidecar.schemas.protobuf.program import compile_program
    from kafka_sidecar.schemas.protobuf.values import Reader
except ImportError:  # an extra
    message_factory = None

NOT_INSTALLED = "Protobuf is not installed; in a clone, pip install '.[schemas]'"
MAX_FAULTS = 1000  # of one batch that are looked for
MAX_PATH = 200  # characters that are shown
MAX_NAME = 60
_SUSPECTS = 1 << 16  # of one batch that are confirmed at a time
_NO_FILES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ProtobufFault:
    """Why bytes are not a message of a schema; it quotes nothing of them."""

    path: str  # of names in the schema, as ``$.items[2].price``; a key of a map is ``{}``
    rule: str
    at: int  # bytes from the beginning of the value

    def __str__(self) -> str:
        return f"{self.path}: {self.rule} at byte {self.at}"


class ProtobufSchema:
    """A type of message in a file, with all that the file imports.

    Framed values begin with message indexes, which name any type in the file, unless one was chosen.
    """

    def __init__(
        self,
        source: str | bytes,
        references: Mapping[str, str] = _NO_FILES,
        message: str | None = None,
        reject_unknown: bool = False,
    ) -> None:
        """As `parse` and `from_descriptor`, for either."""
        if message_factory is None:
            raise ProtobufSchemaError(NOT_INSTALLED)
        self._files = Files(source, references)
        self._program: Program = compile_program(self._files)
        self._reader = Reader()
        self._classes: dict[int, Any] = {}
        self._words = self._program.words
        self._other_words = self._program.other_words
        # What the walk rejects is only a suspicion then.
        self.is_confirmed = self._program.requires or self._other_words is not None
        self._flags = REJECT_UNKNOWN if reject_unknown else 0
        if self._program.first is None:
            raise ProtobufSchemaError("declares no message")
        self._choose(self._program.first)
        self._framed = FRAMED_ANY
        if message is not None:
            self._choose(self._node_of(message))
            self._framed = FRAMED

    @classmethod
    def parse(
        cls,
        text: str,
        references: Mapping[str, str] = _NO_FILES,
        message: str | None = None,
        reject_unknown: bool = False,
    ) -> ProtobufSchema:
        """The schema of a .proto file.

        Args:
            text: the file; or its serialized descriptor in base64, which some clients register as text.
            references: others that it may import, by the paths that imports have; texts or descriptors, too.
            message: a type in the file, by its full name, or without the package. Else the first one.
            reject_unknown: whether fields, and numbers of closed enums, that the schema does not have are faults.

        Raises:
            ProtobufSchemaError: a file is invalid, imports what is not there, or is over a limit; or has no such type.
        """
        return cls(text, references, message, reject_unknown)

    @classmethod
    def from_descriptor(
        cls,
        descriptor: bytes,
        references: Mapping[str, str] = _NO_FILES,
        message: str | None = None,
        reject_unknown: bool = False,
    ) -> ProtobufSchema:
        """The schema of a serialized FileDescriptorProto. Raises ProtobufSchemaError, as `parse` does."""
        return cls(bytes(descriptor), references, message, reject_unknown)

    def with_message(self, name: str) -> ProtobufSchema:
        """The same file with another type. Raises ProtobufSchemaError if it has none of that name."""
        return self._of(self._node_of(name))

    def typed(self, indexes: bytes) -> ProtobufSchema:
        at, node = read_indexes(self._words, indexes, 0, len(indexes))
        if at != len(indexes):
            raise ProtobufSchemaError("message indexes that name no type of the file")
        return self._of(node)

    @property
    def has_types(self) -> bool:
        return self._framed == FRAMED_ANY and self._program.count > 1

    def find_faults(
        self, records: Records, of_key: bool, skip: int, max_depth: int, framed: bool = False
    ) -> Iterator[tuple[int, str]]:
        first = faults = 0
        limit = _SUSPECTS if self.is_confirmed else MAX_FAULTS
        while True:
            found = find_not_protobuf(
                records, of_key, skip, self._words, self._node, self._framed if framed else 0,
                min(max_depth, MAX_DEPTH), self._flags, first, limit,
            )  # fmt: skip
            for number, (index, start, end) in enumerate(found):
                if number & 127 == 127:
                    checkpoint()
                fault = self.fault_of(records.payload, start, end, max_depth, framed)
                if fault is not None:
                    yield index, str(fault)
                    faults += 1
                    if faults >= MAX_FAULTS:
                        return
            if len(found) < limit:
                return
            first = found[-1][0] + 1

    def find_fault(
        self, data: bytes, start: int, end: int, max_depth: int = MAX_DEPTH, framed: bool = False
    ) -> str | None:
        fault = self.fault_of(data, start, end, max_depth, framed)
        return None if fault is None else str(fault)

    def record_name(self, data: bytes, start: int, end: int, framed: bool = False) -> str | None:
        node = self._named(data, start, end, MAX_DEPTH)[1] if framed else self._node
        return None if node is None else str(self._program.types[node].descriptor.full_name)

    def decode(self, data: bytes, start: int, end: int, max_depth: int = MAX_DEPTH, framed: bool = False) -> Any:
        """A dict by the names in the schema; of the types that stand for a value (Timestamp, wrappers), that value.

        As in Protobuf's JSON, a field without presence is always there, with its default if need be; one with presence,
        such as a message, an ``optional`` one or a part of a oneof, is there only if it was written.
        """
        at, node = self._checked(data, start, end, max_depth, framed)
        return self._reader.value_of(self._message(node, data[at:end]))

    def fault_of(
        self, data: bytes, start: int, end: int, max_depth: int = MAX_DEPTH, framed: bool = False
    ) -> ProtobufFault | None:
        """Why ``data[start:end]`` is not a message of this type, or None if it is.

        Raises:
            ValueError: the range is outside the data.
        """
        if not 0 <= start <= end <= len(data) or max_depth < 0:
            raise ValueError(f"invalid range {start} to {end} of {len(data)} bytes, or depth {max_depth}")
        fault = self._fault_of(self._words, data, start, end, max_depth, framed)
        other = self._other_words if fault is not None and framed else None
        if other is not None and self._fault_of(other, data, start, end, max_depth, framed) is None:
            return None
        return fault

    def _fault_of(
        self, words: bytes, data: bytes, start: int, end: int, max_depth: int, framed: bool
    ) -> ProtobufFault | None:
        stack, flags, depth = bytearray(STACK_BYTES), self._flags, min(max_depth, MAX_DEPTH)
        args = (words, self._node, self._framed if framed else 0, data, start, end, stack, depth)
        found = walk_long(*args, flags)
        if found == 0:
            return None
        if -found % 16 == REQUIRED:
            # Another occurrence of the message may have what this one lacks: what follows, then upb's merged message.
            path = self._path(stack, True)
            if (other := walk_long(*args, flags | IGNORE_REQUIRED)) == 0:
                at, node = read_indexes(words, data, start, end) if framed else (start, self._node)
                if self._message(node, data[at:end]).IsInitialized():
                    return None
                return ProtobufFault(path, REASONS[REQUIRED], -found // 16 - start)
            found = other
        reason = -found % 16
        rule = f"another message than {self.name}" if reason == OTHER_MESSAGE else REASONS[reason]
        return ProtobufFault(self._path(stack), rule, -found // 16 - start)

    def replace_fields(
        self, data: bytes, start: int, end: int, paths: JsonPaths, mask: Mask, framed: bool = False
    ) -> bytes:
        """As of any schema. There is no null: a mask without a text is the zero of each type, or an empty message."""
        at, node = self._checked(data, start, end, MAX_DEPTH, framed)
        descriptor = self._program.types[node].descriptor
        return data[start:at] + masks.replace_fields(self._types, descriptor, data, at, end, paths, mask)

    def find_unmaskable(self, paths: JsonPaths, mask: Mask) -> list[str]:
        """Of any type in the file, or of the one that was chosen."""
        roots = [self.descriptor]
        if self._framed == FRAMED_ANY:
            roots = list(self._files.pool.FindFileByName(self._files.name).message_types_by_name.values())
        return masks.find_unmaskable(self._types, roots, paths, mask)

    @cached_property
    def _types(self) -> Mapping[str, Type]:
        return {one.descriptor.full_name: one for one in self._program.types.values()}

    @cached_property
    def descriptor(self) -> Any:
        """Of the type."""
        return self._program.types[self._node].descriptor

    def _checked(self, data: bytes, start: int, end: int, max_depth: int, framed: bool) -> tuple[int, int]:
        """Where a message begins, and its type. Raises NotOfSchemaError."""
        fault = self.fault_of(data, start, end, max_depth, framed)
        if fault is not None:
            raise NotOfSchemaError(str(fault))
        return self._named(data, start, end, max_depth) if framed else (start, self._node)

    def _named(self, data: bytes, start: int, end: int, max_depth: int) -> tuple[int, Any]:
        """The position after message indexes, and the type that they name; None: there is none."""
        words, other = self._words, self._other_words
        args = (data, start, end, max_depth, True)
        if other is not None and self._fault_of(words, *args) is not None and self._fault_of(other, *args) is None:
            words = other
        at, node = read_indexes(words, data, start, end)
        return at, node if at >= 0 else None

    def _message(self, node: int, data: bytes) -> Any:
        if node not in self._classes:
            self._classes[node] = message_factory.GetMessageClass(self._program.types[node].descriptor)
        message = self._classes[node]()
        try:
            message.MergeFromString(data)
        except DecodeError as error:
            raise ValueError("$: cannot be read") from error
        return message

    def _node_of(self, name: str) -> int:
        nodes, package = self._program.nodes, self._files.pool.FindFileByName(self._files.name).package
        for full in (f"{package}.{name}", name):
            if nodes.get(full) in self._program.types:
                return nodes[full]
        raise ProtobufSchemaError(f"declares no message {name[:MAX_NAME]!r}")

    def _of(self, node: int) -> ProtobufSchema:
        other = copy(self)
        other.__dict__.pop("descriptor", None)
        other._choose(node)
        other._framed = FRAMED
        return other

    def _choose(self, node: int) -> None:
        self._node = node
        self.name: str = self._program.types[node].descriptor.full_name[:MAX_NAME]

    def _path(self, stack: bytearray, required: bool = False) -> str:
        path, levels = "$", _slot(stack, 0)
        for level in range(levels):
            node, _, _, field, count, bits = (_slot(stack, 1 + LEVEL * level + at) for at in range(LEVEL))
            own = self._program.types.get(node)
            if own is None:  # an unknown group
                break
            if level == levels - 1 and required:
                missing = next(one for bit, one in enumerate(own.required) if not bits >> bit & 1)
                path += f".{masks.name_of(missing)}"
            elif own.is_entry:
                path += "{}"
            elif count:
                one = own.fields[field]
                is_list = one.is_repeated and not masks.is_map(one)
                path += f".{masks.name_of(one)}" + (f"[{count - 1}]" if is_list else "")
            if len(path) > MAX_PATH:
                return f"{path[:MAX_PATH]}..."
        return path


def _slot(stack: bytearray, at: int) -> int:
    return int(struct.unpack_from("=q", stack, 8 * at)[0])
