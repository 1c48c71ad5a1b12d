"""What is wrong with a schema."""

from __future__ import annotations


class ProtobufSchemaError(ValueError):
    """An invalid Protobuf schema, or one over a limit. The message is one line; of a text, with the line's number."""
