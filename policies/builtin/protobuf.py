"""Messages of a Protobuf schema, in the wire format, as `kafka_sidecar.schemas.protobuf.walk` defines it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from kafka_sidecar.policies.builtin.schema_files import SchemaFilePolicy, SchemaFileSettings
from kafka_sidecar.schemas.protobuf.schema import ProtobufSchema
from kafka_sidecar.schemas.protobuf.walk import MAX_DEPTH


class ProtobufSettings(SchemaFileSettings):
    message: str | None = None
    """The type of message, by its full name or without the package. Without it the first one in the file; after a prefix, the one that the message indexes name."""  # noqa: E501
    unknown_fields: Literal["allow", "reject"] = "allow"
    """Whether fields that the schema does not have are accepted, as those of a newer schema are."""
    max_depth: int = Field(default=MAX_DEPTH, ge=1, le=MAX_DEPTH)
    """How deep messages may be nested in a value."""


class Protobuf(SchemaFilePolicy):
    """The value or the key is one message of a Protobuf schema."""

    settings = ProtobufSettings()
    ending = ".proto"
    records_at_once = 10_000  # the loop is compiled

    def parse(self, text: str, references: Mapping[str, str]) -> ProtobufSchema:
        own = self.settings
        schema = ProtobufSchema.parse(text, references, own.message, own.unknown_fields == "reject")
        if schema.is_confirmed:  # by Python, record by record, where the loop has a suspicion
            self.records_at_once = 1000
        return schema
