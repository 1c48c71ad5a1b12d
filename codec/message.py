"""Read, write and skip messages: the interface for the rest of the project.

`decode` and `encode` are for single uses; `reader`, `writer`, `skipper`, `span` and `counter` return the functions
themselves, for hot code to keep. All are built on first use and cached by class and version.
"""

from __future__ import annotations

from typing import TypeVar

from kafka_sidecar.codec.schema.plans import TAGS, field_plan, fixed_start, has_field, plan, plans
from kafka_sidecar.codec.schema.readers import FieldReader, Reader, field_reader, reader
from kafka_sidecar.codec.schema.skippers import Counter, Skipper, Span, counter, element_spans, skipper, span
from kafka_sidecar.codec.schema.structs import Message, Struct, replace_fields
from kafka_sidecar.codec.schema.writers import FieldWriter, Writer, field_writer, writer
from kafka_sidecar.codec.wire import Buffer, read_tags, write_tags

__all__ = [
    "TAGS",
    "Buffer",
    "Counter",
    "FieldReader",
    "FieldWriter",
    "Message",
    "Reader",
    "Skipper",
    "Span",
    "Struct",
    "Writer",
    "counter",
    "decode",
    "element_spans",
    "encode",
    "field_plan",
    "field_reader",
    "field_writer",
    "first_version",
    "fixed_start",
    "has_field",
    "plan",
    "plans",
    "read_tags",
    "reader",
    "replace_fields",
    "skipper",
    "span",
    "write_tags",
    "writer",
]

S = TypeVar("S", bound=Struct)


def decode(cls: type[S], data: Buffer, version: int, at: int = 0) -> tuple[S, int]:
    """The ``cls`` that begins at ``at``, and the position after it.

    Raises:
        CodecError: these bytes are not such a message.
    """
    return reader(cls, version)(data, at)


def first_version(cls: type[Struct], field: str) -> int:
    """The first version of a message in which this part of it has a field.

    >>> from kafka_sidecar.codec.messages.produce import TopicProduceData
    >>> first_version(TopicProduceData, "topic_id")
    13

    Raises:
        ValueError: it has no such field.
    """
    return cls.declaration_.first_version(field)


def encode(value: Struct, version: int) -> bytes:
    """The bytes of ``value``. Fields that this version does not have are omitted.

    Raises:
        CodecError: a value does not fit its field.
    """
    return writer(type(value), version)(value)
