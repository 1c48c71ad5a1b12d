"""The third sidecar that `live.py` observes: TLS and SASL on both sides, large messages in slices and as objects."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from harness import sasl
from harness.cluster import Cluster
from harness.tls import BROKERS_CA, from_clients, ssl_listener

from kafka_sidecar.proxy.security.sasl.users import create_verifier, format_user

USER, PASSWORD = "shop", "pw-of-the-shop"
TOPICS = ("documents", "scans")  # in slices, as objects
SIZE = 3_000_000


def broker_properties(folder: Path) -> dict[str, object]:
    return {**ssl_listener(folder), **sasl.sasl_properties("SASL_SSL")}


def configuration(folder: Path) -> Path:
    """The file of the sidecar; what it names is written beside it."""
    (folder / "users").write_text(format_user(USER, "SCRAM-SHA-256", create_verifier("SCRAM-SHA-256", PASSWORD)))
    (folder / "password").write_text(sasl.PASSWORD)
    (folder / "objects").mkdir()
    login = {"mechanism": "SCRAM-SHA-256", "username": sasl.USER, "password_file": str(folder / "password")}
    clients = from_clients(folder)["clients"]
    config = {
        "brokers": {
            "security_protocol": "SASL_SSL", "sasl": login,
            "tls": {"ca": str(BROKERS_CA.write(folder, "brokers-ca"))},
        },
        "clients": {**clients, "sasl": {"mechanisms": ["SCRAM-SHA-256"], "users_file": str(folder / "users")}},
        "large_messages": {
            "object_store": f"file://{folder / 'objects'}",
            "topics": [{"name": "documents"}, {"name": "scans", "store": "object"}],
        },
    }  # fmt: skip
    file = folder / "secured.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


def prepare(cluster: Cluster) -> None:
    sasl.add_scram_user(cluster.direct)


def settings(bootstrap: str, folder: Path, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap, "log_level": 0, "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(folder / "clients-ca.crt"), "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": USER, "sasl.password": password,
    }  # fmt: skip


def send_large(bootstrap: str, folder: Path, ended: threading.Event) -> None:
    """A large message to each topic in turn; every tenth is too large for the topic."""
    producer = Producer({**settings(bootstrap, folder), "message.max.bytes": 100_000_000, "linger.ms": 0})
    number = 0
    while not ended.wait(0.3):
        number += 1
        with suppress(BufferError):
            producer.produce(TOPICS[number % 2], os.urandom(SIZE if number % 10 else 70_000_000))
        producer.poll(0)
    producer.flush(5)


def read_large(bootstrap: str, folder: Path, ended: threading.Event) -> None:
    """Reads from the beginning, commits, and begins with another group after ten messages."""
    group = 0
    while not ended.is_set():
        group += 1
        own = {"group.id": f"readers-{group}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({**settings(bootstrap, folder), **own})
        consumer.subscribe(list(TOPICS))
        read = 0
        while read < 10 and not ended.is_set():
            if consumer.consume(1, 0.5):
                read += 1
                with suppress(KafkaException):
                    consumer.commit(asynchronous=False)
        consumer.close()


def lose_objects(folder: Path, ended: threading.Event) -> None:
    """Delete stored objects, so that their messages cannot be delivered."""
    while not ended.wait(2):
        for stored in (one for one in (folder / "objects").rglob("*") if one.is_file()):
            stored.unlink(missing_ok=True)


def delete(bootstrap: str, folder: Path, ended: threading.Event) -> None:
    """Records before an offset that has passed."""
    admin = AdminClient(settings(bootstrap, folder))
    while not ended.wait(3):
        for future in admin.delete_records([TopicPartition(TOPICS[0], 0, 1)]).values():
            with suppress(KafkaException, TimeoutError):
                future.result(5)


def fail_to_log_in(bootstrap: str, folder: Path, ended: threading.Event) -> None:
    """A wrong password, and bytes that are no TLS."""
    host, _, port = bootstrap.partition(":")
    while not ended.wait(1):
        with suppress(OSError), socket.create_connection((host, int(port)), 1) as connection:
            connection.sendall(b"\0\0\0\x20\0\x12\0\3\0\0\0\1")
        with suppress(KafkaException):
            Producer(settings(bootstrap, folder, "wrong")).list_topics(timeout=2)
