"""A replay of what a broker has stored for a real producer: ranges, compression, deleted records."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from harness.cluster import Cluster
from harness.versions import NEWEST
from pyspark.sql import SparkSession
from rich.console import Console

from kafka_sidecar.codec.records import batches
from kafka_sidecar.pipeline.brokers import UnreachableError
from kafka_sidecar.pipeline.records import kafka_log
from kafka_sidecar.pipeline.records.kafka_log import Bound, LogError, find_ranges
from kafka_sidecar.pipeline.records.slices import Slice
from kafka_sidecar.pipeline.records.source import read_slice
from kafka_sidecar.pipeline.replay.command import Request, parse_bound, replay_policy, report_json
from kafka_sidecar.pipeline.replay.job import Job, Outcome
from kafka_sidecar.pipeline.replay.source import replay_slice
from kafka_sidecar.proxy.config.loading import Config
from pipeline.conftest import LOCAL
from pipeline.records.test_whole import SHOWN, log_of_both_formats

SENT_AT = 1_760_000_000_000
MINUTE = 60_000
PER_PARTITION = 1000
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SASL = {  # of one of its listeners
    "listener.security.protocol.map": "SIDECAR:SASL_PLAINTEXT,DIRECT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "listener.name.sidecar.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sidecar.plain.sasl.jaas.config": f'{LOGIN} user_app="secret";',
}
LARGE: dict[str, Any] = {"large_messages": {"topics": [{"name": "large"}]}}
QUIET = Console(file=io.StringIO())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(NEWEST, overrides=SASL) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def config(cluster: Cluster) -> Config:
    return Config(bootstrap_servers=[cluster.direct], pipeline=LOCAL)


def produce(cluster: Cluster, topic: str, codec: str = "lz4") -> None:
    """A thousand records into each of two partitions, one a minute; every tenth is not JSON."""
    servers: dict[str, Any] = {"bootstrap.servers": cluster.direct}
    admin = AdminClient(servers)  # kept until it has responded
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer(
        servers | {"compression.type": codec, "linger.ms": 20, "batch.num.messages": 100, "enable.idempotence": True}
    )
    for number in range(PER_PARTITION):
        for partition in range(2):
            value = b"{broken" if number % 10 == 0 else b"{}"
            producer.produce(
                topic, value, f"k{number % 30}", partition, timestamp=SENT_AT + number * MINUTE,
                headers={"source": b"web"},
            )  # fmt: skip
        producer.poll(0)
    assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    produce(cluster, "orders")
    return "orders"


def test_a_whole_topic_is_replayed(spark: SparkSession, config: Config, topic: str, tmp_path: Path) -> None:
    request = Request((topic,), "json", by="key", plain=True, path=str(tmp_path / "out"))
    report = replay_policy(config, request, QUIET)
    (one,) = report.topics
    assert (one.partitions, one.records, one.rejected_records) == (2, 2 * PER_PARTITION, PER_PARTITION // 5)
    (reason,) = report.reasons
    assert (reason.policy, reason.reason, reason.error_code) == ("json", "not_json", 87)
    assert (reason.first.partition, reason.first.offset, reason.first.timestamp) == (0, 0, SENT_AT)
    assert (reason.last.partition, reason.last.offset) == (1, PER_PARTITION - 10)
    assert {group.by: group.records for group in report.groups} == {"k0": 68, "k10": 66, "k20": 66}
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == json.loads(report_json(report))
    rows = spark.read.parquet(str(tmp_path / "out" / "rows"))
    assert rows.filter("outcome = 'rejected'").count() == one.rejected_records


def test_a_batch_belongs_to_the_range_of_its_last_record(config: Config, topic: str) -> None:
    job = Job(config, "json")
    cuts = [0, 1, 333, 500, 999, PER_PARTITION]
    parts = [Slice(topic, 0, first, end) for first, end in itertools.pairwise(cuts)]
    rows = [row for part in parts for row in replay_slice(job, part)]
    whole = list(replay_slice(job, Slice(topic, 0, 0, PER_PARTITION)))

    def of(found: list[object], outcome: Outcome) -> list[object]:
        return [row for row in found if row.outcome == outcome.value]  # type: ignore[attr-defined]

    assert of([*rows], Outcome.REJECTED) == of([*whole], Outcome.REJECTED)
    assert sum(row.records for row in rows if row.outcome == Outcome.VALIDATED.value) == PER_PARTITION


def test_times_and_offsets_limit_the_range(config: Config, topic: str) -> None:
    settings = {"bootstrap_servers": config.bootstrap_servers}
    assert find_ranges(settings, [topic], None, None) == dict.fromkeys([(topic, 0), (topic, 1)], (0, PER_PARTITION))
    since = parse_bound("40m", SENT_AT + 100 * MINUTE)
    assert find_ranges(settings, [topic], since, Bound(offset=70))[topic, 1] == (60, 70)
    late = Bound(time_ms=SENT_AT + 10**10)
    assert find_ranges(settings, [topic], late, None)[topic, 0] == (PER_PARTITION, PER_PARTITION)


def test_records_that_are_deleted_meanwhile_are_counted(cluster: Cluster, config: Config) -> None:
    produce(cluster, "deleted", "zstd")
    admin = AdminClient({"bootstrap.servers": cluster.direct})
    ((_, done),) = admin.delete_records([TopicPartition("deleted", 0, 600)]).items()
    assert done.result(30).low_watermark == 600
    rows = list(replay_slice(Job(config, "json"), Slice("deleted", 0, 0, PER_PARTITION)))
    deleted = [(row.batch_offset, row.offset) for row in rows if row.outcome == Outcome.DELETED.value]
    (validated,) = (row for row in rows if row.outcome == Outcome.VALIDATED.value)
    assert deleted == [(0, 600)]
    assert 400 <= validated.records < 400 + 100  # the batch with offset 600 is stored whole


def test_a_topic_that_does_not_exist_is_an_error_and_is_not_created(cluster: Cluster, config: Config) -> None:
    with pytest.raises(LogError, match="topic missing does not exist"):
        find_ranges({"bootstrap_servers": config.bootstrap_servers}, ["missing"], None, None)
    topics = AdminClient({"bootstrap.servers": cluster.direct}).list_topics(timeout=10).topics
    assert "missing" not in topics


def test_a_cluster_that_cannot_be_reached_is_an_error() -> None:
    with pytest.raises(UnreachableError, match=r"bootstrap_servers: 127\.0\.0\.1:1 cannot be reached \(.*\); check"):
        find_ranges({"bootstrap_servers": ["127.0.0.1:1"]}, ["orders"], None, None)


def test_a_broker_that_requires_a_login_gets_that_of_the_configuration(cluster: Cluster, topic: str) -> None:
    def with_password(password: str) -> Config:
        kafka = {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{LOGIN} username="app" password="{password}";',
        }  # fmt: skip
        return Config(bootstrap_servers=[cluster.bootstrap], pipeline=LOCAL.model_copy(update={"kafka": kafka}))

    part = Slice(topic, 0, 0, PER_PARTITION)
    *_, validated = replay_slice(Job(with_password("secret"), "json"), part)
    assert validated.records == PER_PARTITION
    with pytest.raises(UnreachableError, match=r"check the addresses, and security\.protocol, sasl\.\*"):
        list(replay_slice(Job(with_password("wrong"), "json"), part))


def test_slices_before_the_range_are_read_from_the_broker(cluster: Cluster) -> None:
    log = log_of_both_formats()
    producer = Producer({"bootstrap.servers": cluster.direct})
    for data in log.batches:
        for record in batches(data)[0].records():
            headers: list[Any] = [(header.key, header.value) for header in record.headers]
            producer.produce("large", record.value, record.key, 0, headers=headers)
        assert producer.flush(30) == 0
    large = Config(bootstrap_servers=[cluster.direct], **LARGE)
    found = [list(read_slice(large, Slice("large", 0, first, 14))) for first in (0, 5, 8, 12)]
    assert [[(row[4], row[1]) for row in rows] for rows in found] == [SHOWN, SHOWN[1:], SHOWN[2:], SHOWN[4:]]


class NewLeader:
    """A client whose leader learns its high watermark after some requests; nothing is left before it."""

    def __init__(self, high_watermarks: list[int]) -> None:
        self.high_watermarks = high_watermarks
        self.cluster = self

    def leader_for_partition(self, partition: object) -> int:
        return 1

    async def force_metadata_update(self) -> None: ...

    async def send(self, leader: int, request: object) -> Any:
        partition = (0, 0, self.high_watermarks.pop(0), -1, 3, None, b"")
        return type("Response", (), {"topics": [("orders", [partition])]})


@pytest.mark.parametrize(("high_watermarks", "is_read"), [([5, 9, 10], True), ([5] * 8, False)])
async def test_a_log_is_not_at_its_end_before_its_leader_has_the_high_watermark(
    monkeypatch: pytest.MonkeyPatch, high_watermarks: list[int], is_read: bool
) -> None:
    monkeypatch.setattr(kafka_log, "RETRY_S", 0)
    reader, client = kafka_log.PartitionReader({}, Slice("orders", 0, 0, 10)), NewLeader(high_watermarks)
    if is_read:
        assert await reader._fetch(client, 5) == (3, b"")
    else:
        with pytest.raises(LogError, match="orders, partition 0: its high watermark is 5 and was 10"):
            await reader._fetch(client, 5)
    assert client.high_watermarks == []
