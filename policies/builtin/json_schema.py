"""Records of a JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_sidecar.policies.builtin.schema_files import SchemaFilePolicy, SchemaFileSettings
from kafka_sidecar.schemas.json_schema import JsonSchema


class JsonSchemaSettings(SchemaFileSettings):
    formats: bool = False
    """Whether `format` is asserted; else it is an annotation, as JSON Schema has it since 2019-09."""


class JsonSchemaPolicy(SchemaFilePolicy):
    """The value or the key is JSON that a JSON Schema accepts."""

    settings = JsonSchemaSettings()
    ending = ".json"
    records_at_once = 100  # about 5 us for a record of 1 KB
    bytes_at_once = 128 << 10

    def parse(self, text: str, references: Mapping[str, str]) -> JsonSchema:
        return JsonSchema(text, references, self.settings.formats)
