"""The attacks: each is bounded, and goes over loopback to one sidecar. No rights at the broker are needed for any."""

from __future__ import annotations

import gzip
import random
import socket
import ssl
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import zstandard
from integration.validation.batches import batch, record, sized, varint

from hostile.wire import (
    Address,
    compact,
    connect,
    converse,
    fetch,
    frame,
    hold,
    offset_commit,
    produce,
    uvarint,
)

GZIP, SNAPPY, ZSTD = 1, 2, 4
MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sidecar can be reached."""

    kafka: Address
    admin: Address
    limit_s: float  # for one attack
    direct: str = ""  # of the broker


Run = Callable[[Place], object]
Security = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT"]


@dataclass(frozen=True, slots=True)
class Attack:
    """What a client does."""

    name: str  # with its number in the table of docs/reference/limits.md
    prepare: Callable[[], Run]  # builds what is sent, before anything is measured
    security: Security = "PLAINTEXT"  # of the sidecar's listeners, and of the honest clients
    more: str = ""  # sections of the sidecar's configuration; FOLDER in them is one that it may use
    topics: str = ""  # entries of its topics
    kept_mb: float = 1000.0  # resident memory that may still be used ten seconds after it


def sends(make: Callable[[], bytes], connections: int = 1, times: int = 1) -> Callable[[], Run]:
    """The same bytes on some connections at once, so often."""

    def prepare() -> Run:
        return partial(flood, make(), connections, times)

    return prepare


def flood(data: bytes, connections: int, times: int, place: Place) -> None:
    deadline = time.monotonic() + place.limit_s

    def one(_: int) -> None:
        for _ in range(times):
            converse(place.kafka, data, deadline - time.monotonic())

    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(one, range(connections)))


def one_topic(count: int) -> bytes:
    return produce([(b"orders", [(index, None) for index in range(count)])])


def many_topics(count: int) -> bytes:
    return produce((b"%x" % index, []) for index in range(count))


def long_name() -> bytes:
    partition = b"\0" * 4 + compact(b"") + b"\0"
    topic = compact(b"n" * (40 * MB)) + uvarint(2) + partition + b"\0"
    body = b"\0" + b"\xff\xff" + (10_000).to_bytes(4, "big") + uvarint(2) + topic + b"\0"
    return frame(0, 9, body, flexible=True)


def gzip_members() -> bytes:
    return produce([(b"orders", [(0, batch(gzip.compress(b"") * (2 * MB // 20), 1, attributes=GZIP))])])


def snappy_blocks() -> bytes:
    header = b"\x82SNAPPY\0" + (1).to_bytes(4, "big") * 2
    return produce([(b"orders", [(0, batch(header + b"\0\0\0\1\0" * (8 * MB // 5), 1, attributes=SNAPPY))])])


def zstd_frames() -> bytes:
    empty = zstandard.ZstdCompressor().compress(b"")
    return produce([(b"orders", [(0, batch(empty * (4 * MB // len(empty)), 1, attributes=ZSTD))])])


def ten_million_records(topic: bytes) -> bytes:
    one = record(0, b"1", (), key=None)
    count = 10_000_000
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    payload = b"".join(packer.compress(one * 100_000) for _ in range(count // 100_000)) + packer.flush()
    return produce([(topic, [(0, batch(payload, count, attributes=ZSTD))])])


def record_errors(batches: int) -> bytes:
    payload = zlib.compress(b"".join(record(at, b"{", ()) for at in range(1000)), wbits=31)
    return produce([(b"orders", [(index, batch(payload, 1000, attributes=GZIP)) for index in range(batches)])])


def large_batch() -> bytes:
    """90 MB in one batch, within all limits."""
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    records = (record(at, b"1" * 290, (), key=None) for at in range(300_000))
    payload = b"".join(map(packer.compress, records)) + packer.flush()
    return produce([(b"orders", [(0, batch(payload, 300_000, attributes=ZSTD))])])


def deep_json() -> bytes:
    values = [b"[" * 900_000, b'{"a":' * 180_000, b'"' + b"\\u0000" * 150_000 + b'"']
    return produce([(b"orders", [(at, batch(record(0, value, ()), 1)) for at, value in enumerate(values)])])


def million_headers() -> bytes:
    headers = varint(1_000_000) + (varint(1) + b"h" + varint(0)) * 1_000_000
    body = sized(b"\0\0\0" + varint(-1) + sized(b"1") + headers)
    return produce([(b"orders", [(0, batch(body, 1))])])


def bomb() -> bytes:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    payload = b"".join(packer.compress(bytes(MB)) for _ in range(1024)) + packer.flush()
    return produce([(b"orders", [(0, batch(payload, 1, attributes=ZSTD))])])


def new_topics(count: int) -> bytes:
    bad = batch(record(0, b"{", ()), 1)
    return produce((b"every-%d" % index, [(0, bad)]) for index in range(count))


def unknown_ids(count: int) -> bytes:
    chance = random.Random(13)
    records = batch(record(0, b"1", ()), 1)

    def one(number: int) -> bytes:
        partition = b"\0" * 4 + compact(records) + b"\0"
        topic = chance.randbytes(16) + uvarint(2) + partition + b"\0"
        return frame(0, 13, b"\0" + b"\xff\xff" + bytes(4) + uvarint(2) + topic + b"\0", number, flexible=True)

    return b"".join(map(one, range(count)))


def admin_pages(place: Place) -> None:
    converse(place.admin, b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 20_000, place.limit_s)


def large_frame() -> bytes:
    """95 MB, of which the last byte is missing."""
    return frame(0, 8, b"\xff\xff\xff\xff\0\0\0\0\0\0\0\1" + b"\0\6orders" + bytes(95 * MB))[:-1]


def half_sent(place: Place) -> None:
    """Twenty frames that never end."""
    data = large_frame()
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _: converse(place.kafka, data, place.limit_s), range(20)))


def many_connections(count: int, opening: Callable[[int], bytes]) -> Run:
    return lambda place: hold(place.kafka, [opening(number) for number in range(count)], place.limit_s)


@cache  # to load the certificates that a client trusts takes 30 ms
def client_hello() -> bytes:
    """What begins a TLS handshake."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def whole_hello(_: int) -> bytes:
    return client_hello()


