"""A proxy between sidecar and broker: consumers while it delays each Fetch, and what it sees of their requests."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from harness.cluster import Cluster
from harness.fault_proxy import Fault, FaultProxy
from harness.ports import free_ports
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.front import Front
from integration.large_messages.live_tail import ends_of_tail
from integration.large_messages.other_consumers import read
from integration.large_messages.test_edges import VALUE
from integration.large_messages.test_other_clients import as_shown, param
from integration.large_messages.written_logs import topic_id, write
from support.large_logs import Log, carrier_record, message_id, sliced

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import open_request
from kafka_sidecar.codec.message import decode
from kafka_sidecar.codec.messages.fetch import FetchRequest
from kafka_sidecar.codec.records import build_batch

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

# Without a cache each slice is read once its carrier has come; those that do not follow each other one by one.
RULES = 'large_messages: {cache: 1, topics: [{name: "large-*"}]}'
SLICES = 30
DELAY_S = 0.1  # of each Fetch: a message takes some seconds
MAX_WAIT_MS = 500
ORPHANS = 25
FETCH_BYTES, FETCH_WAIT_MS = 654_321, 57  # by which requests of the client are known


@dataclass
class Fetches:
    """A fault that delays each Fetch, and notes it."""

    delay_s: float = 0.0
    seen: list[FetchRequest] = field(default_factory=list)

    def __call__(self, frame: bytes) -> Fault | None:
        request = open_request(frame)
        if request.api_key == ApiKey.FETCH:
            self.seen.append(decode(FetchRequest, frame, request.api_version, request.body_at)[0])
            time.sleep(self.delay_s)
        return None


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Front, FaultProxy]]:
    folder = tmp_path_factory.mktemp("between")
    config = folder / "sidecar.yaml"
    config.write_text(RULES)
    (port,) = free_ports(1, keep=True)
    with (
        Cluster.start(NEWEST, 1, fronts={1: port}) as cluster,
        FaultProxy(port, cluster.node(1).ports.sidecar) as between,
        Sidecar.start(cluster.bootstrap, folder / "sidecar.log", ["--config", str(config)]) as sidecar,
    ):
        yield Front(cluster, sidecar), between
        assert cluster.leaks() == []


def scattered(id_: bytes) -> tuple[Log, list[tuple[int, bytes]]]:
    """Two messages with a small record after each slice."""
    log, shown = Log(), list[tuple[int, bytes]]()
    for number, value in ((1, VALUE), (2, VALUE[::-1])):
        offsets = []
        for data in sliced(value, SLICES, message_id(number)):
            offsets.append(log.append(data))
            shown.append((log.add(b"small"), b"small"))
        record = carrier_record(value, SLICES, message_id(number), offsets, topic_id=id_)
        shown.append((log.append(build_batch([record])), value))
    return log, shown


@pytest.mark.parametrize("client", [param("kafka-go")])
def test_kafka_go_gets_messages_that_take_longer_than_it_waits_from_a_slow_broker(
    front: tuple[Front, FaultProxy], client: str
) -> None:
    large, between = front
    topic = large.topic("large-slow")
    log, shown = scattered(topic_id(large, topic))
    write(large, topic, log)
    between.fault = fetches = Fetches(DELAY_S)
    began = time.monotonic()
    try:
        found = read(client, large.sidecar.bootstrap, topic, len(shown), max_wait_ms=MAX_WAIT_MS)
    finally:
        between.fault = lambda frame: None
    assert found == as_shown(shown)
    assert time.monotonic() - began > 2 * (SLICES - 1) * DELAY_S > 10 * MAX_WAIT_MS / 1000
    offsets = [one.topics[0].partitions[0].fetch_offset for one in fetches.seen]
    carriers = [at for at, value in shown if len(value) > 100]
    assert all(offsets.count(at) > 1 for at in carriers)  # the client has asked again
    assert len(fetches.seen) < 4 * SLICES
    assert large.metric("large_messages_dropped_total") == 0


def test_librdkafka_does_not_raise_its_fetch_size_at_a_live_tail_of_slices(front: tuple[Front, FaultProxy]) -> None:
    large, between = front
    topic, statistics = large.topic("large-tail"), list[str]()
    settings = {
        "fetch.wait.max.ms": FETCH_WAIT_MS, "fetch.message.max.bytes": FETCH_BYTES,
        "statistics.interval.ms": 100, "stats_cb": statistics.append,
    }  # fmt: skip
    between.fault = fetches = Fetches()
    try:
        ends_of_tail(large, topic, VALUE, ORPHANS + 1, **settings)
    finally:
        between.fault = lambda frame: None
    own = [one.topics[0].partitions[0] for one in fetches.seen if one.max_wait_ms == FETCH_WAIT_MS]
    assert {one.partition_max_bytes for one in own} == {FETCH_BYTES}
    assert len(own) >= ORPHANS
    brokers = list(json.loads(statistics[-1])["brokers"].values())
    assert sum(one["rx"] for one in brokers) > ORPHANS
    assert [(one["rxpartial"], one["rxerrs"]) for one in brokers] == [(0, 0)] * len(brokers)
