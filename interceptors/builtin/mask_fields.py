"""Masks fields of JSON values for consumers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Hints
from kafka_sidecar.interceptors.metrics import Metric
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords
from kafka_sidecar.plugins.settings import Settings, read_settings
from kafka_sidecar.schemas.json_paths import JsonPaths, NotReadableError, Span

MASK = "***"
FIELDS, UNREADABLE, FAILED = "fields", "unreadable", "failed"


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


Mask = Annotated[str | KeepLast | None, BeforeValidator(check_mask)]


class MaskFieldsSettings(Settings):
    fields: tuple[str, ...] = ()
    """JSON paths of the fields: `$.card.number`, `$['card-number']`, `$.items[*].price`, `$.lines[0]`, `$..ssn`."""
    with_: Mask = Field(default=MASK, alias="with")
    """The replacement of a field: a text, `null`, or `{keep_last: 4}` for `***` and the last characters."""
    unreadable: Literal["hide", "keep", "drop"] = "hide"
    """What to do with a value that is not a JSON object or array: `hide` masks all of it, `keep` forwards it, `drop` drops the record."""  # noqa: E501


class MaskFields(ConsumerInterceptor):
    """Masks fields of JSON values for consumers; all other bytes stay unchanged.

    A value that it fails on is masked as a whole, so a defect hides too much rather than too little.
    """

    settings = MaskFieldsSettings()

    def __init__(self) -> None:
        self._paths = JsonPaths(())
        self._mask = _json(MASK)
        self._keep = 0  # characters
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
        self._keep = own.with_.keep_last if isinstance(own.with_, KeepLast) else 0
        self._mask = _json(MASK if isinstance(own.with_, KeepLast) else own.with_)

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
            new = self._replace_fields(value, self._paths.spans(value))
        except NotReadableError:
            return record if self.settings.unreadable == "keep" else self._hide(record, UNREADABLE)
        except Exception:  # noqa: BLE001 - whatever has failed, the fields must stay hidden
            return self._hide(record, FAILED)
        if new == value:
            return record
        self._count(FIELDS)
        return record.replace(value=new)

    def _hide(self, record: ConsumerRecord, reason: str) -> ConsumerRecord | None:
        self._count(reason)
        return None if self.settings.unreadable == "drop" else record.replace(value=self._mask)

    def _count(self, reason: str) -> None:
        with self._lock:
            self._counts[reason,] += 1

    def _replace_fields(self, value: bytes, spans: list[Span]) -> bytes:
        parts: list[bytes] = []
        copied = 0
        for start, end in spans:
            parts += (value[copied:start], self._replacement(value[start:end]))
            copied = end
        return b"".join((*parts, value[copied:]))

    def _replacement(self, field: bytes) -> bytes:
        """The replacement of a field. A null stays null, as with Kafka Connect's MaskField."""
        if field == b"null":
            return field
        if not self._keep or field[:1] in b"{[tf":
            return self._mask
        text = json.loads(field) if field[:1] == b'"' else field.decode()
        # of a short text, most would stay readable
        return _json(MASK + text[-self._keep :]) if len(text) >= 2 * self._keep else self._mask


def _json(text: str | None) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()
