"""A real S3 store for `store: object`: its credentials, its failures, large objects, and what is left in it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import pytest
import yaml
from confluent_kafka import Consumer, Producer
from harness.object_store import (
    BUCKET,
    NEEDS_GO,
    ObjectStoreServer,
    StoreFront,
    Trouble,
    has_go,
    object_store,
    options,
    store_front,
)
from harness.sidecar import Sidecar
from integration.front import Front
from integration.lent import plain_cluster
from integration.scenarios.target import LIMIT_S, SILENT, eventually

from kafka_sidecar.proxy.features.large_messages.clean_up import ObjectListing, TopicReferences, clean_topic
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

pytestmark = [pytest.mark.matrix, pytest.mark.skipif(not has_go(), reason=NEEDS_GO)]

MIB = 1 << 20
# Below, at and above the size from which on the store gets an object in parts, and a large one.
SIZES = (600_000, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 12 * MIB, 45 * MIB)


@dataclass(frozen=True, slots=True)
class Stored(Front):
    server: ObjectStoreServer = field(hash=False)
    front: StoreFront = field(hash=False)

    def objects(self, topic: str) -> dict[str, int]:
        return self.server.objects(topic)

    def producer(self, **settings: object) -> Producer:
        common = {
            "bootstrap.servers": self.sidecar.bootstrap, "logger": SILENT, "message.max.bytes": 80_000_000,
            "enable.idempotence": True, "queue.buffering.max.kbytes": 400_000, "retry.backoff.max.ms": 500,
        }  # fmt: skip
        return Producer({**common, **settings})

    def send(self, topic: str, *values: bytes, **settings: object) -> list[str | None]:
        """The error of each, in the order in which they were answered."""
        errors: list[str | None] = []
        producer = self.producer(**settings)
        for one in values:
            producer.produce(topic, one, on_delivery=lambda error, _: errors.append(error.name() if error else None))
        assert producer.flush(LIMIT_S) == 0
        return errors

    def read(self, topic: str, count: int) -> list[bytes]:
        """The first values of partition 0, as a plain consumer gets them."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.sidecar.bootstrap, "group.id": f"g-{topic}", "logger": SILENT,
                "auto.offset.reset": "earliest", "fetch.message.max.bytes": 90_000_000,
                "receive.message.max.bytes": 100_000_000,
            }
        )  # fmt: skip
        consumer.subscribe([topic])
        found, until = list[bytes](), time.monotonic() + LIMIT_S
        try:
            while len(found) < count and time.monotonic() < until:
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    found.append(message.value() or b"")
        finally:
            consumer.close()
        return found


def configuration(port: int, folder: Path, **changes: str) -> Path:
    file = folder / "sidecar.yaml"
    section = {
        "object_store": f"s3://{BUCKET}/messages", "object_store_timeout": "4s",
        "object_store_options": {**options(port), **changes},
        "topics": [{"name": "object-*", "store": "object", "object_above": "100KiB"}],
    }  # fmt: skip
    file.write_text(yaml.safe_dump({"large_messages": section}))
    return file


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    folder = tmp_path_factory.mktemp("objects")
    with object_store(folder / "store") as server, store_front(server.port) as front:
        config = configuration(front.port, folder)
        with (
            plain_cluster() as cluster,
            Sidecar.start(cluster.bootstrap, folder / "sidecar.log", ["--config", str(config)]) as sidecar,
        ):
            yield Stored(cluster, sidecar, server, front)
            assert cluster.leaks() == []


@pytest.fixture(autouse=True)
def calm(stored: Stored) -> Iterator[None]:
    yield
    stored.front.trouble = Trouble.NONE
    stored.front.release()


def test_values_below_and_above_the_size_of_a_part_come_back_whole(stored: Stored) -> None:
    topic = stored.topic("object-sizes")
    values = [os.urandom(size) for size in SIZES]
    assert stored.send(topic, *values) == [None] * len(values)
    assert sorted(stored.objects(f"messages/{topic}").values()) == [*SIZES]
    assert [*map(crc32, stored.read(topic, len(values)))] == [*map(crc32, values)]
    assert any(method == "POST" and "uploads" in path for method, path in stored.front.requests)


