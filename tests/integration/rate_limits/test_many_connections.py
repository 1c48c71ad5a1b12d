"""Many connections share a rate: what passes in total has it, whoever sends."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from harness import admin_pages
from harness.cluster import Cluster
from harness.sidecar import NODE_PORTS, Sidecar
from integration.raw import Raw
from integration.scenarios.target import SILENT, create_topic

from kafka_sidecar.codec.envelope import encode_request
from kafka_sidecar.codec.messages.heartbeat import HeartbeatRequest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the way in which it reads its schemas
    from kafka import KafkaProducer

pytestmark = pytest.mark.integration

CONNECTIONS, RATE, SECONDS, BURST_S = 200, 20, 15, 1
RECORDS = 10  # a second, of several clients together
CONFIG = f"""\
nodes: {{ports: {NODE_PORTS}}}
rate_limits:
  - {{name: raw, client_ids: [raw], requests: {RATE}, max_wait: 30s}}
  - {{name: shared, topics: [shared], produce_records: {RECORDS}, max_wait: 30s}}
"""


@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.matrix)], ids=["one process", "two workers"])
def limited(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sidecar]:
    config = tmp_path / "kafka-sidecar.yaml"
    config.write_text(f"workers: {request.param}\n{CONFIG}")
    with Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log", ["--config", str(config)]) as sidecar:
        yield sidecar


def test_what_200_connections_ask_has_the_rate(limited: Sidecar) -> None:
    """Each asks again as soon as it has its response; and each comes as a new one, too, which owes nothing itself."""
    answered, ends = Counter[int](), time.monotonic() + SECONDS
    frame = encode_request(HeartbeatRequest(group_id="none", generation_id=1, member_id="none"), 0, 1, "raw")

    def ask(number: int) -> None:
        while time.monotonic() < ends:
            with Raw(limited.bootstrap) as raw:
                raw._socket.settimeout(max(ends - time.monotonic(), 0.1))
                try:
                    for _ in range(1 + number % 3):
                        raw.send(frame)
                        if raw.read():
                            answered[number] += time.monotonic() <= ends
                except TimeoutError:
                    return

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = sum(answered.values())
    assert total <= 1.1 * RATE * (SECONDS + BURST_S), answered
    assert total >= 0.5 * RATE * SECONDS, answered


def librdkafka(bootstrap: str, sends: Callable[[], bool]) -> int:
    """How many records it has sent that were acknowledged; each one waits for the one before."""
    done: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "logger": SILENT})
    while sends():
        producer.produce("shared", b"x", on_delivery=lambda error, _: done.append(error))
        producer.flush(40)
    assert set(done) <= {None}
    return len(done)


def kafka_python(bootstrap: str, sends: Callable[[], bool]) -> int:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    done = 0
    while sends():
        producer.send("shared", b"x").get(40)
        done += 1
    producer.close()
    return done


def aiokafka(bootstrap: str, sends: Callable[[], bool]) -> int:
    async def run() -> int:
        done = 0
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            while sends():
                await producer.send_and_wait("shared", b"x")
                done += 1
        return done

    return asyncio.run(run())


def test_clients_that_share_a_rate_have_it_together_without_an_error(cluster: Cluster, limited: Sidecar) -> None:
    create_topic(cluster.direct, "shared", 1)
    began = time.monotonic()
    found: list[tuple[str, int]] = []

    def run(client: Callable[[str, Callable[[], bool]], int]) -> None:
        found.append((client.__name__, client(limited.bootstrap, lambda: time.monotonic() < began + SECONDS)))

    threads = [threading.Thread(target=run, args=(one,)) for one in (librdkafka, kafka_python, aiokafka) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.monotonic() - began
    total = sum(count for _, count in found)
    assert len(found) == len(threads)  # none has failed
    assert total <= 1.1 * RECORDS * (took_s + BURST_S) + len(threads), found
    assert total >= 0.5 * RECORDS * SECONDS, found
    page = admin_pages.get(f"{limited.admin}/metrics").text
    assert 'kafka_sidecar_rate_limit_throttled_total{limit="shared"}' in page
