"""The chain of tests/jvm/java/RecordingInterceptor.java for the sidecar, call by call the same.

Each call is a line of JSON in the file of the setting ``file``: the names in it are those of Java's file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kafka_sidecar.interceptors.contract import (
    ConsumerInterceptor,
    Context,
    Offsets,
    ProducerInterceptor,
    RecordMetadata,
    SendError,
)
from kafka_sidecar.interceptors.headers import Headers, ReadOnlyError
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords, ProducerRecord


class Recording(ProducerInterceptor, ConsumerInterceptor):
    def configure(self, configs: Mapping[str, Any]) -> None:
        self._file = Path(configs["file"])
        self._write("configure", None)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self._write(
            "on_send", record.context, topic=record.topic, partition=record.partition, timestamp=record.timestamp,
            key=_text(record.key), value=_text(record.value), headers=_pairs(record.headers),
        )  # fmt: skip
        return self.sent(record)

    def on_acknowledgement_with_headers(
        self, metadata: RecordMetadata, exception: Exception | None, headers: Headers
    ) -> None:
        self._write(
            "on_acknowledgement", metadata.context, topic=metadata.topic, partition=metadata.partition,
            offset=metadata.offset, timestamp=metadata.timestamp, key_size=metadata.serialized_key_size,
            value_size=metadata.serialized_value_size, error=_code(exception), headers=_pairs(headers),
            read_only=_is_read_only(headers),
        )  # fmt: skip
        self.acknowledged()

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        lines = [
            {
                "topic": record.topic, "partition": record.partition, "offset": record.offset,
                "timestamp": record.timestamp, "append_time": record.has_log_append_time,
                "leader_epoch": record.leader_epoch, "key": _text(record.key), "value": _text(record.value),
                "key_size": record.serialized_key_size, "value_size": record.serialized_value_size,
                "headers": _pairs(record.headers),
            } for record in records
        ]  # fmt: skip
        self._write("on_consume", records.context, records=lines)
        return self.consumed(records)

    def on_commit(self, offsets: Offsets) -> None:
        lines = [(*place, one.offset, one.metadata, one.leader_epoch) for place, one in sorted(offsets.items())]
        self._write("on_commit", offsets.context, offsets=lines)
        self.committed()

    def close(self) -> None:
        self._write("close", None)

    def sent(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def acknowledged(self) -> None:
        return

    def consumed(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        return records

    def committed(self) -> None:
        return

    def _write(self, hook: str, context: Context | None, **said: Any) -> None:
        client = {} if context is None else {"client_id": context.client_id}
        line = json.dumps({"who": type(self).__name__.lower(), "hook": hook, **client, **said})
        with self._file.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


class First(Recording):
    def sent(self, record: ProducerRecord) -> ProducerRecord:
        record.headers.remove("unwanted").add("first", b"1")
        return record.replace(value=b"changed") if record.value == b"change" else record

    def consumed(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        for record in records:
            if not (record.value or b"").startswith(b"drop"):
                record.headers.add("first", b"1")
                yield record.replace(value=b"masked") if record.value == b"secret" else record


class Second(Recording):
    def sent(self, record: ProducerRecord) -> ProducerRecord:
        if (record.value or b"").startswith(b"fail"):
            record.headers.add("half", b"done")
            raise RuntimeError("on_send")
        return record

    def acknowledged(self) -> None:
        raise RuntimeError("on_acknowledgement")

    def consumed(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        for record in records:
            record.headers.add("half", b"done")
        raise RuntimeError("on_consume")

    def committed(self) -> None:
        raise RuntimeError("on_commit")


class Third(Recording):
    def sent(self, record: ProducerRecord) -> ProducerRecord:
        record.headers.add("third", None)
        return record

    def consumed(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        for record in records:
            record.headers.add("third", None)
        return records


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


def _pairs(headers: Headers) -> list[tuple[str, str | None]]:
    return [(header.key, _text(header.value)) for header in headers]


def _code(exception: Exception | None) -> int | None:
    return exception.code if isinstance(exception, SendError) else None


def _is_read_only(headers: Headers) -> bool:
    try:
        headers.add("late", None)
    except ReadOnlyError:
        return True
    return False
