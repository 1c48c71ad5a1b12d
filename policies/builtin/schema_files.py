"""The policies whose schema is in a file: the file and those that it refers to, and the loop over a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from kafka_sidecar.plugins.settings import Settings, SettingsPath, read_settings, reject_argument
from kafka_sidecar.policies.contract import ALL, Fault, Hints, RecordValidationPolicy, TopicMetadata
from kafka_sidecar.schemas.sources import files_of, text_of

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records
    from kafka_sidecar.schemas.language import Schema

PREFIXES = {"none": 0, "confluent": 5}  # bytes: a 0 and the id of four bytes
NULL = "Topic %s requires record %ss not to be null"
NO_ID = "Topic %s requires record %ss to begin with the id of a schema"
UNLIKE = "Topic %s requires record %ss to be of the schema %s: %s"


class SchemaFileSettings(Settings):
    file: SettingsPath | None = None
    """The file with the schema. Relative to the configuration file."""
    references: SettingsPath | None = None
    """A folder with the schemas that it refers to, in files with the same ending."""
    part: Literal["value", "key"] = "value"
    """What must be of the schema."""
    allow_null: bool = True
    """Whether null is accepted: a tombstone, or a record without a key."""
    prefix: Literal["none", "confluent"] = "none"
    """What precedes the data: nothing, or a schema's id as Confluent's serializers write it, which is not looked up."""
    max_depth: int = Field(default=128, ge=1, le=512)
    """How deep a value may be nested."""


class SchemaFilePolicy(RecordValidationPolicy):
    """The value or the key is of the schema in a file. A language of schemas extends it."""

    settings: SchemaFileSettings
    ending: ClassVar[str]  # of the files
    _schema: Schema | None = None

    def parse(self, text: str, references: Mapping[str, str]) -> Schema:
        """The schema, with those that it refers to by their paths inside the folder.

        Raises:
            ValueError: one of them is invalid; one line.
        """
        raise NotImplementedError

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = read_settings(type(self.settings), configs)
        if self.settings.file is None:
            raise ValueError("needs a schema: configure it under policies: with a file")
        self._file, self._references = Path(self.settings.file), self.settings.references
        self._others = [] if self._references is None else files_of(Path(self._references), self.ending)
        others = {str(path.relative_to(str(self._references))): text_of(path) for path in self._others}
        text = text_of(self._file)
        try:
            self._schema = self.parse(text, others)
        except ValueError as error:
            raise ValueError(f"file: {self._file}: {error}") from error

    def files(self) -> Iterable[Path]:
        if self._schema is None:
            return []
        folder = [Path(self._references)] if self._references is not None else []
        return [self._file, *folder, *self._others]

    def hints(self) -> Hints:
        is_key = self.settings.part == "key"
        return Hints(access_key_bytes=ALL * is_key, access_value_bytes=ALL * (not is_key))

    def check(self, text: str) -> None:
        reject_argument(text)

    def validate_batch(self, topic: TopicMetadata, records: Records) -> Iterator[Fault]:
        own, schema = self.settings, self._schema
        assert schema is not None, "configured"
        part, skip = own.part, PREFIXES[own.prefix]
        if skip or not self.settings.allow_null:
            for record in records:
                text = record.key if part == "key" else record.value
                if text is None and not self.settings.allow_null:
                    yield Fault(record.index, NULL % (topic.topic, part), f"null_{part}")
                elif text is not None and skip and (len(text) < skip or text[0] != 0):
                    yield Fault(record.index, NO_ID % (topic.topic, part), "no_schema_id")
        for index, why in schema.find_faults(records, part == "key", skip, own.max_depth, framed=skip > 0):
            yield Fault(index, UNLIKE % (topic.topic, part, schema.name, why), "not_of_schema")
