"""confluent-kafka, the Python face of librdkafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
    admin,
)
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewPartitions, NewTopic
from integration.scenarios.target import LIMIT_S, SILENT, Target, admin_client, eventually, headers_of, latest, numbered


def _common(target: Target) -> dict[str, object]:
    return {"bootstrap.servers": target.bootstrap, "logger": SILENT, **target.security.librdkafka}


def producer(target: Target, **settings: object) -> Producer:
    return Producer({**_common(target), **_dotted(settings)})


def consumer(target: Target, group: str, **settings: object) -> Consumer:
    config = {
        **_common(target),
        "group.id": target.named(group),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
    }
    return Consumer({**config, **_dotted(settings)})


def _dotted(settings: dict[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def send(target: Target, topic: str, values: Iterable[bytes], partitions: int = 1, **settings: object) -> None:
    """In turn to all partitions."""
    sender = producer(target, **settings)
    failures: list[object] = []
    for number, value in enumerate(values):
        sender.produce(
            topic,
            value,
            partition=number % partitions,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert sender.flush(LIMIT_S) == 0
    assert not failures


def read(
    target: Target, topic: str, count: int, partitions: int = 1, isolation: str = "read_uncommitted"
) -> list[Message]:
    """The first ``count`` records, read without a group."""
    reader = consumer(target, "reader", isolation_level=isolation)
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    try:
        return poll(count, reader)
    finally:
        reader.close()


def poll(count: int, *consumers: Consumer, limit_s: float = LIMIT_S) -> list[Message]:
    """``count`` records that any of the consumers gets."""
    messages: list[Message] = []

    def more() -> int:
        for each in consumers:
            messages.extend(each.consume(500, timeout=0.1))
        return len(messages)

    eventually(more, lambda total: total >= count, f"{count} records", limit_s)
    errors = [message.error() for message in messages if message.error()]
    assert not errors, errors
    return messages


def codecs(target: Target) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topic = target.topic(codec)
        sender = producer(target, compression_type=codec, linger_ms=20)
        for value in (sent := numbered(100)):
            sender.produce(topic, value, b"key", headers={"h": codec.encode()}, timestamp=1234)
        assert sender.flush(LIMIT_S) == 0
        messages = read(target, topic, 100)
        assert [message.value() for message in messages] == sent
        assert {(m.key(), headers_of(m)[0], m.timestamp()[1]) for m in messages} == {
            (b"key", ("h", codec.encode()), 1234)
        }


def acks(target: Target) -> None:
    topic = target.topic("acks")
    for setting in ("all", "1", "0"):
        send(target, topic, numbered(20), acks=setting)
    assert len(read(target, topic, 60)) == 60


def idempotent(target: Target) -> None:
    topic = target.topic("idempotent")
    send(target, topic, numbered(1000), enable_idempotence=True, batch_num_messages=10)
    assert [message.value() for message in read(target, topic, 1000)] == numbered(1000)


def transactional(target: Target) -> None:
    topic, source = target.topic("transactional"), target.topic("source")
    sender = producer(target, transactional_id=target.named("id"))
    sender.init_transactions(LIMIT_S)
    reader = consumer(target, "transactional")
    reader.assign([TopicPartition(source, 0, 0)])
    for start in (0, 10, 20):
        sender.begin_transaction()
        for value in numbered(10, start):
            sender.produce(topic, value)
        assert sender.flush(LIMIT_S) == 0
        if start == 10:
            sender.abort_transaction(LIMIT_S)
            continue
        sender.send_offsets_to_transaction(
            [TopicPartition(source, 0, start + 1)], reader.consumer_group_metadata(), LIMIT_S
        )
        sender.commit_transaction(LIMIT_S)
    assert reader.committed([TopicPartition(source, 0)], LIMIT_S)[0].offset == 21
    reader.close()
    committed = read(target, topic, 20, isolation="read_committed")
    assert [message.value() for message in committed] == numbered(10) + numbered(10, 20)
    assert len(read(target, topic, 30)) == 30


def classic_group(target: Target) -> None:
    _group(target, session_timeout_ms=6000, heartbeat_interval_ms=200)


def consumer_group(target: Target) -> None:
    _group(target, group_protocol="consumer")


def _group(target: Target, **settings: object) -> None:
    """A second member takes half of the partitions and gives them back; every record is seen once."""
    topic = target.topic("group", 4)
    send(target, topic, numbered(200), 4)
    first = consumer(target, "group", **settings)
    first.subscribe([topic])
    seen = poll(200, first, limit_s=12)  # the first sign that the broker does not know the protocol is silence
    first.commit(asynchronous=False)
    second = consumer(target, "group", **settings)
    second.subscribe([topic])

    def shares() -> list[int]:
        seen.extend(first.consume(100, timeout=0.1) + second.consume(100, timeout=0.1))
        return [len(first.assignment()), len(second.assignment())]

    eventually(shares, lambda both: both == [2, 2], "two partitions each")
    send(target, topic, numbered(200, 200), 4)
    seen += poll(400 - len(seen), first, second)
    first.commit(asynchronous=False)
    second.commit(asynchronous=False)
    second.close()

    def share() -> int:
        first.consume(1, timeout=0.1)
        return len(first.assignment())

    eventually(share, lambda count: count == 4, "all partitions back")
    committed = first.committed([TopicPartition(topic, partition) for partition in range(4)], LIMIT_S)
    first.close()
    assert Counter(message.value() for message in seen) == Counter(numbered(400))
    assert [partition.offset for partition in committed] == [100] * 4


def admin_topics(target: Target) -> None:
    client = admin_client(target.bootstrap, target.security)
    name = target.named("topic")
    client.create_topics([NewTopic(name, 2, config={"retention.ms": "1234567"})])[name].result(LIMIT_S)
    eventually(lambda: client.list_topics(timeout=LIMIT_S).topics, lambda topics: name in topics, "listed")
    client.create_partitions([NewPartitions(name, 4)])[name].result(LIMIT_S)
    eventually(
        lambda: len(client.list_topics(name, LIMIT_S).topics[name].partitions), lambda n: n == 4, "four partitions"
    )
    send(target, name, numbered(40))
    ends = latest(name, 4)

    def count() -> int | None:
        try:
            return sum(int(end.result(LIMIT_S).offset) for end in client.list_offsets(ends).values())
        except KafkaException:  # the broker that is asked does not know all partitions yet
            return None

    eventually(count, lambda n: n == 40, "offsets")
    [deleted] = client.delete_records([TopicPartition(name, 0, -1)]).values()
    assert deleted.result(LIMIT_S).low_watermark >= 0
    client.delete_topics([name])[name].result(LIMIT_S)
    eventually(lambda: client.list_topics(timeout=LIMIT_S).topics, lambda topics: name not in topics, "deleted")


def admin_configs(target: Target) -> None:
    client = admin_client(target.bootstrap, target.security)
    name = target.topic("configs")
    change = ConfigEntry("max.message.bytes", "65536", incremental_operation=admin.AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[change])
    client.incremental_alter_configs([resource])[resource].result(LIMIT_S)

    def configured() -> object:
        try:
            return client.describe_configs([resource])[resource].result(LIMIT_S)["max.message.bytes"].value
        except KafkaException as error:  # a broker that does not know the topic yet
            return error

    eventually(configured, lambda value: value == "65536", "the setting")
    broker = ConfigResource(ConfigResource.Type.BROKER, "1")
    assert "log.dirs" in client.describe_configs([broker])[broker].result(LIMIT_S)
    acl = admin.AclBinding(
        admin.ResourceType.TRANSACTIONAL_ID, target.prefix, admin.ResourcePatternType.LITERAL, "User:stranger", "*",
        admin.AclOperation.DESCRIBE, admin.AclPermissionType.ALLOW,
    )  # fmt: skip
    client.create_acls([acl])[acl].result(LIMIT_S)


def admin_groups(target: Target) -> None:
    client = admin_client(target.bootstrap, target.security)
    cluster = client.describe_cluster().result(LIMIT_S)
    assert {node.host for node in cluster.nodes} == {"127.0.0.1"}
    assert len(cluster.nodes) == target.nodes
    topic, group = target.topic("groups"), target.named("group")
    send(target, topic, numbered(10))
    member = consumer(target, "group")
    member.subscribe([topic])
    poll(10, member)
    member.commit(asynchronous=False)
    assert group in {listed.group_id for listed in client.list_consumer_groups().result(LIMIT_S).valid}
    assert len(client.describe_consumer_groups([group])[group].result(LIMIT_S).members) == 1
    member.close()
    offsets = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])
    eventually(lambda: _altered(client, offsets), bool, "offsets altered")
    answer = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(LIMIT_S)
    assert [partition.offset for partition in answer.topic_partitions] == [3]
    client.delete_consumer_groups([group])[group].result(LIMIT_S)


def _altered(client: AdminClient, offsets: ConsumerGroupTopicPartitions) -> bool:
    """Whether the broker agreed: as long as it believes that the group has members, it does not."""
    try:
        client.alter_consumer_group_offsets([offsets])[offsets.group_id].result(LIMIT_S)
    except KafkaException:
        return False
    return True
