"""Carriers whose pointers are wrong, in the log of a broker: their message is found near it, or dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from integration.front import Front
from integration.interception.reads import How, Reader
from integration.large_messages.written_logs import topic_id, write
from integration.scenarios.target import eventually
from support.large_logs import Log, carrier_record, message_id, sliced

from kafka_sidecar.codec.records import build_batch

pytestmark = pytest.mark.integration

IN_CI = "librdkafka"
LIBRARIES = [IN_CI, *(pytest.param(one, marks=pytest.mark.matrix) for one in ("java", "aiokafka", "kafka-python"))]
SLICES = 10
VALUE = bytes(range(256)) * 100
MIRRORED = bytes(range(100, 116))  # the id of another topic
LOST, LOST_COUNT = b"", 4  # a value that is never shown


class DamagedLog(Log):
    """A log that notes what is visible of it."""

    def __init__(self, id_: bytes) -> None:
        super().__init__()
        self.shown: list[tuple[int, bytes]] = []
        self._id = id_
        self._numbers = iter(range(1, 1000))

    def slices(self, value: bytes, number: int) -> list[int]:
        return [self.append(one) for one in sliced(value, SLICES, message_id(number))]

    def carrier(self, value: bytes, number: int, offsets: list[int], shown: bytes, **wrong: Any) -> None:
        """A carrier, and what is shown at its offset."""
        record = carrier_record(value, SLICES, message_id(number), offsets, **{"topic_id": self._id, **wrong})
        at = self.append(build_batch([record]))
        if shown != LOST:
            self.shown.append((at, shown))
        self.shown.append((self.add(b"small"), b"small"))

    def next_value(self) -> tuple[int, bytes]:
        number = next(self._numbers)
        return number, VALUE + b"%d" % number


def damaged(id_: bytes) -> DamagedLog:
    log = DamagedLog(id_)
    number, value = log.next_value()
    whole = log.slices(value, number)
    log.carrier(value, number, whole, value)
    for move in (lambda at: at + 1, lambda at: at - 1, lambda at: at + 500_000, lambda at: 0):  # wrong offsets
        number, value = log.next_value()
        offsets = log.slices(value, number)
        log.carrier(value, number, [move(at) for at in offsets], value)
    number, value = log.next_value()
    log.carrier(value, number, log.slices(value, number)[::-1], value)  # in the wrong order
    number, value = log.next_value()
    log.carrier(value, number, log.slices(value, number), value, topic_id=MIRRORED)
    number, value = log.next_value()
    log.slices(value, number)
    log.carrier(value, number, whole, value)  # the pointers of another message
    number, value = log.next_value()
    log.carrier(value, number, whole, LOST)  # the same, and no slices of its own
    number, value = log.next_value()
    log.carrier(value, number, log.slices(value, number), LOST, crc=1)
    number, value = log.next_value()
    log.carrier(value, number + 1000, log.slices(value, number), LOST)  # slices of another id
    number, value = log.next_value()
    log.carrier(value, number, log.slices(value[::-1], number), LOST)  # other bytes
    number, value = log.next_value()
    log.carrier(value, number, log.slices(value, number)[:-1], value)  # too few
    return log


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fetch_bytes", [3000, 1 << 20])
def test_a_message_with_wrong_pointers_is_whole_or_dropped_and_never_other_bytes(
    large: Front, readers: Mapping[str, Reader], library: str, fetch_bytes: int
) -> None:
    topic = large.topic(f"large-pointers-{library}-{fetch_bytes}")
    log = damaged(topic_id(large, topic))
    write(large, topic, log)
    dropped = large.metric("large_messages_dropped_total")
    read = readers[library](large.sidecar.bootstrap, [topic], f"{topic}-group", How(fetch_bytes=fetch_bytes))
    assert [(one.offset, one.value) for one in read.records] == log.shown
    assert read.positions == {(topic, 0): log.end}
    wanted = dropped + LOST_COUNT
    eventually(lambda: large.metric("large_messages_dropped_total"), lambda count: count >= wanted, "they are counted")
