"""The audit of real clients and brokers: events add up, and survive outages, restarts and crashes as documented."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource
from harness import admin_pages
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from integration.lent import plain_cluster
from integration.scenarios.target import LIMIT_S, SILENT, admin_client, create_topic, eventually
from prometheus_client.parser import text_string_to_metric_families
from support.pages import ROOT

pytestmark = pytest.mark.integration

VALIDATOR = jsonschema.Draft202012Validator(json.loads((ROOT / "audit/event.schema.json").read_text()))
AUDIT = "audit"
OUTAGE_INTERVALS = 30  # of a second each
CONFIG = """\
connections: {{drain_timeout: 3s}}
audit:
  topic: {audit}
  cleanup_policy: compact,delete
  retention: 2d
  emitter_id: pod-1
  auditor.reporting.interval.ms: 1000
  auditor.reporting.delay.ms: 0
  auditor.bucket.ms: 60000
  spool_file: {folder}/audit.spool
"""
Event = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with plain_cluster() as cluster:
        yield cluster


class Site:
    """A sidecar that audits, with a topic of its own for records and one for events."""

    def __init__(self, cluster: Cluster, folder: Path, name: str) -> None:
        self.cluster = cluster
        self.audit, self.topic = f"audit-{name}", f"orders-{name}"
        config = folder / "sidecar.yaml"
        config.write_text(CONFIG.format(audit=self.audit, folder=folder))
        create_topic(cluster.direct, self.topic, 2)
        self.log = folder / "sidecar.log"
        self.sidecar = Sidecar.start(cluster.bootstrap, self.log, ["--config", str(config)])
        self.spool = folder / "audit.spool"
        self._numbers = iter(range(1_000_000))

    def produce(self, count: int) -> None:
        """So many records, acknowledged."""
        errors: list[KafkaError | None] = []

        def report(error: KafkaError | None, message: object) -> None:
            errors.append(error)

        producer = Producer(
            {
                "bootstrap.servers": self.sidecar.bootstrap,
                "client.id": "shop",
                "linger.ms": 5,
                "enable.idempotence": True,
                "logger": SILENT,
            }
        )
        for _ in range(count):
            number = next(self._numbers)
            producer.produce(self.topic, b"%d" % number, partition=number % 2, on_delivery=report)
        assert producer.flush(LIMIT_S) == 0
        assert errors == [None] * count

    def metric(self, name: str) -> float:
        families = text_string_to_metric_families(admin_pages.get(f"{self.sidecar.admin}/metrics").text)
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == f"kafka_sidecar_audit_{name}"
        )

    def events(self) -> list[Event]:
        """All of the audit topic, each as the schema says."""
        found = [json.loads(value) for value in read(self.cluster.direct, self.audit)]
        assert [error.message for event in found for error in VALIDATOR.iter_errors(event)] == []
        return found


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    name = request.node.name.removeprefix("test_").split("[")[0][:60]
    site = Site(cluster, tmp_path, name)
    with site.sidecar:
        yield site


def read(bootstrap: str, topic: str) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True, "logger": SILENT}
    )
    try:
        partitions = consumer.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        values: list[bytes] = []
        ended: set[int | None] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(LIMIT_S)
            assert message is not None
            if (error := message.error()) is None:
                values.append(message.value() or b"")
            else:
                assert error.code() == KafkaError._PARTITION_EOF
                ended.add(message.partition())
        return values
    finally:
        consumer.close()


def consume(consumer: Consumer, count: int) -> None:
    for _ in range(count):
        message = consumer.poll(LIMIT_S)
        assert message is not None
        assert message.error() is None


def once(events: list[Event]) -> list[Event]:
    """Events that were sent twice have the same id."""
    return list({event["audit_id"]: event for event in events}.values())


def sums(events: list[Event], topic: str) -> Counter[str]:
    """Records by tier."""
    counts: Counter[str] = Counter()
    for event in events:
        if event["kind"] == "counts":
            assert event["topic"] == topic
            assert (event["client_id"], event["emitter_id"]) == ("shop", "pod-1")
            counts[event["tier"]] += event["count"]
    return counts


def acknowledged(events: list[Event]) -> set[tuple[int, int]]:
    return {
        (event["partition"], offset)
        for event in events
        if event.get("tier") == "produce_ack"
        for first, last in event["ranges"]
        for offset in range(first, last + 1)
    }


def epochs(events: list[Event]) -> list[tuple[list[int], bool]]:
    """Of each process: the numbers of its intervals, and whether the last one is closing."""
    found: dict[int, list[Event]] = {}
    for event in events:
        if event["kind"] == "interval":
            found.setdefault(event["emitter_epoch"], []).append(event)
    result = []
    for _, ends in sorted(found.items()):
        ends.sort(key=lambda event: int(event["interval_seq"]))
        assert [event["is_closing"] for event in ends[:-1]] == [False] * (len(ends) - 1)
        result.append(([event["interval_seq"] for event in ends], ends[-1]["is_closing"]))
    return result


def assert_complete(events: list[Event]) -> None:
    """Each interval has as many events as its end says."""
    arrived: Counter[tuple[int, int]] = Counter()
    for event in events:
        arrived[event["emitter_epoch"], event["interval_seq"]] += event["kind"] == "counts"
    for event in events:
        assert arrived[event["emitter_epoch"], event["interval_seq"]] == event["interval_events"]
        assert event.get("lost_events", 0) == 0


def assert_counted(site: Site, records: int) -> None:
    events = once(site.events())
    assert_complete(events)
    counts = sums(events, site.topic)
    assert counts.keys() == {"produce_attempt", "produce_ack"}
    assert counts["produce_ack"] == records == len(read(site.cluster.direct, site.topic))
    assert counts["produce_attempt"] >= records  # a client repeats what got no response
    assert acknowledged(events) == {(number % 2, number // 2) for number in range(records)}


def test_events_add_up_and_their_topic_is_as_configured(site: Site) -> None:
    site.produce(1000)
    assert site.sidecar.stop() == 0
    assert_counted(site, 1000)
    ((numbers, is_closing),) = epochs(site.events())
    assert numbers == list(range(len(numbers)))
    assert is_closing
    resource = ConfigResource(ConfigResource.Type.TOPIC, site.audit)
    admin = admin_client(site.cluster.direct)
    (configs,) = admin.describe_configs([resource]).values()
    values = {name: entry.value for name, entry in configs.result(LIMIT_S).items()}
    assert (values["cleanup.policy"], values["retention.ms"]) == ("compact,delete", str(2 * 86_400_000))


def test_what_a_group_reads_and_commits_is_counted_and_what_it_reads_again_apart(site: Site) -> None:
    site.produce(500)
    group = {"group.id": "readers", "client.id": "shop", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": site.sidecar.bootstrap, "logger": SILENT, **group})
    consumer.subscribe([site.topic])
    consume(consumer, 200)
    consumer.commit(asynchronous=False)  # the first one says where the group is
    consume(consumer, 300)
    consumer.commit(asynchronous=False)
    consumer.seek(TopicPartition(site.topic, 0, 0))
    consume(consumer, 250)
    consumer.close()
    assert site.sidecar.stop() == 0
    events = once(site.events())
    assert_complete(events)
    read_ = [event for event in events if event.get("tier") == "fetch_delivered"]
    assert {event["group"] for event in read_} == {"readers"}
    assert sum(event["count"] for event in read_) == 500
    assert sum(event["redelivered_count"] for event in read_) == 250
    assert {event["last_offset"] for event in events if event.get("tier") == "commit"} == {249}


@pytest.mark.slow
def test_an_outage_loses_nothing_below_the_bound(site: Site) -> None:
    site.produce(500)
    site.cluster.node(1).kill()
    try:
        eventually(
            lambda: site.metric("buffered_events"), lambda n: n >= OUTAGE_INTERVALS, "buffered", 3 * OUTAGE_INTERVALS
        )
        assert site.metric("send_failures_total") > 0
    finally:
        site.cluster.node(1).start()
    site.produce(500)
    eventually(lambda: site.metric("buffered_events"), lambda n: n < OUTAGE_INTERVALS, "sent")
    assert site.metric("events_discarded_total") == 0
    assert site.sidecar.stop() == 0
    assert_counted(site, 1000)
    ((numbers, is_closing),) = epochs(once(site.events()))
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > OUTAGE_INTERVALS
    assert is_closing


def test_a_stop_without_kafka_keeps_the_events_for_the_next_start(site: Site) -> None:
    site.produce(100)
    site.cluster.node(1).kill()
    try:
        assert site.sidecar.stop() == 0
        assert site.spool.exists()
    finally:
        site.cluster.node(1).start()
    site.sidecar.program = site.sidecar._spawn()
    site.sidecar.wait()
    eventually(site.spool.exists, lambda exists: not exists, "the spool is sent")
    site.produce(100)
    assert site.sidecar.stop() == 0
    assert_counted(site, 200)
    assert [is_closing for _, is_closing in epochs(once(site.events()))] == [True, True]


def test_a_crash_shows_as_a_missing_end(site: Site) -> None:
    site.produce(100)
    eventually(lambda: site.metric("events_sent_total"), lambda n: n > 2, "counts are sent")
    site.sidecar.restart()
    assert site.sidecar.stop() == 0
    assert [is_closing for _, is_closing in epochs(once(site.events()))] == [False, True]
