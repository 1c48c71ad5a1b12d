"""A consumer at the end of a log to which slices of one message are written, and its carrier is not."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from integration.front import Front
from integration.large_messages.written_logs import write
from integration.scenarios.target import LIMIT_S, SILENT
from support.large_logs import Log, message_id, sliced


def ends_of_tail(large: Front, topic: str, value: bytes, slices: int, **settings: Any) -> list[int]:
    """The offsets at which librdkafka says that there is no more; each slice is written once it has passed the last."""
    consumer = Consumer({
        "bootstrap.servers": large.sidecar.bootstrap, "group.id": "tail", "logger": SILENT,
        "enable.partition.eof": True, **settings,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    ends: list[int] = []
    try:
        for number, data in enumerate(sliced(value, slices, message_id(1))):
            log = Log(end=number)
            log.append(data)
            write(large, topic, log)
            deadline = time.monotonic() + LIMIT_S
            while not ends or ends[-1] <= number:
                assert time.monotonic() < deadline
                message = consumer.poll(0.2)
                if message is not None and (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ends.append(message.offset() or 0)
    finally:
        consumer.close()
    return ends
