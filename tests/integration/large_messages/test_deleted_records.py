"""Records that clients delete once they have committed them: the slices that a later message needs stay."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from harness.versions import CACHE, NEWEST, ROOT, jars
from integration.front import Front, logged, started
from integration.scenarios.target import LIMIT_S, SILENT, admin_client, eventually

pytestmark = pytest.mark.integration

RULES = "large_messages: {topics: [{name: '*'}]}\n"
SIZE = 20_000_000
SLICES = 20  # of it, before its carrier
PROGRAM = ROOT / "tests" / "jvm" / "streams" / "RepartitionedRecords.java"


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with started(tmp_path_factory.mktemp("deleted"), RULES) as (cluster, sidecar):
        yield Front(cluster, sidecar)


def delete_before(bootstrap: str, topic: str, offset: int) -> int:
    """The offset at which the log begins then."""
    admin = admin_client(bootstrap)
    (future,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    return int(future.result(LIMIT_S).low_watermark)


def sent(front: Front, topic: str, *values: bytes) -> list[int]:
    """Their offsets."""
    offsets = list[int]()
    producer = Producer({
        "bootstrap.servers": front.sidecar.bootstrap, "logger": SILENT, "message.max.bytes": 100_000_000,
        "queue.buffering.max.kbytes": 1_000_000, "linger.ms": 0,
    })  # fmt: skip
    for value in values:
        producer.produce(topic, value, b"k", 0, on_delivery=lambda error, one: offsets.append(one.offset() or 0))
        assert producer.flush(120) == 0
    return offsets


@pytest.mark.parametrize(
    ("offset", "is_restarted"),
    [
        (10, False),
        (SLICES, True),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((1, False), (SLICES, False), (1, True), (10, True))),
    ],
)
def test_what_was_committed_among_the_slices_of_a_message_can_be_deleted_and_it_is_read(
    front: Front, offset: int, is_restarted: bool
) -> None:
    """The offset is one that a consumer commits which has read up to it; the sidecar knows of it, or has forgotten."""
    topic = front.topic(f"among-{offset}-{is_restarted}")
    value = os.urandom(SIZE)
    assert sent(front, topic, value) == [SLICES]
    if is_restarted:
        front.sidecar.restart()
    assert delete_before(front.sidecar.bootstrap, topic, offset) == 0
    if is_restarted:
        front.sidecar.restart()
    assert read_from(front, topic, offset) == [(SLICES, value)]
    assert delete_before(front.sidecar.bootstrap, topic, SLICES + 1) == SLICES + 1


def test_slices_that_no_record_completes_yet_stay_and_the_high_watermark_is_no_exception(front: Front) -> None:
    whole, topic = front.topic("whole"), front.topic("open")
    sent(front, whole, os.urandom(3_000_000))
    producer = Producer({
        "bootstrap.servers": front.cluster.direct, "logger": SILENT, "message.max.bytes": 2_000_000,
    })  # fmt: skip
    for message in logged(front.cluster.direct, whole)[:2]:  # as where a producer is between slices and carrier
        producer.produce(topic, b"small", b"k", 0)
        producer.produce(topic, message.value(), None, 0, headers=message.headers())
    assert producer.flush(LIMIT_S) == 0
    assert delete_before(front.sidecar.bootstrap, topic, -1) == 1
    assert delete_before(front.cluster.direct, topic, -1) == 4


def read_from(front: Front, topic: str, offset: int) -> list[tuple[int, bytes]]:
    """What a consumer gets that begins there, up to the end."""
    consumer = Consumer({
        "bootstrap.servers": front.sidecar.bootstrap, "logger": SILENT, "group.id": topic, "enable.auto.commit": False,
    })  # fmt: skip
    place, found = TopicPartition(topic, 0, offset), list[tuple[int, bytes]]()
    try:
        consumer.assign([place])
        end = consumer.get_watermark_offsets(place, LIMIT_S)[1]

        def is_read() -> bool:
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                found.append((message.offset() or 0, message.value() or b""))
            return bool(found) and found[-1][0] == end - 1

        eventually(is_read, bool, f"the end of {topic}", LIMIT_S)
        return found
    finally:
        consumer.close()


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_kafka_streams_gets_every_large_message_of_a_repartition_topic(
    front: Front, guarantee: str, tmp_path: Path
) -> None:
    """8 of 45 MB, more than the cache holds; small records between them make it commit, and delete, among slices."""
    topic, count, size = front.topic(f"in-{guarantee}".replace("_", "-")), 8, 45_000_000
    for index in range(count):
        sent(front, topic, b"small", bytes([index]) * size)
    with ThreadPoolExecutor(1) as threads:
        settings = (
            f"processing.guarantee={guarantee}", "commit.interval.ms=100", "repartition.purge.interval.ms=100",
            "producer.max.request.size=100000000", "producer.buffer.memory=200000000", "auto.offset.reset=earliest",
            "producer.delivery.timeout.ms=240000", "producer.request.timeout.ms=60000", "producer.linger.ms=0",
        )  # fmt: skip
        out = threads.submit(streams, front, topic, f"app-{guarantee}", 2 * count, tmp_path, *settings).result()
    sizes = sorted(int(line.split()[1]) for line in out.splitlines())
    assert sizes == [5] * count + [size] * count
    assert front.metric('large_messages_dropped_total{reason="missing"}') == 0
    assert front.metric("large_messages_deletions_total") > 0


def streams(front: Front, topic: str, name: str, count: int, folder: Path, *settings: str) -> str:
    path = f"{jars(NEWEST)}:{CACHE / f'streams-{NEWEST}'}/*"
    command = ["java", "-Xmx1500m", "-cp", path, str(PROGRAM), front.sidecar.bootstrap, topic, name, str(count), "240"]
    done = subprocess.run([*command, str(folder), *settings], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout
