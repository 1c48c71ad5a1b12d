"""Consumers that hold large responses of a sidecar with `large_messages.spill`, and what it says of its files."""

from __future__ import annotations

import os
import re
import socket
import ssl
import urllib.request
import zlib
from collections.abc import Callable
from struct import Struct

from confluent_kafka import KafkaError, Message, Producer
from harness.sidecar import Sidecar
from integration.scenarios.target import LIMIT_S, SILENT

from kafka_sidecar.codec.envelope import encode_request
from kafka_sidecar.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_sidecar.codec.records import batches

TOPIC, VERSION = "large-one", 4
SIZES = (20_000_000, 40_000_000, 60_000_000)
BUDGET_MB = 48
FIRST_BYTES = 1 << 20  # of a response, that each client reads before it waits for the others
CONFIG = """
connections: {{max_buffered: 48MiB, max_frame: 100MiB}}
large_messages:
  cache: 4MiB
  spill: {{folder: {folder}, max_bytes: {limit}}}
  topics: [{{name: "large-*", max_message: 64MiB}}]
"""
LENGTH = Struct(">i")


class SlowConsumer:
    """Reads the beginning of a response, and the rest when it is let go on."""

    def __init__(self, bootstrap: str, tls: ssl.SSLContext | None = None) -> None:
        host, port = bootstrap.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=120)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)

    def ask(self, offset: int) -> None:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=90_000_000)
        request = FetchRequest(
            replica_id=-1, max_wait_ms=60_000, min_bytes=1, max_bytes=90_000_000,
            topics=(FetchTopic(topic=TOPIC, partitions=(partition,)),),
        )  # fmt: skip
        self._socket.sendall(encode_request(request, VERSION, 1, "slow"))

    def receive(self, count: int) -> bytearray:
        found = bytearray()
        while len(found) < count:
            chunk = self._socket.recv(min(count - len(found), 1 << 18))
            assert chunk, "the sidecar has ended the connection"
            found += chunk
        return found

    def size(self) -> int:
        return int(LENGTH.unpack(self.receive(LENGTH.size))[0])

    def close(self) -> None:
        self._socket.close()


def value_in(frame: bytes | bytearray) -> tuple[int, bytes]:
    """The offset and the value of the only visible record, whose batch's checksum is right."""
    at = LENGTH.size + 4 + 4 + 4 + (2 + len(TOPIC)) + 4 + 4 + 2 + 8 + 8 + 4  # up to the length of the records, v4
    (length,) = LENGTH.unpack_from(frame, at)
    shown = [one for one in batches(bytes(frame[at + 4 : at + 4 + length]), may_end_early=True) if one.header.count]
    (batch,) = [one for one in shown if not one.header.is_control]
    assert batch.crc_is_right()
    (record,) = batch.records()
    return batch.header.base_offset, record.value or b""


def metrics(sidecar: Sidecar) -> dict[str, float]:
    """The counters of large messages."""
    with urllib.request.urlopen(f"{sidecar.admin}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(r"^kafka_sidecar_large_messages_(spill\w+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def send(sidecar: Sidecar, codec: str = "none") -> list[tuple[int, bytes]]:
    """Store one message of each size; their offsets and values."""
    values = [os.urandom(size) for size in SIZES]
    errors: list[KafkaError | None] = []
    offsets: list[int] = []
    settings = {"bootstrap.servers": sidecar.bootstrap, "logger": SILENT, "message.max.bytes": 90_000_000}
    producer = Producer(settings | {"compression.type": codec})

    def delivered(error: KafkaError | None, message: Message) -> None:
        errors.append(error)
        offsets.append(message.offset() or 0)

    for value in values:
        producer.produce(TOPIC, value, on_delivery=delivered)
        assert producer.flush(3 * LIMIT_S) == 0
    assert errors == [None] * len(SIZES)
    return list(zip(offsets, values, strict=True))


def read_one(client: SlowConsumer, start: int, want: tuple[int, bytes], has_begun: Callable[[], object]) -> bool:
    """Whether a client gets a message that begins after ``start``. ``has_begun`` is called amid its response."""
    try:
        while True:
            client.ask(start)
            size = client.size()
            if size < FIRST_BYTES:  # nothing that is visible, in time
                client.receive(size)
                continue
            frame = client.receive(FIRST_BYTES)
            has_begun()
            frame += client.receive(size - FIRST_BYTES)
            offset, value = value_in(LENGTH.pack(size) + bytes(frame))
            assert (offset, zlib.crc32(value)) == (want[0], zlib.crc32(want[1]))
            return True
    finally:
        client.close()
