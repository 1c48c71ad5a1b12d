"""Producers under a byte quota, which mutes their connection after each slice: a retry goes on where the last ended."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.front import Front
from integration.large_messages.stored import assembled
from integration.scenarios.target import SILENT
from integration.together.broker_admin import throttle

pytestmark = pytest.mark.integration

UNLIMITED = 1e12
MOST_ORPHANS = 3  # slices that were on their way when the producer gave up, of one or two attempts


def java(java: ToolHost, large: Front, topic: str, value: bytes, folder: Path, **settings: str) -> int:
    """The offset at which one value is stored."""
    path = folder / "value"
    path.write_bytes(value)
    size = len(value) + 100_000
    given = {
        "client.id": topic, "max.request.size": str(size), "buffer.memory": str(2 * size), "batch.size": str(size),
        **{name.replace("_", "."): one for name, one in settings.items()},
    }  # fmt: skip
    arguments = [f"{name}={one}" for name, one in given.items()]
    out = java.run("FileRecords", large.sidecar.bootstrap, topic, *arguments, stdin=f"{path}\n\n", limit_s=100)
    _, offset, error, about = out.rstrip("\n").split("\t", 3)
    assert error == "", about
    return int(offset)


def librdkafka(large: Front, topic: str, value: bytes, **settings: object) -> int:
    """The offset at which one value is stored."""
    found: list[object] = []
    producer = Producer({
        "bootstrap.servers": large.sidecar.bootstrap, "logger": SILENT, "client.id": topic,
        "message.max.bytes": 100_000_000, "batch.size": 100_000_000, "queue.buffering.max.kbytes": 200_000,
        **{name.replace("_", "."): one for name, one in settings.items()},
    })  # fmt: skip
    producer.produce(topic, value, partition=0, on_delivery=lambda error, one: found.append(error or one.offset()))
    assert producer.flush(200) == 0
    (offset,) = found
    assert isinstance(offset, int), offset
    return offset


def check(
    large: Front, topic: str, value: bytes, offset: int, began: float, most_orphans: int, is_once: bool = True
) -> None:
    """``is_once``: not from a producer without idempotence, which sends again what was stored but acknowledged late."""
    found = assembled(large.log(topic))
    print(f"{topic}: {len(value)} bytes in {time.monotonic() - began:.1f} s, {found.orphans} orphans")
    assert {record.value for record in found.records} == {value}
    assert offset in [record.offset for record in found.records]
    assert len(found.records) == 1 or not is_once
    assert found.orphans <= most_orphans


@pytest.mark.parametrize(
    "client",
    [
        "java", pytest.param("java, plain", marks=pytest.mark.slow),
        "librdkafka", pytest.param("librdkafka, plain", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_producer_that_gives_up_under_a_quota_comes_to_the_end_with_its_retries(
    large: Front, java_host: ToolHost, tmp_path: Path, client: str
) -> None:
    topic, value = large.topic(f"large-quota-{client.replace(', ', '-')}"), os.urandom(10_000_000)
    throttle(large.cluster.direct, [topic], UNLIMITED, 500_000)
    began = time.monotonic()
    plain = client.endswith("plain")
    if client.startswith("java"):
        settings = {"request_timeout_ms": "8000", "enable_idempotence": str(not plain).lower()}
        offset = java(java_host, large, topic, value, tmp_path, **settings)
    else:
        offset = librdkafka(large, topic, value, socket_timeout_ms=8000, request_timeout_ms=8000,
                            enable_idempotence=not plain)  # fmt: skip
    check(large, topic, value, offset, began, MOST_ORPHANS, is_once=not plain)


@pytest.mark.slow
@pytest.mark.parametrize("client", ["java", "librdkafka"])
def test_45_megabytes_through_a_quota_of_one_megabyte_a_second(
    large: Front, java_host: ToolHost, tmp_path: Path, client: str
) -> None:
    """With the clients' own limits of time."""
    topic, value = large.topic(f"large-slow-quota-{client}"), os.urandom(45_000_000)
    throttle(large.cluster.direct, [topic], UNLIMITED, 1_000_000)
    began = time.monotonic()
    is_java = client == "java"
    offset = java(java_host, large, topic, value, tmp_path) if is_java else librdkafka(large, topic, value)
    check(large, topic, value, offset, began, MOST_ORPHANS)


@pytest.fixture(scope="module")
def java_host(java: Mapping[str, ToolHost]) -> ToolHost:
    return java[NEWEST]
