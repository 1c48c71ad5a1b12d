"""Small logs with large messages through all stages of a Fetch, as `support/small_logs.py` says what consumers get.

After assembly are an interceptor that looks and one that changes, while the broker throttles reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.client import FakeClient
from support.examples import some
from support.features import begun, started
from support.large_logs import ABORTED_PID, OUT_OF_RANGE, Log, shown
from support.large_messages import answered
from support.produce_requests import topic_id
from support.small_logs import WRITERS_OF_A, Sent, interleavings, rule, written

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import decode_request, decode_response, encode_request, encode_response
from kafka_sidecar.codec.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafka_sidecar.codec.records import batches
from kafka_sidecar.plugins.effects import Need, Work
from kafka_sidecar.proxy.relay.exchange import Send

VERSION = 13
ORDERS = topic_id("orders")
LOOKS, CHANGES = {"type": "latency"}, {"type": "support.interception:Reads", "topics": ["orders"]}
LOGS = 2  # of each kind, where not all are taken
Shown = list[tuple[int, bytes | None]]


@dataclass
class Broker:
    """The logs of a topic by partition."""

    logs: dict[int, Log] = field(default_factory=dict)
    throttled: int = 0  # how many of the next reads get no partition, because of a quota

    def serve(self, frame: bytes) -> bytes:
        """The response to a read of the sidecar."""
        if self.throttled:
            self.throttled -= 1
            return encode_response(FetchResponse(throttle_time_ms=900), VERSION, 0)
        request = decode_request(FetchRequest, frame)[1].message
        ((one,),) = (topic.partitions for topic in request.topics)
        return self.fetch(one.partition, one.fetch_offset, one.partition_max_bytes, request.isolation_level == 1)

    def fetch(self, partition: int, offset: int, max_bytes: int, is_committed_only: bool) -> bytes:
        log = self.logs[partition]
        is_there = log.start <= offset <= log.end
        data = PartitionData(
            partition_index=partition,
            error_code=0 if is_there else OUT_OF_RANGE,
            high_watermark=log.end,
            last_stable_offset=log.end,
            log_start_offset=log.start,
            records=log.fetch(offset, max_bytes) if is_there else b"",
            aborted_transactions=tuple(log.aborted) if is_committed_only else None,
        )
        response = FetchResponse(responses=(FetchableTopicResponse(topic_id=ORDERS, partitions=(data,)),))
        return encode_response(response, VERSION, 0)


class Sidecar:
    """One process. What it knows is of partitions: of another one it knows nothing, as after a restart."""

    def __init__(self) -> None:
        self.features = started(LOOKS, CHANGES, large_messages={"topics": [{"name": "orders"}]})
        self.broker = Broker()
        self.client = FakeClient()

    def add(self, log: Log) -> int:
        """A partition."""
        self.broker.logs[partition := len(self.broker.logs)] = log
        return partition

    def fetch(self, partition: int, offset: int, max_bytes: int, is_committed_only: bool) -> PartitionData:
        """What a client gets."""
        one = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic_id=ORDERS, partitions=(one,))
        message = FetchRequest(
            max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, isolation_level=int(is_committed_only), session_id=0,
            session_epoch=-1, topics=(topic,),
        )  # fmt: skip
        frame = encode_request(message, VERSION, 7, "app")
        exchange = begun(self.features, ApiKey.FETCH, VERSION, frame, self.client)
        assert exchange is not None
        step: Any = exchange.request(frame)
        assert step == frame
        step = exchange.response(self.broker.fetch(partition, offset, max_bytes, is_committed_only))
        while isinstance(step, Need):
            if isinstance(step, Send):
                step = exchange.answer(answered(tuple(map(self.broker.serve, step.frames)), step.take))
            else:
                assert isinstance(step, Work)
                step = exchange.answer(step.run())
        ((found,),) = (topic.partitions for topic in decode_response(FetchResponse, step, VERSION).message.responses)
        return found

    def consume(
        self, partition: int, offset: int, max_bytes: int, is_committed_only: bool
    ) -> Iterator[tuple[int, Shown]]:
        """What a consumer shows of each response, with the offset after it."""
        while offset < self.broker.logs[partition].end:
            found = self.fetch(partition, offset, max_bytes, is_committed_only)
            assert found.error_code == 0
            cut_apart = batches(found.records or b"", may_end_early=True)
            kept = [one for one in cut_apart if not (is_committed_only and one.header.producer_id == ABORTED_PID)]
            values = shown(b"".join([bytes(one.data) for one in kept]), offset)
            following = max(one.header.base_offset + one.header.last_offset_delta + 1 for one in cut_apart)
            assert following > offset
            offset = following
            yield offset, values

    def safe_offset(self, partition: int, committed: int) -> int:
        large_messages = self.features.large_messages
        assert large_messages is not None
        return large_messages.intervals.safe_offset(ORDERS, partition, committed)


@pytest.fixture(scope="module")
def sidecar() -> Sidecar:
    return Sidecar()


def changed(found: Sequence[tuple[int, bytes | None]]) -> Shown:
    """What the interceptor makes of them."""
    return [(at, b"edited" if value is not None and value.startswith(b"edit") else value) for at, value in found]


def logs(lost: str, at: int) -> list[tuple[int, list[Sent]]]:
    every = list(enumerate(interleavings(lost)))
    return some(every, of=len(every) // LOGS, at=at)


each_format = pytest.mark.parametrize("of_li", [False, True], ids=["carriers", "segments of li"])
each_isolation = pytest.mark.parametrize("is_committed_only", [False, True], ids=["uncommitted", "committed"])
each_writer = pytest.mark.parametrize("lost", WRITERS_OF_A)


@each_format
@each_isolation
@each_writer
def test_consumers_get_large_messages_whole_and_changed_while_the_broker_throttles_reads(
    sidecar: Sidecar, lost: str, is_committed_only: bool, of_li: bool
) -> None:
    for number, sent in logs(lost, at=len(lost)):
        log = written(sent, of_li, number, ORDERS)
        for start in range(len(sent)):
            partition = sidecar.add(log)
            sidecar.broker.throttled = start % 3
            max_bytes = 1 if start % 2 else 400
            got = [one for _, some in sidecar.consume(partition, start, max_bytes, is_committed_only) for one in some]
            assert got == changed(rule(sent, start, is_committed_only, of_li, seen_from=start)), (sent, start)


@each_format
@each_isolation
@each_writer
def test_from_the_safe_offset_of_a_commit_on_a_consumer_needs_nothing_before_it(
    sidecar: Sidecar, lost: str, is_committed_only: bool, of_li: bool
) -> None:
    """As one of li, which cannot read back. What the process has read is what was shown up to the commit, or all."""
    for number, sent in logs(lost, at=len(lost) + 1):
        partition = sidecar.add(written(sent, of_li, number, ORDERS))
        last = 0
        for committed, _ in sidecar.consume(partition, 0, 1, is_committed_only):
            check_safe(sidecar.safe_offset(partition, committed), committed, sent, is_committed_only, of_li)
            last = committed
        for committed in range(last + 1):
            check_safe(sidecar.safe_offset(partition, committed), committed, sent, is_committed_only, of_li)


def check_safe(safe: int, committed: int, sent: list[Sent], is_committed_only: bool, of_li: bool) -> None:
    wanted = rule(sent, committed, is_committed_only, of_li)
    got = rule(sent, committed, is_committed_only, of_li, log_start=safe)
    assert {*wanted} <= {*got}, (sent, committed, safe)
    assert safe <= committed
