"""The interceptors of these tests, which the sidecar loads from its class path. model.py says what they do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Offsets, ProducerInterceptor
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords, ProducerRecord


def does(record: ProducerRecord | ConsumerRecord) -> bytes | None:
    """The header that says what is done with a record."""
    return next((header.value for header in record.headers if header.key == "do"), None)


class Looks(ProducerInterceptor, ConsumerInterceptor):
    """Changes nothing; writes the header `id` and the size of each record that it is shown to a file."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._file = os.open(configs["events"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self._write("on_send", record)
        return record

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        for record in records:
            self._write("on_consume", record)
        return records

    def on_commit(self, offsets: Offsets) -> None:
        for place, one in offsets.items():
            self._line(hook="on_commit", partition=place.partition, offset=one.offset, group=offsets.context.group_id)

    def close(self) -> None:
        os.close(self._file)

    def _write(self, hook: str, record: ProducerRecord | ConsumerRecord) -> None:
        ids = [(header.value or b"").decode() for header in record.headers if header.key == "id"]
        size = -1 if record.value is None else len(record.value)
        self._line(hook=hook, client=record.context.client_id, id=ids[0] if ids else None, size=size)

    def _line(self, **said: object) -> None:
        os.write(self._file, json.dumps(said).encode() + b"\n")  # one call for each line: workers share the file


class Changes(ProducerInterceptor, ConsumerInterceptor):
    """Adds a header to all records, and a space to the values that say so."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.headers.add("sent", b"sidecar")
        return record

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        for record in records:
            is_edited = does(record) == b"edit" and record.value is not None
            record.headers.add("consumed", b"sidecar")
            yield record.replace(value=(record.value or b"") + b" ") if is_edited else record


class Hides(ConsumerInterceptor):
    """Drops the records that say so."""

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        return [record for record in records if does(record) != b"hide"]


class Fails(ProducerInterceptor, ConsumerInterceptor):
    """Fails in the middle of its work, on the records that say so; consumers' others it leaves as they are."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.headers.add("tried", b"1")
        if does(record) == b"fail":
            raise RuntimeError("on_send")
        return record

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        for record in records:
            if does(record) == b"fail":
                record.headers.add("half", b"done")
                raise RuntimeError("on_consume")
            yield record
