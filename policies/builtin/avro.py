"""Records of an Avro schema, in the binary encoding, as `kafka_sidecar.codec.avro.walk` defines it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kafka_sidecar.codec.avro.schema import AvroSchema
from kafka_sidecar.codec.avro.walk import find_not_avro
from kafka_sidecar.policies.contract import MAX_REJECTIONS
from kafka_sidecar.policies.schemas.files import SchemaFilePolicy, SchemaFileSettings

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records


class Avro(SchemaFilePolicy):
    """The value or the key is one datum of an Avro schema."""

    settings = SchemaFileSettings()
    ending = ".avsc"
    records_at_once = 10_000  # the loop is compiled

    def read(self, text: str, references: Mapping[str, str]) -> str:
        self._schema = AvroSchema.parse(text, references)
        return self._schema.name

    def find_faults(self, records: Records, skip: int) -> Iterator[tuple[int, str]]:
        own, schema, data = self.settings, self._schema, records.payload
        is_key = own.part == "key"
        for index, start, end in find_not_avro(records, is_key, skip, schema.program, own.max_depth, MAX_REJECTIONS):
            if start + skip <= end:
                yield index, str(schema.find_fault(data, start + skip, end, own.max_depth))
