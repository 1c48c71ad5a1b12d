"""kafka-python."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from typing import Any

from integration.scenarios.target import LIMIT_S, Target, eventually, numbered

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the way in which it reads its schemas
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic


def producer(target: Target, **settings: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=target.bootstrap.split(","), **{**target.security.python, **settings})


def consumer(target: Target, *topics: str, **settings: Any) -> KafkaConsumer:
    quick = {"fetch_max_wait_ms": 50, "auto_offset_reset": "earliest", "enable_auto_commit": False, "group_id": None}
    return KafkaConsumer(
        *topics, bootstrap_servers=target.bootstrap.split(","), **{**quick, **target.security.python, **settings}
    )


def admin_client(target: Target) -> KafkaAdminClient:
    return KafkaAdminClient(bootstrap_servers=target.bootstrap.split(","), **target.security.python)


def send(target: Target, topic: str, values: list[bytes], partitions: int = 1, **settings: Any) -> None:
    with producer(target, **settings) as sender:
        sent = [sender.send(topic, value, partition=number % partitions) for number, value in enumerate(values)]
        for future in sent:
            future.get(LIMIT_S)


def read(target: Target, topic: str, count: int, isolation: str = "read_uncommitted") -> list[Any]:
    """The first ``count`` records of partition 0, read without a group."""
    with consumer(target, isolation_level=isolation) as reader:
        reader.assign([TopicPartition(topic, 0)])
        reader.seek_to_beginning()
        return poll(count, reader)


def poll(count: int, consumer: Any) -> list[Any]:
    """The next ``count`` records or more."""
    records: list[Any] = []

    def more() -> int:
        records.extend(_polled(consumer))
        return len(records)

    eventually(more, lambda total: total >= count, f"{count} records")
    return records


def _polled(consumer: Any) -> list[Any]:
    # With a shorter limit it gives up joining its group before the others have joined, and retries forever.
    batches = consumer.poll(timeout_ms=1000).values()
    return [record for batch in batches for record in batch]


class Member:
    """A consumer in a group that polls in a thread of its own, as members do."""

    def __init__(self, consumer: KafkaConsumer, seen: list[Any]) -> None:
        self._consumer = consumer
        self._seen = seen
        self._is_leaving = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        with self._consumer:
            while not self._is_leaving.is_set():
                self._seen.extend(_polled(self._consumer))
                self._consumer.commit()

    def share(self) -> int:
        """How many partitions it has."""
        return len(self._consumer.assignment())

    def leave(self) -> None:
        self._is_leaving.set()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()


def codecs(target: Target) -> None:
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        topic = target.topic(str(codec))
        headers = [("h", str(codec).encode())]
        with producer(target, compression_type=codec, linger_ms=20) as sender:
            for value in numbered(100):
                sender.send(topic, value, b"key", headers, timestamp_ms=1234)
            sender.flush(LIMIT_S)
        records = read(target, topic, 100)
        assert [record.value for record in records] == numbered(100)
        assert {(r.key, tuple(r.headers), r.timestamp) for r in records} == {(b"key", tuple(headers), 1234)}


def acks(target: Target) -> None:
    topic = target.topic("acks")
    for setting in ("all", 1, 0):
        send(target, topic, numbered(20), acks=setting, enable_idempotence=False)
    assert len(read(target, topic, 60)) == 60


def idempotent(target: Target) -> None:
    topic = target.topic("idempotent")
    send(target, topic, numbered(1000), enable_idempotence=True, batch_size=2000)
    assert [record.value for record in read(target, topic, 1000)] == numbered(1000)


def transactional(target: Target) -> None:
    topic, source = target.topic("transactional"), target.topic("source")
    partition, group_id = TopicPartition(source, 0), target.named("group")
    with producer(target, transactional_id=target.named("id")) as sender:
        sender.init_transactions()
        for start in (0, 10, 20):
            sender.begin_transaction()
            for future in [sender.send(topic, value) for value in numbered(10, start)]:
                future.get(LIMIT_S)
            if start == 10:
                sender.abort_transaction()
                continue
            sender.send_offsets_to_transaction({partition: OffsetAndMetadata(start + 1, "", -1)}, group_id)
            sender.commit_transaction()
    with consumer(target, group_id=group_id) as reader:
        eventually(lambda: reader.committed(partition), lambda offset: offset == 21, "the offset of the transaction")
    committed = read(target, topic, 20, "read_committed")
    assert [record.value for record in committed] == numbered(10) + numbered(10, 20)
    assert len(read(target, topic, 30)) == 30


def group(target: Target) -> None:
    """A second member takes half of the partitions and gives them back; every record is seen once."""
    topic = target.topic("group", 4)
    send(target, topic, numbered(200), 4)
    settings = {"group_id": target.named("group"), "session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
    seen: list[Any] = []
    first = Member(consumer(target, topic, **settings), seen)
    eventually(lambda: len(seen), lambda count: count == 200, "200 records")
    second = Member(consumer(target, topic, **settings), seen)
    eventually(lambda: [first.share(), second.share()], lambda shares: shares == [2, 2], "two partitions each")
    send(target, topic, numbered(200, 200), 4)
    eventually(lambda: len(seen), lambda count: count == 400, "400 records")
    second.leave()
    eventually(first.share, lambda share: share == 4, "all partitions back")
    first.leave()
    assert Counter(record.value for record in seen) == Counter(numbered(400))
    with consumer(target, group_id=settings["group_id"]) as late:
        assert [late.committed(TopicPartition(topic, partition)) for partition in range(4)] == [100] * 4


def admin(target: Target) -> None:
    name = target.named("topic")
    with admin_client(target) as client:
        cluster = client.describe_cluster()
        assert {broker["host"] for broker in cluster["brokers"]} == {"127.0.0.1"}
        assert len(cluster["brokers"]) == target.nodes
        client.create_topics([NewTopic(name, 2, -1)], wait_for_metadata=True)
        client.create_partitions({name: NewPartitions(4)})
        eventually(
            lambda: len(client.describe_topics([name])[0]["partitions"]), lambda count: count == 4, "4 partitions"
        )
        send(target, name, numbered(10))
        resource = ConfigResource(ConfigResourceType.TOPIC, name, {"max.message.bytes": "65536"})
        client.alter_configs([resource])
        eventually(lambda: str(client.describe_configs([resource])), lambda answer: "65536" in answer, "the setting")
        client.delete_records({TopicPartition(name, 0): 4})
        assert client.describe_log_dirs()
        _groups(target, client, name)
        client.delete_topics([name])
        eventually(client.list_topics, lambda topics: name not in topics, "deleted")


def admin_quorum(target: Target) -> None:
    with admin_client(target) as client:
        [topic] = client.describe_metadata_quorum()["topics"]
        assert len(topic["partitions"][0]["current_voters"]) == target.nodes


def _groups(target: Target, client: Any, topic: str) -> None:
    group_id = target.named("group")
    with consumer(target, topic, group_id=group_id) as member:
        poll(6, member)
        member.commit()
        assert group_id in str(client.list_groups())
        assert group_id in str(client.describe_groups([group_id]))
        assert "10" in str(client.list_group_offsets([group_id]))
    client.delete_groups([group_id])