def half_hello(_: int) -> bytes:
    return client_hello()[:100]


def at_once(opening: Callable[[int], bytes], times: int, place: Place) -> None:
    """So often 500 connections that send the last byte of something in the same moment, and wait for a second."""
    deadline = time.monotonic() + place.limit_s
    for turn in range(times):
        data = [opening(500 * turn + number) for number in range(500)]
        socks: list[socket.socket] = []
        with suppress(OSError):
            for one in data:
                socks.append(connect(place.kafka))
                socks[-1].sendall(one[:-1])
        for sock, one in zip(socks, data, strict=False):
            with suppress(OSError):
                sock.send(one[-1:])
        time.sleep(max(0.0, min(1.0, deadline - time.monotonic())))
        for sock in socks:
            sock.close()
        if time.monotonic() > deadline:
            break


def trickle(make: Callable[[], bytes], place: Place) -> None:
    """Three hundred connections that send a byte now and then."""
    socks = []
    deadline = time.monotonic() + place.limit_s
    data = make()
    with suppress(OSError):
        socks = [connect(place.kafka) for _ in range(300)]
        for at in range(len(data)):
            for sock in socks:
                with suppress(OSError):
                    sock.send(data[at : at + 1])
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
    for sock in socks:
        sock.close()


def small_produce() -> bytes:
    return produce([(b"orders", [(0, batch(record(0, b"1", ()), 1))])])


def deaf(place: Place) -> None:
    """Ten connections that ask for all metadata, and never read an answer."""
    questions = b"".join(frame(3, 8, b"\xff\xff\xff\xff\0\0\0", number) for number in range(5000))
    socks = []
    with suppress(OSError):
        for _ in range(10):
            socks.append(connect(place.kafka))
            socks[-1].setblocking(False)
            with suppress(BlockingIOError):
                socks[-1].send(questions)
    time.sleep(place.limit_s / 2)
    for sock in socks:
        sock.close()


def reconnect(count: int, opening: Callable[[int], bytes]) -> Run:
    """One connection after the other; each sends something and waits until it is ended, or a moment."""

    def run(place: Place) -> None:
        deadline = time.monotonic() + place.limit_s
        for number in range(count):
            if time.monotonic() > deadline:
                break
            converse(place.kafka, opening(number), 1.0, quiet_s=0.02)

    return run


