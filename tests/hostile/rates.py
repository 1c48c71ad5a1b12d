"""Attacks of clients that are over a rate limit and wait for nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from integration.validation.batches import batch, record

from hostile.attacks import Attack, Place, Run, sends
from hostile.wire import CLIENT_ID, converse, frame, produce

KB = 1 << 10
LIMITED = """
rate_limits:
  - {name: hostile, client_ids: ["hostile*"], per: [client_id], produce_bytes: 1MiB, consume_bytes: 1MiB, requests: 100}
"""
TOGETHER = LIMITED.replace("per: [client_id], ", "")
API_VERSIONS = 18


def values(size: int) -> bytes:
    """A batch of one record, which is valid JSON."""
    return produce([(b"orders", [(0, batch(record(0, b'"' + b"x" * size + b'"', (), key=None), 1))])])


def come_again(make: Callable[[], bytes], connections: int) -> Callable[[], Run]:
    """Each connection sends once, and comes again at once as a new one: it is not there to be muted."""

    def prepare() -> Run:
        data = make()

        def run(place: Place) -> None:
            deadline = time.monotonic() + place.limit_s

            def one(_: int) -> None:
                while (left_s := deadline - time.monotonic()) > 0:
                    converse(place.kafka, data, left_s, quiet_s=0.05)

            with ThreadPoolExecutor(connections) as pool:
                list(pool.map(one, range(connections)))

        return run

    return prepare


def names(count: int) -> bytes:
    """A client that has another name in each of its requests."""
    one = values(10)
    who = (CLIENT_ID + b"-%d" % number for number in range(count))
    return b"".join(frame(API_VERSIONS, 0, b"", client=name) + one for name in who)


RATES = (
    Attack("80: rate limit: 10,000 requests in one go, on 8 connections", sends(lambda: values(100) * 10_000, 8),
           more=LIMITED),
    Attack("81: rate limit: 1,000 requests of 64 KB in one go, on 200 connections",
           sends(lambda: values(64 * KB) * 1000, 200), more=TOGETHER),
    Attack("82: rate limit: 200 connections that come again after each request of 64 KB",
           come_again(lambda: values(64 * KB), 200), more=TOGETHER),
    Attack("83: rate limit: 50,000 names of one client", sends(lambda: names(50_000)), more=LIMITED),
)  # fmt: skip
