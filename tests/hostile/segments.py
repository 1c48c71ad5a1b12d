"""Attacks on what assembles large messages: segments and carriers that no client will ever complete, or all at once.

Whoever may write to a topic writes them, past the sidecar too. Each attack has a topic of its own, written at the
broker; a consumer reads it through the sidecar until it gets the honest record after them.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from secrets import token_hex

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from crc32c import crc32c

from hostile.attacks import MB, ZSTD, Attack, Place, Run, reconnect
from hostile.wire import connect, converse, fetch, produce
from kafka_sidecar.codec.records import Header, NewRecord, build_batch
from kafka_sidecar.large_messages.back_pointers import BackPointers
from kafka_sidecar.large_messages.lm_header import V3, LmHeader

TOPIC = "segments"
SECTION = f'large_messages: {{topics: [{{name: "{TOPIC}-*"}}]}}\n'
SMALL_BUDGET = "connections: {max_buffered: 64MiB}\n"
HONEST = b'"honest"'
SLICES = 20


def lm(number: int, count: int, size: int, id_: int = 0) -> Header:
    return Header("_lm", LmHeader(V3, (id_ + 1).to_bytes(16, "big"), number, count, size).encode())


def segments(count: int, key: bytes | None = b"key") -> list[list[NewRecord]]:
    """One batch, of messages of two segments each: one of them lacks."""
    return [[NewRecord(b"1", key, (lm(0, 2, 1000, number),)) for number in range(count)]]


def spread(batches: int, each: int) -> list[list[NewRecord]]:
    """Many batches of segments, with room between them."""
    return [
        [NewRecord(b"1", b"key", (lm(0, 2, 1000, at * each + one),)) for one in range(each)] for at in range(batches)
    ]


def shared_slices(carriers: int) -> list[list[NewRecord]]:
    """Slices of 20 MB together, which take nothing in the log, and carriers that all point to them."""
    size = SLICES * MB + 1
    slices = [[NewRecord(bytes(MB), None, (lm(at, SLICES + 1, size),))] for at in range(SLICES)]
    pointers = BackPointers(bytes(16), crc32c(bytes(size)), tuple(range(SLICES))).encode()
    headers = lm(SLICES, SLICES + 1, size), Header("_lmr", pointers)
    return [*slices, [NewRecord(b"\0", b"%d" % number, headers) for number in range(carriers)]]


def reads_past(make: Callable[[], Sequence[Sequence[NewRecord]]]) -> Callable[[], Run]:
    """What is written, and then read to the honest record after them it."""

    def prepare() -> Run:
        batches = [build_batch(one, codec=ZSTD) for one in make()]
        return partial(read_past, [*batches, build_batch([NewRecord(HONEST)])])

    return prepare


def read_past(batches: Sequence[bytes], place: Place) -> str:
    topic = create(place)
    host, _, port = place.direct.rpartition(":")
    for data in batches:
        converse((host, int(port)), produce([(topic.encode(), [(0, data)])]), 10.0, quiet_s=0.05)
    began, taken, found = time.monotonic(), 0, False
    consumer = Consumer({"bootstrap.servers": f"{place.kafka[0]}:{place.kafka[1]}", "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    while not found and time.monotonic() < began + place.limit_s:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            taken += len(message.value() or b"")
            found = message.value() == HONEST
    consumer.close()
    return (
        f"{taken} bytes, {f'the honest record after {time.monotonic() - began:.1f} s' if found else 'nothing honest'}"
    )


def create(place: Place) -> str:
    topic = f"{TOPIC}-{token_hex(4)}"
    new = NewTopic(topic, 1, config={"max.message.bytes": str(16 * MB), "compression.type": "producer"})
    admin = AdminClient({"bootstrap.servers": place.direct})
    admin.create_topics([new])[topic].result(30)
    return topic


def deaf_readers(count: int, place: Place) -> None:
    """A message of 20 MB, and clients that ask for it and never read what they get."""
    topic, bootstrap = create(place), f"{place.kafka[0]}:{place.kafka[1]}"
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 64 * MB, "acks": "all"})
    producer.produce(topic, b'"' + b"x" * (20 * MB) + b'"')
    producer.flush(30)
    deadline, socks = time.monotonic() + place.limit_s, list[socket.socket]()
    for _ in range(count):
        sock = connect(place.kafka)
        socks.append(sock)
        sock.sendall(fetch(topic.encode(), 1))
    while time.monotonic() < deadline:
        time.sleep(0.5)
        for sock in socks:  # a byte at times, so that they are not idle
            with suppress(OSError):
                sock.setblocking(False)
                sock.recv(1)
    for sock in socks:
        sock.close()


def half_fetch(_: int) -> bytes:
    return fetch(f"{TOPIC}-0".encode(), 1)[:-3]


SEGMENTS = (
    Attack("52: 20,000 segments in one batch (36 KB)", reads_past(partial(segments, 20_000)), more=SECTION),
    Attack("53: 300,000 segments in one batch", reads_past(partial(segments, 300_000)), more=SECTION),
    Attack("54: 300,000 segments without keys", reads_past(partial(segments, 300_000, None)), more=SECTION),
    Attack("55: 100 batches of 2,000 segments", reads_past(partial(spread, 100, 2_000)), more=SECTION),
    Attack("56: 40 carriers of the same 20 MB of slices", reads_past(partial(shared_slices, 40)), more=SECTION),
    Attack("57: 2,000 clients that go away in a Fetch", lambda: reconnect(2000, half_fetch), more=SECTION),
    Attack("58: 8 clients that never read 20 MB", lambda: partial(deaf_readers, 8), more=SECTION + SMALL_BUDGET),
)
