"""Clients of the sidecars that `live.py` observes: honest records, rejected ones, and limits that are reached."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from hostile import wire
from hostile.attacks import one_topic
from monitoring import limited, secured

from kafka_sidecar.codec.records import NewRecord, build_batch

QUIET: dict[str, Any] = {"log_level": 0}
ORDER = json.dumps({"amount": 12.5, "items": ["a", "b"] * 20}).encode()
LARGE = json.dumps({"text": "x" * 900_000}).encode()
STORE = "topic-configs"


def produce(bootstrap: str, topic: str, ended: threading.Event, every_s: float, values: list[bytes]) -> None:
    """Records of some values in turn; a value that is rejected is not sent again."""
    producer = Producer({**QUIET, "bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": False})
    number = 0
    while not ended.wait(every_s):
        number += 1
        with suppress(BufferError):
            producer.produce(
                topic, values[number % len(values)], key=None if number % 50 == 0 else b"%d" % (number % 9)
            )
        producer.poll(0)
    producer.flush(5)


def produce_large(bootstrap: str, ended: threading.Event) -> None:
    """Requests of 900 KB, which validation buffers whole."""
    producer = Producer({**QUIET, "bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": False})
    while not ended.wait(0.2):
        with suppress(BufferError):
            producer.produce("orders", LARGE, key=b"large")
        producer.poll(0.5)


def produce_many(bootstrap: str, ended: threading.Event) -> None:
    """Batches of 20,000 records, which are validated in a thread for seconds."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 500, "batch.num.messages": 20_000, "batch.size": 8 << 20}
    producer = Producer({**QUIET, **settings, "compression.type": "gzip", "enable.idempotence": False, "retries": 0})
    while not ended.is_set():
        for number in range(20_000):
            with suppress(BufferError):
                producer.produce("slow", b'{"number": %d, "text": "some text that is a little longer"}' % number)
        producer.flush(5)


def consume(bootstrap: str, group: str, ended: threading.Event) -> None:
    """Reads and commits; every other commit repeats the last one."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer({**QUIET, **settings, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    while not ended.is_set():
        if consumer.consume(500, 0.3):
            with suppress(KafkaException):
                offsets = consumer.commit(asynchronous=False)
                consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def misbehave(address: tuple[str, int], ended: threading.Event) -> None:
    """Connections that the sidecar ends, and requests beyond its limits."""
    sent = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x7f\xff\xff\xff",  # the length of a request of 2 GiB
        b"\0\0\0\x20\0\0",  # a request that never ends
        one_topic(200),
        wire.produce([(b"orders", [(index, build_batch([NewRecord(b"{")] * 20)) for index in range(3)])]),
        wire.produce([(STORE.encode(), [(0, None)])]),
        wire.produce([(b"unchecked", [(0, b"\0\1" * 50)])]),  # no batch
    ]
    unfinished: list[socket.socket] = []
    while not ended.is_set():
        for data in sent:
            if not ended.wait(0.2):
                with suppress(OSError):
                    unfinished.append(socket.create_connection(address))
                    unfinished[-1].sendall(data)


def set_topic_config(bootstrap: str) -> None:
    """Set a policy with Kafka's own API."""
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    entry = ConfigEntry("record.validation.policy", "json", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "trial", incremental_configs=[entry])
    with suppress(KafkaException, TimeoutError):
        admin.incremental_alter_configs([resource])[resource].result(10)


@contextmanager
def clients(first: str, second: str, third: str, folder: Path, fourth: str, direct: str) -> Any:
    """All of them, until the block ends; the first sidecar has the configuration, the second one two workers, the third
    one TLS, the fourth one limits; ``folder`` has the certificates of the third, ``direct`` is past all of them."""
    ended = threading.Event()
    host, _, port = first.partition(":")
    jobs: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (produce, (first, "orders", ended, 0.002, [ORDER] * 14 + [b"{"])),
        (produce, (first, "trial", ended, 0.02, [ORDER, b"no json"])),
        (produce, (first, "failing", ended, 0.05, [b"x"])),
        (produce, (first, "lingering", ended, 0.05, [b"x"])),
        (produce, (second, "orders", ended, 0.005, [ORDER])),
        (produce_many, (first, ended)),
        (consume, (first, "billing", ended)),
        (consume, (second, "search", ended)),
        (misbehave, ((host, int(port)), ended)),
        (set_topic_config, (first,)),
        (secured.send_large, (third, folder, ended)),
        (secured.read_large, (third, folder, ended)),
        (secured.fail_to_log_in, (third, folder, ended)),
        (secured.lose_objects, (folder, ended)),
        (secured.delete, (third, folder, ended)),
        (limited.send, (fourth, direct, ended)),
        (limited.read, (fourth, ended)),
        (limited.ask, (fourth, ended)),
        *[(produce_large, (first, ended))] * 6,
    ]
    threads = [threading.Thread(target=job, args=arguments, daemon=True) for job, arguments in jobs]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(10)
