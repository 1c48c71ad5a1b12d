"""Adds the creation time of a record as a header, which survives log append time and a copy to another topic."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from kafka_sidecar.codec.records import Records, with_header_each
from kafka_sidecar.interceptors.contract import UNKNOWN, ProducerInterceptor, RecordBatch
from kafka_sidecar.plugins.settings import Settings, read_settings

KEY = b"_t"  # li-apache-kafka-clients: Constants.TIMESTAMP_HEADER
TIME = struct.Struct(">q")  # ms since 1970


class CreateTimestampSettings(Settings):
    """No settings: key and format of the header are those of li-apache-kafka-clients."""


class CreateTimestamp(ProducerInterceptor):
    """Adds the header `_t` to records without one: the record's timestamp, or the time of the clock if it has none."""

    settings = CreateTimestampSettings()

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = read_settings(CreateTimestampSettings, configs)

    def on_send_batch(self, batch: RecordBatch) -> Records:
        records, pack = batch.records, TIME.pack
        now = batch.context.clock()
        values = [pack(now if time == UNKNOWN else time) for time in records.timestamps()]
        return with_header_each(records, KEY, values, only_if_absent=True)