@pytest.mark.parametrize("trouble", [Trouble.FAILS, Trouble.HANGS], ids=["fails", "hangs"])
def test_while_the_store_does_not_take_objects_a_producer_tries_again(stored: Stored, trouble: Trouble) -> None:
    topic = stored.topic(f"object-{trouble.name.lower()}-writes")
    stored.front.trouble = trouble
    given_up = stored.send(topic, os.urandom(MIB), **{"message.timeout.ms": 6000})
    assert given_up == ["_MSG_TIMED_OUT"]
    assert stored.stored(topic) == []
    assert stored.metric('large_messages_split_total{result="object_store"') >= 1

    value = os.urandom(MIB)
    producer, errors = stored.producer(), list[object]()
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(5)
    assert not errors
    stored.front.trouble = Trouble.NONE
    stored.front.release()
    assert producer.flush(LIMIT_S) == 0
    assert errors == [None]
    assert stored.read(topic, 1) == [value]


def test_a_slow_store_delays_and_loses_nothing(stored: Stored) -> None:
    topic = stored.topic("object-slow")
    stored.front.trouble = Trouble.SLOW
    values = [os.urandom(MIB) for _ in range(3)]
    assert stored.send(topic, *values) == [None] * 3
    assert stored.read(topic, 3) == values


@pytest.mark.parametrize("trouble", [Trouble.FAILS, Trouble.HANGS], ids=["fails", "hangs"])
def test_while_the_store_gives_nothing_a_consumer_waits_at_the_message(stored: Stored, trouble: Trouble) -> None:
    topic = stored.topic(f"object-{trouble.name.lower()}-reads")
    values = [b"before", os.urandom(MIB), b"after"]
    for value in values:  # a batch for each
        assert stored.send(topic, value) == [None]
    consumer = Consumer(
        {
            "bootstrap.servers": stored.sidecar.bootstrap, "group.id": f"g-{topic}", "logger": SILENT,
            "auto.offset.reset": "earliest",
        }
    )  # fmt: skip
    stored.front.trouble = trouble
    consumer.subscribe([topic])
    got = list[bytes]()

    def poll() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            got.append(message.value() or b"")
        return bool(got)

    eventually(poll, bool, "the first record")
    until = time.monotonic() + 6
    while time.monotonic() < until:
        poll()
    assert got == values[:1]
    stored.front.trouble = Trouble.NONE
    stored.front.release()
    eventually(lambda: poll() and len(got), lambda count: count == 3, "all three records")
    consumer.close()
    assert got == values


def test_with_wrong_credentials_nothing_is_stored_and_the_log_says_who_refuses(stored: Stored, tmp_path: Path) -> None:
    topic = stored.topic("object-credentials")
    config = configuration(stored.front.port, tmp_path, secret_access_key="wrong")
    with Sidecar.start(stored.cluster.bootstrap, tmp_path / "sidecar.log", ["--config", str(config)]) as sidecar:
        other = Stored(stored.cluster, sidecar, stored.server, stored.front)
        assert other.send(topic, os.urandom(MIB), **{"message.timeout.ms": 5000}) == ["_MSG_TIMED_OUT"]
        assert other.metric('large_messages_split_total{result="object_store"') >= 1
        text = sidecar.log.read_text()
        assert "object store" in text
        assert "wrong" not in text.replace("wrong_", "")
    assert stored.stored(topic) == []
    assert stored.objects(f"messages/{topic}") == {}


def test_clean_objects_deletes_what_no_record_refers_to(stored: Stored) -> None:
    topic = stored.topic("object-clean")
    values = [os.urandom(MIB), os.urandom(6 * MIB)]
    assert stored.send(topic, *values) == [None] * 2
    for number in range(3):
        stored.server.put(f"messages/{topic}/{number:032x}", b"x" * 10)
    listing = ObjectListing(f"s3://{BUCKET}/messages", options(stored.server.port))
    assert topic in asyncio.run(listing.topics())

    async def clean(now: float, is_dry: bool) -> tuple[int, int, int, int]:
        references = TopicReferences([stored.cluster.direct], BrokerAccess(), lambda *progress: None)
        found = await clean_topic(topic, listing, references, 3600, now, is_dry)
        return found.referenced, found.young, found.unreferenced, found.deleted

    assert asyncio.run(clean(time.time(), is_dry=False)) == (2, 3, 0, 0)
    later = time.time() + 2 * 3600
    assert asyncio.run(clean(later, is_dry=True)) == (2, 0, 3, 0)
    assert asyncio.run(clean(later, is_dry=False)) == (2, 0, 3, 3)
    assert len(stored.objects(f"messages/{topic}")) == 2
    assert [*map(crc32, stored.read(topic, 2))] == [*map(crc32, values)]
