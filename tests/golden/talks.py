"""What clients do while they are listened to."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

RECORDS = 20
CAREFUL: list[Mapping[str, object]] = [
    {"enable.idempotence": True, "compression.type": "lz4"},
    {"acks": 1, "compression.type": "zstd"},
]
NO_ACKS: Mapping[str, object] = {"acks": 0}


def produce(servers: str, kinds: Sequence[Mapping[str, object]]) -> int:
    """librdkafka: one producer of each kind; returns how many records there are then."""
    settings = {"bootstrap.servers": servers, "client.id": "golden", "log_level": 0}
    for kind in kinds:
        producer = Producer({**settings, **kind})
        for number in range(RECORDS):
            producer.produce("orders", key=str(number), value=f"order {number} " + "x" * number, headers={"n": b"1"})
        assert producer.flush(10) == 0
    return RECORDS * len(kinds)


def consume(servers: str, count: int, in_a_group: bool) -> None:
    """librdkafka: read them all back, in a group of one that commits, or without one."""
    settings = {"bootstrap.servers": servers, "client.id": "golden", "log_level": 0, "fetch.wait.max.ms": 200}
    reading = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**settings, **reading})
    if in_a_group:
        consumer.subscribe(["orders"])
    else:
        partitions = consumer.list_topics("orders", timeout=10).topics["orders"].partitions
        consumer.assign([TopicPartition("orders", number, OFFSET_BEGINNING) for number in partitions])
    read = 0
    for _ in range(40):
        read += len(consumer.consume(count - read, timeout=0.5))
        if read == count:
            break
    assert read == count, f"{read} of {count} records read"
    if in_a_group:
        consumer.commit(asynchronous=False)
    consumer.close()


def librdkafka(servers: str) -> None:
    """Producers of all kinds, and a group."""
    consume(servers, produce(servers, [*CAREFUL, NO_ACKS]), in_a_group=True)


def librdkafka_with_acks(servers: str) -> None:
    """The same for librdkafka's mock cluster, which answers requests that want no answer, as no broker does."""
    consume(servers, produce(servers, CAREFUL), in_a_group=True)


def java(servers: str) -> None:
    """Kafka's own console tools: a topic, a producer, a consumer of each group protocol."""
    from harness.jvm import java as command
    from harness.versions import NEWEST

    def run(main: str, *flags: str, stdin: str = "") -> None:
        tool = command(NEWEST, main, "--bootstrap-server", servers, "--topic", "orders", *flags)
        subprocess.run(tool, input=stdin, text=True, check=True, capture_output=True, timeout=60)

    run("org.apache.kafka.tools.TopicCommand", "--create", "--partitions", "2")
    records = "".join(f"{number}:order {number}\n" for number in range(RECORDS))
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    run("org.apache.kafka.tools.ConsoleProducer", *keyed, stdin=records)
    for protocol in ("classic", "consumer"):
        group = ("--group", f"readers-{protocol}", "--consumer-property", f"group.protocol={protocol}")
        run(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            "--from-beginning",
            "--max-messages",
            str(RECORDS),
            *group,
        )
