"""The time at which a record was made, in a header of its own: it survives a topic with log append time, and a copy
into another topic.
"""

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
    """None: the header is li-apache-kafka-clients', whose readers know its key and form."""


class CreateTimestamp(ProducerInterceptor):
    """Adds the header `_t` to records that have none: the record's timestamp, or the clock's where it has none."""

    settings = CreateTimestampSettings()

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = read_settings(CreateTimestampSettings, configs)

    def on_send_batch(self, batch: RecordBatch) -> Records:
        records, pack = batch.records, TIME.pack
        now = batch.context.clock()
        values = [pack(now if time == UNKNOWN else time) for time in records.timestamps()]
        return with_header_each(records, KEY, values, only_if_absent=True)
