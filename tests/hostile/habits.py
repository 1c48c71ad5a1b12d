"""Attacks by producers that never send as is required: client ids of 30 KB, many partitions, topics and software."""

from __future__ import annotations

from functools import partial

from integration.validation.batches import batch, record

from hostile.attacks import Attack, sends
from hostile.wire import compact, frame, produce

MORE = """producers:
  - {topics: [orders], idempotence: required, compression: [zstd], compress_from: 0, client_id: "[a-z]+"}
  - {topics: ["*"], mode: shadow, acks: all, idempotence: required, software: {librdkafka: ">=99"}}
"""
BATCH = batch(record(0, b"{}", ()), 1)


def long_client_ids(count: int) -> bytes:
    """Requests that begin differently, each of a client of its own."""
    return b"".join(produce([(b"orders", [(0, BATCH)])], client=b"%05d" % number * 6000) for number in range(count))


def many_partitions(count: int) -> bytes:
    return produce([(b"orders", [(number, BATCH) for number in range(count)])])


def many_topics(count: int) -> bytes:
    return b"".join(produce([(b"topic-%06d" % number, [(0, BATCH)])]) for number in range(count))


def many_programs(count: int) -> bytes:
    """Each request after an ApiVersions that names another program."""
    one = produce([(b"orders", [(0, BATCH)])])
    versions = (compact(b"s%05d" % number * 80) + compact(b"1") + b"\0" for number in range(count))
    return b"".join(frame(18, 3, version, flexible=True) + one for version in versions)


HABITS = (
    Attack("94: habits: 3,000 client ids of 30,000 bytes, each rejected", sends(partial(long_client_ids, 3000)),
           more=MORE, kept_mb=32),
    Attack("95: habits: 10,000 partitions, each rejected, on 4 connections, 5 times",
           sends(partial(many_partitions, 10_000), 4, 5), more=MORE),
    Attack("96: habits: 20,000 topics, each reported", sends(partial(many_topics, 20_000)), more=MORE, kept_mb=32),
    Attack("97: habits: 20,000 names of software, each rejected", sends(partial(many_programs, 20_000)),
           more=MORE, kept_mb=32),
)  # fmt: skip
