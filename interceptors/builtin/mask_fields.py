"""Masks fields of values for consumers: of JSON, and of what a schema describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Hints, Unresolved
from kafka_sidecar.interceptors.metrics import Metric
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords
from kafka_sidecar.plugins.settings import Settings, read_settings
from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.json_paths import JsonPaths, NotReadableError
from kafka_sidecar.schemas.language import NotOfSchemaError
from kafka_sidecar.schemas.masks import MASK, Mask, json_mask, replace_json_fields
from kafka_sidecar.schemas.registry import NotFetchedError, RegistryError
from kafka_sidecar.schemas.sources import (
    PREFIX,
    FindHeader,
    Found,
    NoSchemaError,
    SchemaSettings,
    SchemaSource,
    begins_with_id,
    open_source,
)

FIELDS, UNREADABLE, UNMASKABLE, FAILED = "fields", "unreadable", "unmaskable", "failed"
MAX_SCHEMAS = 10_000  # that are remembered as maskable or not


class KeepLast(Settings):
    keep_last: int
    """How many characters of a text, or digits of a number, stay readable after the mask."""


def check_mask(value: object) -> object:
    """Validate the setting `with`. Raises ValueError."""
    match value:
        case None | str():
            return value
        case {"keep_last": int(characters), **others} if not others and characters >= 1:
            return value
    raise ValueError("write a text, null, or {keep_last: 4}")


class MaskFieldsSettings(Settings):
    fields: tuple[str, ...] = ()
    """JSON paths of the fields: `$.card.number`, `$['card-number']`, `$.items[*].price`, `$.lines[0]`, `$..ssn`."""
    with_: Annotated[str | KeepLast | None, BeforeValidator(check_mask)] = Field(default=MASK, alias="with")
    """The replacement of a field: a text, `null`, or `{keep_last: 4}` for `***` and the last characters."""
    number: int | float = Field(default=0, allow_inf_nan=False)
    """The replacement of a number where a schema says that it must be one."""
    unreadable: Literal["hide", "keep", "drop"] = "hide"
    """What to do with a value that is not a JSON object or array, or not of its schema: `hide` masks all of it, `keep` forwards it, `drop` drops the record."""  # noqa: E501
    schema_: SchemaSettings | None = Field(default=None, alias="schema")
    """The schema of values: `{language: avro, file: order.avsc}` or `{registry: NAME}`. Without it, values are JSON."""
    prefix: Literal["auto", "none", "confluent"] = "auto"
    """What precedes the data of values that are JSON or whose schema is in a file: nothing, or a schema's id as Confluent's serializers write it, which stays. `auto`, for JSON: an id where the value begins with a 0."""  # noqa: E501


class _UnmaskableError(Exception):
    """No mask fits a field of the value's schema."""


