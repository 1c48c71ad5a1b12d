"""Large messages in transactions, read by plain clients through the sidecar."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer
from integration.front import Front
from integration.interception.reads import ISOLATIONS, How, Isolation, Reader
from integration.large_messages.overlapping import Overlapping, overlapping
from integration.large_messages.written_logs import PRODUCE, topic_id
from integration.scenarios.target import LIMIT_S, SILENT
from integration.validation.wire import Wire
from support.large_logs import carrier_record, message_id, sliced

pytestmark = pytest.mark.integration

LIBRARIES = ("java", "librdkafka", "aiokafka", "kafka-python")
VALUE = bytes(range(256)) * 100
SLICES = 10


class Transactions:
    """A transactional producer, and the slices that it would have sent through a sidecar."""

    def __init__(self, large: Front, topic: str) -> None:
        self._topic = topic
        self._id = topic_id(large, topic)
        self._direct = large.cluster.direct
        self._producer = Producer({
            "bootstrap.servers": large.cluster.direct, "logger": SILENT, "transactional.id": topic, "linger.ms": 200,
        })  # fmt: skip
        self._producer.init_transactions(LIMIT_S)

    def slices(self, value: bytes, number: int) -> list[int]:
        offsets = []
        with Wire(self._direct) as wire:
            for data in sliced(value, SLICES, message_id(number)):
                answer = wire.produce(PRODUCE, {self._topic: {0: data}})[self._topic, 0]
                assert answer.code == 0
                offsets.append(answer.base_offset)
        return offsets

    def run(self, number: int, is_committed: bool) -> list[tuple[int, bytes]]:
        """A transaction with two large values and two small ones in one batch; the offsets and values."""
        values = [b"small %d" % number, VALUE + b"%d" % number, b"also small", VALUE[::-1] + b"%d" % number]
        offsets = {at: self.slices(values[at], 10 * number + at) for at in (1, 3)}
        delivered: list[tuple[int, bytes]] = []
        self._producer.begin_transaction()
        for at, value in enumerate(values):
            headers, stored = list[tuple[str, Any]](), value
            if at in offsets:
                record = carrier_record(value, SLICES, message_id(10 * number + at), offsets[at], topic_id=self._id)
                headers, stored = [(one.key, one.value) for one in record.headers], record.value or b""
            self._producer.produce(
                self._topic, stored, b"key", 0, headers=headers,
                on_delivery=partial(_deliver, delivered, value),
            )  # fmt: skip
        assert self._producer.flush(LIMIT_S) == 0
        end = self._producer.commit_transaction if is_committed else self._producer.abort_transaction
        end(LIMIT_S)
        return sorted(delivered)


def _deliver(delivered: list[tuple[int, bytes]], value: bytes, error: object, message: Any) -> None:
    assert error is None
    delivered.append((message.offset(), value))


@pytest.fixture(scope="module")
def written(large: Front) -> tuple[str, dict[Isolation, list[tuple[int, bytes]]]]:
    """Six transactions, three of them aborted, with orphans between them."""
    topic = large.topic("large-transactions")
    transactions, shown = Transactions(large, topic), dict[Isolation, list[tuple[int, bytes]]]()
    for isolation in ISOLATIONS:
        shown[isolation] = []
    for number in range(6):
        sent = transactions.run(number, is_committed=number % 2 == 0)
        transactions.slices(VALUE, 1000 + number)
        shown["read_uncommitted"] += sent
        shown["read_committed"] += sent if number % 2 == 0 else []
    return topic, shown


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("fetch_bytes", [3000, 1 << 20])
def test_committed_messages_are_whole_and_aborted_ones_are_not_shown(
    large: Front,
    readers: Mapping[str, Reader],
    written: tuple[str, dict[Isolation, list[tuple[int, bytes]]]],
    library: str,
    isolation: Isolation,
    fetch_bytes: int,
) -> None:
    topic, shown = written
    group = f"transactions-{library}-{isolation}-{fetch_bytes}"
    read = readers[library](large.sidecar.bootstrap, [topic], group, How(isolation, fetch_bytes=fetch_bytes))
    assert [(one.offset, one.value) for one in read.records] == shown[isolation]


@pytest.fixture(scope="module")
def interleaved(large: Front) -> Overlapping:
    return overlapping(large, "large-overlapping")


IN_CI = "librdkafka"
FIRST_LIBRARY = [IN_CI, *(pytest.param(one, marks=pytest.mark.matrix) for one in LIBRARIES if one != IN_CI)]


@pytest.mark.parametrize("library", FIRST_LIBRARY)
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("in_the_middle", [False, True], ids=["from the start", "from the middle"])
def test_of_transactions_that_overlap_consumers_get_what_is_committed(
    large: Front,
    readers: Mapping[str, Reader],
    interleaved: Overlapping,
    library: str,
    isolation: Isolation,
    in_the_middle: bool,
) -> None:
    group = f"overlapping-{library}-{isolation}-{in_the_middle}"
    start = interleaved.middle if in_the_middle else 0
    if in_the_middle:
        interleaved.start_group(large, group)
    read = readers[library](large.sidecar.bootstrap, [interleaved.topic], group, How(isolation))
    assert [(one.offset, one.value) for one in read.records] == [
        one for one in interleaved.shown[isolation] if one[0] >= start
    ]
