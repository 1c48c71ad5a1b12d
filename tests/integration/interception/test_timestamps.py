"""Timestamps as policies and interceptors see them are those that consumers read, whatever attribute bits are set."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable

import cramjam
import lz4.frame
import pytest
import zstandard
from integration.interception.intercepted import Intercepted
from integration.scenarios.target import headers_of
from integration.validation.batches import batch, record
from integration.validation.wire import Wire

VERSION = 12  # the newest that names topics
MINUTE_MS = 60_000
LOG_APPEND_TIME, CONTROL, DELETE_HORIZON = 0x08, 0x20, 0x40
COMPRESS: tuple[Callable[[bytes], bytes], ...] = (  # by codec
    bytes,
    gzip.compress,
    lambda data: bytes(cramjam.snappy.compress_raw(data)),
    lz4.frame.compress,
    zstandard.compress,
)


@pytest.mark.integration
@pytest.mark.parametrize("codec", range(5))
def test_timestamps_are_seen_as_consumers_read_them_whatever_attribute_bits_are_set(
    intercepted: Intercepted, codec: int
) -> None:
    """The interceptor adds a header with the timestamp that it sees."""
    topic = intercepted.topic(f"stamps-{codec}")
    now = int(time.time() * 1000)
    payload = COMPRESS[codec](record(0, b"a") + record(1, b"b", timestamp_delta=5))

    accepted = []
    with Wire(intercepted.sidecar.bootstrap) as wire:
        for flags in range(0, 0x100, 8):
            sent = batch(payload, 2, attributes=flags | codec, time_ms=now - flags * MINUTE_MS, max_time_ms=now)
            if not wire.produce(VERSION, {topic: {0: sent}})[topic, 0].code:
                accepted.append(flags)

    assert {0, LOG_APPEND_TIME, DELETE_HORIZON, LOG_APPEND_TIME | DELETE_HORIZON} <= {*accepted}
    assert not [flags for flags in accepted if flags & CONTROL]
    log = intercepted.log(topic)
    assert [one.timestamp()[1] for one in log] == [
        now - flags * MINUTE_MS + delta for flags in accepted for delta in (0, 5)
    ]
    assert [dict(headers_of(one))["timestamp"] for one in log] == [b"%d" % one.timestamp()[1] for one in log]
