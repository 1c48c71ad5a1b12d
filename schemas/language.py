"""A schema of any language, as policies and interceptors use it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records
    from kafka_sidecar.schemas.json_paths import JsonPaths
    from kafka_sidecar.schemas.masks import Mask


class NotOfSchemaError(ValueError):
    """A value is not of its schema: path and rule, and nothing of the value."""


class Schema(Protocol):
    """One schema, with all that it refers to.

    Values are *framed* where a serializer of a registry has written them: what it puts between the id of a schema and
    the data itself precedes the data (the message indexes of Protobuf; nothing for Avro and JSON Schema).
    """

    @property
    def name(self) -> str:
        """For messages: a full name, a title or an id; at most 60 characters."""
        ...

    @property
    def has_types(self) -> bool:
        """Whether values choose one of several types, as those of Protobuf do by message indexes."""
        ...

    def find_faults(
        self, records: Records, of_key: bool, skip: int, max_depth: int, framed: bool = False
    ) -> Iterable[tuple[int, str]]:
        """The records whose value, or key, is not of the schema after its first ``skip`` bytes; null is none of them.

        Each as its index in the batch and why: a path of names in the schema and a rule, and nothing of the value.
        What is shorter than ``skip`` is left to the caller. At most `MAX_REJECTIONS`.
        """
        ...

    def find_fault(self, data: bytes, start: int, end: int, max_depth: int, framed: bool = False) -> str | None:
        """The same for ``data[start:end]``."""
        ...

    def typed(self, indexes: bytes) -> Schema:
        """The same for values of the type that a header names after the id of a schema: the message indexes of
        Protobuf. Other languages have none.

        Raises:
            ValueError: there is no such type.
        """
        ...

    def record_name(self, data: bytes, start: int, end: int, framed: bool = False) -> str | None:
        """The name by which RecordNameStrategy and TopicRecordNameStrategy call the value's type.

        Avro: full name; Protobuf: full name of the message; JSON Schema: the title. None if it has none.
        """
        ...

    def decode(self, data: bytes, start: int, end: int, max_depth: int, framed: bool = False) -> Any:
        """The value, for conditions: None, bool, int, float, str, bytes, datetime, list, dict.

        Raises:
            NotOfSchemaError: it is not.
            ValueError: it has more elements than are read.
        """
        ...

    def replace_fields(
        self, data: bytes, start: int, end: int, paths: JsonPaths, mask: Mask, framed: bool = False
    ) -> bytes:
        """``data[start:end]`` with a mask in place of the fields that paths name, of their own type; other bytes stay.

        Raises:
            NotOfSchemaError: it is not; of JSON, only whether it is an object or array is looked at.
            ValueError: a field cannot be masked.
        """
        ...

    def find_unmaskable(self, paths: JsonPaths, mask: Mask) -> list[str]:
        """The fields of the schema that paths name and that the mask cannot replace, each as its path and why."""
        ...
