"""Plug-ins of the sidecar that `live.py` observes: each does one thing wrong."""

from __future__ import annotations

import time

from kafka_sidecar.codec.records import Record
from kafka_sidecar.interceptors.contract import ProducerInterceptor
from kafka_sidecar.interceptors.records import ProducerRecord
from kafka_sidecar.policies.contract import ALL, Hints, RecordValidationPolicy, TopicMetadata


class Fails(RecordValidationPolicy):
    """Fails on every record with a value that is not empty."""

    def hints(self) -> Hints:
        return Hints(access_value_bytes=ALL)

    def validate(self, topic: TopicMetadata, record: Record) -> None:
        if record.value:
            raise RuntimeError("this policy has a bug")


class Sleeps(RecordValidationPolicy):
    """Takes a fifth of a millisecond for a record."""

    def hints(self) -> Hints:
        return Hints(access_value_bytes=ALL)

    def validate(self, topic: TopicMetadata, record: Record) -> None:
        time.sleep(0.0002)


class Raises(ProducerInterceptor):
    """Fails on each record."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("this interceptor has a bug")


class Lingers(ProducerInterceptor):
    """Takes longer than its budget."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        time.sleep(0.002)
        return record
