"""Real clients that are over a limit, at a real broker: how fast they are, and that they see no error.

How close to the limit they come is measured by bench/rate_limits.py; here no client may be faster than it, and none
may stand still.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from harness import admin_pages
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from integration.rate_limits.bulk_clients import (
    SIZE,
    Ask,
    Done,
    consumers,
    librdkafka_consumes,
    librdkafka_produces,
    producers,
)
from integration.rate_limits.conftest import RATE, SECONDS
from integration.scenarios.target import LIMIT_S, SILENT, create_topic, eventually
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.integration

RECORDS = RATE * SECONDS // SIZE
BURST_S = 1
LARGEST = 1_100_000  # bytes of a request or response of these clients: what is sent last is not waited for
MUCH_SLOWER = 5.0  # than the limit: the machine may be busy
Run = Callable[[Ask], Done]


def samples(sidecar: Sidecar) -> Mapping[tuple[str, str], float]:
    """Of the metrics of rate limits, by name and limit, added up over what else they tell apart."""
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(admin_pages.get(f"{sidecar.admin}/metrics").text):
        for sample in family.samples:
            if sample.name.startswith("kafka_sidecar_rate_limit_"):
                key = sample.name.removeprefix("kafka_sidecar_rate_limit_"), sample.labels.get("limit", "")
                found[key] = found.get(key, 0.0) + sample.value
    return found


def installed(runs: Mapping[str, Run]) -> dict[str, Run]:
    return {name: run for name, run in runs.items() if name != "franz-go" or shutil.which("go")}


def at_once(runs: Mapping[str, Run], bootstrap: str, topic: str, what: str) -> dict[str, Done]:
    """All clients at the same time, each with the limit for itself."""
    with ThreadPoolExecutor(len(runs)) as pool:
        started = {
            name: pool.submit(run, Ask(bootstrap, topic, f"{name}-{what}", RECORDS)) for name, run in runs.items()
        }
        return {name: one.result() for name, one in started.items()}


def check(name: str, done: Done) -> None:
    assert done.failed == (), (name, done)
    assert done.arrived >= RECORDS, (name, done)
    sent = done.arrived * SIZE
    assert sent - BURST_S * RATE - LARGEST <= 1.05 * RATE * done.seconds, (name, done, "it is faster than its limit")
    assert sent * MUCH_SLOWER >= RATE * done.seconds, (name, done, "it is much slower than its limit")


class Free:
    """A client without limits beside them: how long its slowest record took."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acked = 0
        self.slowest_s = 0.0
        self.failed: list[str] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "client.id": "free", "logger": SILENT})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()

            def delivered(error: KafkaError | None, message: Message, began: float = began) -> None:
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                self.acked += error is None
                if error is not None:
                    self.failed.append(error.name())

            self._producer.produce(self._topic, b"x", on_delivery=delivered)
            self._producer.poll(0.02)
        self._producer.flush(LIMIT_S)

    def __enter__(self) -> Free:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


def test_five_clients_are_held_to_their_rate_without_an_error_and_others_are_not_slowed(
    cluster: Cluster, sidecar: Sidecar, host: ToolHost
) -> None:
    topic, free = f"limited-{time.time_ns()}", f"free-{time.time_ns()}"
    for name in (topic, free):
        create_topic(cluster.direct, name, 1)
    with Free(sidecar.bootstrap, free) as other:
        produced = at_once(installed(producers(host)), sidecar.bootstrap, topic, "produces")
    for name, done in produced.items():
        check(name, done)
    assert other.failed == []
    assert other.acked > 10 * SECONDS
    assert other.slowest_s < SECONDS / 2
    consumed = at_once(installed(consumers(host)), sidecar.bootstrap, topic, "consumes")
    for name, done in consumed.items():
        check(name, done)
    found = samples(sidecar)
    assert found["throttled_total", "clients"] > 10
    assert found["bytes_total", "clients"] >= 2 * len(produced) * RECORDS * SIZE
    assert found["rejected_batches_total", "clients"] == 0


def test_a_large_message_arrives_and_is_waited_for_afterwards(cluster: Cluster, sidecar: Sidecar) -> None:
    topic = f"limited-large-{time.time_ns()}"
    create_topic(cluster.direct, topic, 1, {"max.message.bytes": "10000000"})
    value = bytes(5 * RATE)
    settings: dict[str, Any] = {"bootstrap.servers": sidecar.bootstrap, "client.id": topic, "logger": SILENT}
    producer = Producer({**settings, "message.max.bytes": 10_000_000})
    failed: list[KafkaError] = []
    began = time.monotonic()
    for one in (value, b"after"):
        producer.produce(topic, one, on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.flush(LIMIT_S)
    assert failed == []
    assert time.monotonic() - began > 3.9 - BURST_S
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.direct, "group.id": topic, "auto.offset.reset": "earliest", "logger": SILENT,
            "fetch.message.max.bytes": 10_000_000,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    sizes = [len(message.value() or b"") for message in consumer.consume(2, LIMIT_S)]
    consumer.close()
    assert sizes == [len(value), len(b"after")]


def test_a_client_without_responses_is_slowed_as_well(cluster: Cluster, sidecar: Sidecar) -> None:
    topic = f"limited-acks-{time.time_ns()}"
    create_topic(cluster.direct, topic, 1)
    ask = Ask(sidecar.bootstrap, topic, topic, RECORDS)
    done = librdkafka_produces(ask, acks=0)
    assert done.failed == ()
    read = librdkafka_consumes(Ask(cluster.direct, topic, f"{topic}-reads", RECORDS))
    assert read.arrived == RECORDS
    assert samples(sidecar)["throttled_total", "clients"] > 0


def test_requests_of_any_api_are_limited(cluster: Cluster, sidecar: Sidecar) -> None:
    create_topic(cluster.direct, topic := f"asked-{time.time_ns()}", 1)
    settings: dict[str, Any] = {"bootstrap.servers": sidecar.bootstrap, "client.id": "asks-much", "logger": SILENT}
    admin = AdminClient(settings)
    began = time.monotonic()
    for _ in range(300):
        assert topic in admin.list_topics(topic, LIMIT_S).topics
    assert time.monotonic() - began >= (300 - 50) / 50 / 1.05 - 0.5


def test_what_is_over_a_limit_that_rejects_is_an_error_of_its_record(cluster: Cluster, sidecar: Sidecar) -> None:
    if "rejected" not in AdminClient({"bootstrap.servers": cluster.direct}).list_topics().topics:
        create_topic(cluster.direct, "rejected", 1)
    ask = Ask(sidecar.bootstrap, "rejected", f"hard-{time.time_ns()}", RECORDS)
    done = librdkafka_produces(ask)
    assert set(done.failed) == {"POLICY_VIOLATION"}
    assert 0 < done.arrived < RECORDS
    assert done.arrived * SIZE <= RATE * (done.seconds + BURST_S) * 1.05 + LARGEST
    found: Any = eventually(
        lambda: samples(sidecar)["rejected_batches_total", "hard"], lambda count: count > 0, "rejections are counted"
    )
    assert found >= len(set(done.failed))
