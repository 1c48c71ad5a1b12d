"""Records of an Avro schema, in the binary encoding, as `kafka_sidecar.schemas.avro.walk` defines it."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_sidecar.policies.builtin.schema_files import SchemaFilePolicy, SchemaFileSettings
from kafka_sidecar.schemas.avro.schema import AvroSchema


class Avro(SchemaFilePolicy):
    """The value or the key is one datum of an Avro schema."""

    settings = SchemaFileSettings()
    ending = ".avsc"
    records_at_once = 10_000  # the loop is compiled

    def parse(self, text: str, references: Mapping[str, str]) -> AvroSchema:
        return AvroSchema.parse(text, references)
