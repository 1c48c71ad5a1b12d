"""What the stages of a Produce share: the order in which they run, and the inflated records of one batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.driven import Driven
from support.produce_requests import GOOD, produce_request, produce_response

from kafka_sidecar.codec.envelope import OpenRequest
from kafka_sidecar.codec.scan import ProduceSpans, TopicSpan
from kafka_sidecar.proxy.exchanges.produce import PartitionRecords, ProduceExchange, StageRun, TopicRun
from kafka_sidecar.proxy.exchanges.produce_response import PartitionKey, Results

LIMIT = 1 << 20


class Notes(StageRun, TopicRun):
    """A stage that inflates every batch and writes down what it is called for."""

    wants_response = needs_records = True

    def __init__(self, name: str, calls: list[str], seen: list[PartitionRecords]) -> None:
        self._name = name
        self._calls = calls
        self._seen = seen

    def open(self, request: OpenRequest, spans: ProduceSpans) -> None:
        self._calls.append(f"{self._name} opens")

    def admit(self, topic: str | None, topic_id: bytes, span: TopicSpan) -> TopicRun:
        return self

    def expect(self, partitions: Sequence[PartitionRecords]) -> None:
        return

    def batch(self, partition: PartitionRecords) -> None:
        assert all(earlier.size == 0 for earlier in self._seen if earlier is not partition)
        partition.records(LIMIT)
        assert partition.size > 0
        self._calls.append(f"{self._name} sees {partition.index}")
        self._seen.append(partition)

    def sent(self) -> None:
        self._calls.append(f"{self._name} sends")

    def answered(self, results: Results) -> None:
        self._calls.append(f"{self._name} gets the response")

    def unanswered(self, rejected: set[PartitionKey], why: str) -> None:
        self._calls.append(f"{self._name} gets none")

    def lost(self, why: str) -> None:
        return


def no_names(topic_id: bytes) -> str | None:
    raise AssertionError("topics are named")


@pytest.mark.parametrize("acks", [1, 0])
def test_stages_run_in_their_order_and_get_the_response_in_the_opposite_one(acks: int) -> None:
    calls: list[str] = []
    seen: list[PartitionRecords] = []
    exchange = Driven(ProduceExchange([Notes(name, calls, seen) for name in ("one", "two")], no_names, 9))
    exchange.request(produce_request(9, {"orders": {0: GOOD, 1: GOOD}}, acks))
    to_broker = ["one opens", "two opens", *(f"{name} sees {at}" for at in (0, 1) for name in ("one", "two"))]
    to_broker += ["one sends", "two sends"]
    if acks:
        assert calls == to_broker
        calls.clear()
        exchange.response(produce_response(9, {"orders": {0: 5, 1: 6}}))
        assert calls == ["two gets the response", "one gets the response"]
    else:
        assert calls == [*to_broker, "one gets none", "two gets none"]


def test_inflated_records_are_released_once_the_stages_have_seen_their_batch() -> None:
    seen: list[PartitionRecords] = []
    exchange = Driven(ProduceExchange([Notes("one", [], seen)], no_names, 9))
    exchange.request(produce_request(9, {"orders": {0: GOOD, 1: GOOD}}))
    assert [one.size for one in seen] == [0, 0]