def single_bytes(place: Place) -> None:
    """A valid request of 200 KB in pieces of one byte."""
    data = produce([(b"orders", [(0, batch(record(0, b'"' + b"x" * 200_000 + b'"', ()), 1))])])
    with suppress(OSError), connect(place.kafka) as sock:
        sock.setsockopt(6, 1, 1)
        deadline = time.monotonic() + place.limit_s
        for at in range(len(data)):
            sock.send(data[at : at + 1])
            if not at & 1023 and time.monotonic() > deadline:
                break


def software(number: int) -> bytes:
    return frame(18, 3, compact(b"s" * (5 * MB)) + compact(b"1\n{}") + b"\0", flexible=True, client=b"c%d" % number)


def long_client_id(number: int) -> bytes:
    return frame(18, 0, b"", client=b"%05d" % number * 6000)


def rejected_without_acks(_: int) -> bytes:
    return produce([(b"orders", [(0, batch(record(0, b"{", ()), 1))])], acks=0)


ATTACKS = (
    Attack("2: Produce, 200,000 partitions without records", sends(partial(one_topic, 200_000))),
    Attack("2: Produce, 2,800,000 such partitions (22 MB)", sends(partial(one_topic, 2_800_000))),
    Attack("2: Produce, 300,000 topics without a policy", sends(partial(many_topics, 300_000))),
    Attack("2: OffsetCommit, 300,000 partitions", sends(partial(offset_commit, b"orders", 300_000))),
    Attack("2: Fetch, 300,000 partitions", sends(partial(fetch, b"orders", 300_000))),
    Attack("3: a topic name of 40 MB, 12 times", sends(long_name, times=12)),
    Attack("4: gzip, 100,000 empty members, on 2 connections", sends(gzip_members, 2)),
    Attack("4: snappy, 1,600,000 empty blocks, on 2 connections", sends(snappy_blocks, 2)),
    Attack("4: zstd, empty frames of 4 MB, on 2 connections", sends(zstd_frames, 2)),
    Attack("5: 10,000,000 records in one batch, on 2 connections", sends(partial(ten_million_records, b"celled"), 2)),
    Attack("5: 300,000 valid records (90 MB) in one batch, on 4 connections", sends(large_batch, 4)),
    Attack("6: 300 batches of 1,000 invalid records", sends(partial(record_errors, 300))),
    Attack("6: 2,000 batches of 1,000 invalid records", sends(partial(record_errors, 2000))),
    Attack("10: 20,000 GET /metrics in one go", lambda: admin_pages),
    Attack("11: 20 unfinished frames of 95 MB", lambda: half_sent),
    Attack("12: 3,000 topic names, each rejected", sends(partial(new_topics, 3000))),
    Attack("13: 300 unknown topic ids", sends(partial(unknown_ids, 300))),
    Attack("14: 3,000 idle connections", lambda: many_connections(3000, lambda number: b"")),
    Attack("17: JSON 900,000 levels deep", sends(deep_json)),
    Attack("18: a record with 1,000,000 headers", sends(million_headers)),
    Attack("19: a gigabyte in zstd, on 8 connections", sends(bomb, 8)),
    Attack("20: 300 connections, a byte at a time", lambda: partial(trickle, small_produce)),
    Attack("21: 200 KB a byte at a time", lambda: single_bytes),
    Attack("22: 50,000 Metadata requests, answers never read", lambda: deaf),
    Attack("23: 2,000 rejected batches with acks=0", lambda: reconnect(2000, rejected_without_acks)),
    Attack("24: 1,000 client ids of 30,000 bytes", lambda: reconnect(1000, long_client_id)),
    Attack("25: a software name of 5 MB, 20 times", lambda: reconnect(20, software)),
    Attack("26: 2,000 connections that speak HTTP", lambda: reconnect(2000, lambda _: b"GET / HTTP/1.1\r\n\r\n")),
    Attack("27: 3,000 TLS handshakes, 500 at once", lambda: partial(at_once, whole_hello, 6), security="SSL"),
    Attack("28: 3,000 half TLS handshakes", lambda: many_connections(3000, half_hello), security="SSL"),
    Attack("29: 300 TLS handshakes, a byte at a time", lambda: partial(trickle, client_hello), security="SSL"),
    Attack("30: 2,000 connections without TLS", lambda: reconnect(2000, lambda _: small_produce()), security="SSL"),
)  # fmt: skip
