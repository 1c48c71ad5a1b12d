"""The fourth sidecar that `live.py` observes: rate limits, guards, dead letters, rules for consumers, an empty registry
and events of who did what."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

QUIET: dict[str, Any] = {"log_level": 0}
TOPICS = ("lettered", "lettered.dlq", "stored", "registered", "capped", "hard", "secret")
MIXED = ("lettered", "capped", "hard", "secret")
CONFIRMED_S = 5


class _NotFound(BaseHTTPRequestHandler):
    """A registry without schemas."""

    def do_GET(self) -> None:
        body = b'{"error_code": 40403, "message": "Schema not found"}'
        self.send_response(404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is written."""


@contextmanager
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _NotFound)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def configuration(folder: Path, registry_url: str) -> Path:
    config = {
        "schema_registries": {"main": {"urls": [registry_url]}},
        "policies": {"known": {"type": "schema", "registry": "main"}},
        "topics": [
            {"name": "lettered", "policy": "json", "dead_letters": "lettered.dlq"},
            {"name": "stored", "policy": "json", "consume": "hide"},
            {"name": "registered", "policy": "known"},
        ],
        "dead_letters": {"max_records_rate": 5, "spool_folder": str(folder / "letters")},
        "rate_limits": [
            {"name": "capped", "topics": ["capped"], "produce_records": 20, "consume_bytes": "1MiB"},
            {"name": "hard", "topics": ["hard"], "produce_bytes": "1KiB", "action": "reject"},
        ],
        "topic_guards": [{"topics": ["bad*"], "create": "deny"}],
        "audit": {"access": "denied", "access_topic": "access"},
        "authorization": {"default": "allow", "rules": [{"permission": "deny", "topics": ["secret"]}]},
    }
    file = folder / "limited.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


def send(bootstrap: str, direct: str, ended: threading.Event) -> None:
    """A record to each topic in turn; one of two has no valid JSON."""
    producer = Producer({**QUIET, "bootstrap.servers": bootstrap, "linger.ms": 0, "message.timeout.ms": 5000})
    past = Producer({**QUIET, "bootstrap.servers": direct, "linger.ms": 0})
    number = 0
    while not ended.wait(0.02):
        number += 1
        value = b"{}" if number % 2 else b"no json"
        past.produce("stored", value)
        for topic, sent in (*((one, value * 10) for one in MIXED), ("registered", b"\0\0\0\0\1x")):
            with suppress(BufferError, KafkaException):
                producer.produce(topic, sent)
        producer.poll(0)
        past.poll(0)
    producer.flush(CONFIRMED_S)


def read(bootstrap: str, ended: threading.Event) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": "limited", "auto.offset.reset": "earliest"}
    consumer = Consumer({**QUIET, **settings})
    consumer.subscribe(["stored", "capped"])
    while not ended.is_set():
        consumer.consume(100, 0.3)
    consumer.close()


def ask(bootstrap: str, ended: threading.Event) -> None:
    """Topics that may not be created."""
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    while not ended.wait(1):
        with suppress(KafkaException, TimeoutError):
            admin.create_topics([NewTopic("bad", 1, 1)])["bad"].result(CONFIRMED_S)