class MaskFields(ConsumerInterceptor):
    """Masks fields of values for consumers; all other bytes stay unchanged.

    A value that it fails on is masked as a whole, so a defect hides too much rather than too little.
    """

    settings = MaskFieldsSettings()

    def __init__(self) -> None:
        self._paths = JsonPaths(())
        self._mask = Mask()
        self._source: SchemaSource | None = None
        self._is_json = False  # what the schema in the file describes
        self._maskable: dict[SchemaId | None, bool] = {}  # by the id of the schema
        self._counts: Counter[tuple[str, ...]] = Counter()
        self._lock = Lock()  # hooks run in several threads

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(MaskFieldsSettings, configs)
        if not own.fields:
            raise ValueError('has no effect: set fields, such as ["$.card.number"]')
        try:
            self._paths = JsonPaths(own.fields)
        except ValueError as error:
            raise ValueError(f"fields: {error}") from error
        keep = own.with_.keep_last if isinstance(own.with_, KeepLast) else 0
        self._mask = Mask(MASK if isinstance(own.with_, KeepLast) else own.with_, own.number, keep)
        if own.schema_ is not None:
            self._open_schema(own, own.schema_)

    def _open_schema(self, own: MaskFieldsSettings, settings: SchemaSettings) -> None:
        self._is_json = settings.language == "json_schema"
        if settings.file is None and own.prefix != "auto":
            raise ValueError("prefix: remove it: a registry's values have the ids of their schemas themselves")
        if settings.file is not None and own.prefix == "auto" and not self._is_json:
            raise ValueError("prefix: write none or confluent: data of this language can begin with a 0, too")
        self._source = source = open_source(settings, own.prefix == "confluent")
        if source.schema is not None:
            unmaskable = source.schema.find_unmaskable(self._paths, self._mask)
            if unmaskable:
                raise ValueError(f"fields: {'; '.join(unmaskable)}")

    def files(self) -> Iterable[Path]:
        return () if self._source is None else self._source.files

    async def resolve(self, key: object) -> None:
        assert self._source is not None, "only a registry is asked"
        await self._source.fetch(key)

    def hints(self) -> Hints:
        return Hints(fail_closed=True)

    def metrics(self) -> Iterable[Metric]:
        with self._lock:
            counts = dict(self._counts)
        yield Metric("masked_records", "Records whose values were masked, and why.", ("reason",), counts)

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        masked = [self._mask_record(record) for record in records]
        if all(map(lambda one, other: one is other, masked, records)):
            return records
        return [record for record in masked if record is not None]

    def _mask_record(self, record: ConsumerRecord) -> ConsumerRecord | None:
        """The record with its fields masked; None: it is dropped."""
        value = record.value
        if value is None:
            return record
        try:
            new = self._masked(value, record)
        except (NotReadableError, NoSchemaError, NotOfSchemaError):
            return record if self.settings.unreadable == "keep" else self._hide(record, UNREADABLE)
        except NotFetchedError as error:
            raise Unresolved(error.question) from error
        except RegistryError:  # the record is withheld, not hidden: it is there once the registry is
            raise
        except _UnmaskableError:
            return self._hide(record, UNMASKABLE)
        except Exception:  # noqa: BLE001 - whatever has failed, the fields must stay hidden
            return self._hide(record, FAILED)
        if new == value:
            return record
        self._count(FIELDS)
        return record.replace(value=new)

    def _masked(self, value: bytes, record: ConsumerRecord) -> bytes:
        if self._source is None or self._is_json:
            begins = self._data_begins(value)
            return value[:begins] + replace_json_fields(value[begins:], self._paths, self._mask)
        found = self._source.find(value, _header_of(record))
        if not self._is_maskable(found):
            raise _UnmaskableError
        schema, start, framed, _ = found
        return value[:start] + schema.replace_fields(value, start, len(value), self._paths, self._mask, framed)

    def _data_begins(self, value: bytes) -> int:
        """Where the JSON of a value begins."""
        if self.settings.prefix == "none":
            return 0
        if begins_with_id(value):
            return PREFIX
        if self.settings.prefix == "confluent":
            raise NotReadableError
        return 0

    def _is_maskable(self, found: Found) -> bool:
        known = self._maskable.get(found.id)
        if known is None:
            known = not found.schema.find_unmaskable(self._paths, self._mask)
            if len(self._maskable) >= MAX_SCHEMAS:
                self._maskable.clear()
            self._maskable[found.id] = known
        return known

    def _hide(self, record: ConsumerRecord, reason: str) -> ConsumerRecord | None:
        self._count(reason)
        if self.settings.unreadable == "drop":
            return None
        return record.replace(value=json_mask(b'""', Mask(self._mask.text)))

    def _count(self, reason: str) -> None:
        with self._lock:
            self._counts[reason,] += 1


def _header_of(record: ConsumerRecord) -> FindHeader:
    def value_of(name: str) -> bytes | None:
        header = record.headers.last_header(name)
        return None if header is None else header.value

    return value_of
