"""Records of a JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kafka_sidecar.policies.schemas.files import SchemaFilePolicy, SchemaFileSettings
from kafka_sidecar.policies.schemas.json_schema import JsonSchema

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records


class JsonSchemaSettings(SchemaFileSettings):
    formats: bool = False
    """Whether `format` is asserted; else it is an annotation, as JSON Schema has it since 2019-09."""


class JsonSchemaPolicy(SchemaFilePolicy):
    """The value or the key is JSON that a JSON Schema accepts."""

    settings = JsonSchemaSettings()
    ending = ".json"
    records_at_once = 100  # about 5 us for a record of 1 KB
    bytes_at_once = 128 << 10

    def read(self, text: str, references: Mapping[str, str]) -> str:
        self._schema = JsonSchema(text, references, self.settings.formats)
        return self._schema.name

    def find_faults(self, records: Records, skip: int) -> Iterator[tuple[int, str]]:
        find_fault, max_depth, is_key = self._schema.find_fault, self.settings.max_depth, self.settings.part == "key"
        for record in records:
            text = record.key if is_key else record.value
            if text is not None and len(text) >= skip:
                fault = find_fault(text[skip:] if skip else text, max_depth)
                if fault is not None:
                    yield record.index, str(fault)
