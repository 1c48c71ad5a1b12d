"""What a broker rejects of a split batch, and what the client gets of that: code, partition and index of the record."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from integration.front import Front
from integration.scenarios.target import LIMIT_S, admin_client
from integration.validation.wire import Answer, Wire

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.records import NewRecord, build_batch

pytestmark = pytest.mark.integration

LIMIT = 20_000
SMALL, LARGE = b"small", os.urandom(90_000)
HOUR_MS = 3_600_000
VERSIONS = (7, 8, 12, 13)  # the first one has no errors of records, the last one has ids of topics
NOT_STORED = "a slice of the message is not stored: "


def batch(*values: bytes, without_key: tuple[int, ...] = (), timestamp: int | None = None) -> bytes:
    records = [NewRecord(value, None if at in without_key else b"k%d" % at) for at, value in enumerate(values)]
    return build_batch(records, base_timestamp=int(time.time() * 1000) if timestamp is None else timestamp)


def produced(bootstrap: str, version: int, topic: str, records: bytes) -> Answer:
    with Wire(bootstrap) as wire:
        return wire.produce(version, {topic: {0: records}})[topic, 0]


@pytest.mark.parametrize("version", VERSIONS)
def test_records_that_the_broker_rejects_keep_their_index(large: Front, version: int) -> None:
    topic = large.topic(f"unique-index-{version}", max_message_bytes=str(LIMIT), cleanup_policy="compact")
    bad = (2, 4)
    answer = produced(large.sidecar.bootstrap, version, topic, batch(b"0", LARGE, b"2", LARGE, b"4", without_key=bad))
    assert answer == produced(large.cluster.direct, version, topic, batch(*[SMALL] * 5, without_key=bad))
    assert answer.code == ErrorCode.INVALID_RECORD
    assert [at for at, _ in answer.record_errors] == ([*bad] if version > VERSIONS[0] else [])


def too_old(large: Front, topic: str) -> bytes:
    large.topic(topic, 2, max_message_bytes=str(LIMIT), message_timestamp_before_max_ms=str(HOUR_MS))
    return batch(SMALL, LARGE, SMALL, timestamp=int(time.time() * 1000) - 2 * HOUR_MS)


def lowered(large: Front, topic: str) -> bytes:
    """A limit that the sidecar knows, and another one of less than half."""
    large.topic(topic, 2, max_message_bytes=str(LIMIT))
    assert produced(large.sidecar.bootstrap, 12, topic, batch(LARGE)).code == 0
    entry = ConfigEntry("max.message.bytes", "4000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = admin_client(large.cluster.direct)
    admin.incremental_alter_configs([resource])[resource].result(LIMIT_S)
    return batch(SMALL, LARGE, SMALL)


# By name: the code of the broker, and what makes it.
CAUSES: dict[str, tuple[int, Callable[[Front, str], bytes]]] = {
    "invalid-timestamp": (32, too_old),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_slice_that_a_broker_rejects_fails_its_partition_alone_without_an_index(large: Front, cause: str) -> None:
    topic = f"large-rejected-{cause}"
    code, make = CAUSES[cause]
    records = make(large, topic)
    other = large.topic(f"{topic}-other", 2, max_message_bytes=str(LIMIT))
    good, before = batch(SMALL, LARGE, SMALL), large.log(topic)
    with Wire(large.sidecar.bootstrap) as wire:
        answers = wire.produce(12, {topic: {0: records}, other: {0: good, 1: good}})
        rejected = answers.pop((topic, 0))
        assert (rejected.code, rejected.base_offset, rejected.record_errors) == (code, -1, ())
        assert (rejected.message or "").startswith(NOT_STORED)
        assert {key: answer.code for key, answer in answers.items()} == {(other, 0): 0, (other, 1): 0}
        assert wire.produce(12, {other: {0: good}})[other, 0].code == 0
    assert [one.offset() for one in large.log(topic)] == [one.offset() for one in before]


def test_a_limit_that_is_lowered_by_any_factor_is_asked_for_when_a_slice_is_too_large(large: Front) -> None:
    topic = "large-lowered-by-five"
    records = lowered(large, topic)
    assert produced(large.sidecar.bootstrap, 12, topic, records).code == 0
    assert produced(large.sidecar.bootstrap, 12, topic, records).code == 0


def test_with_acks_0_a_slice_that_a_broker_rejects_ends_the_connection(large: Front) -> None:
    records = too_old(large, "large-rejected-acks-0")
    with Wire(large.sidecar.bootstrap) as wire, pytest.raises((EOFError, ConnectionError)):
        wire.produce(12, {"large-rejected-acks-0": {0: records}}, acks=0)
    assert large.log("large-rejected-acks-0") == []


def test_slices_for_a_partition_that_does_not_exist_are_rejected_as_the_batch_would_be(large: Front) -> None:
    topic = large.topic("large-no-partition", max_message_bytes=str(LIMIT))
    with Wire(large.sidecar.bootstrap) as wire:
        answer = wire.produce(12, {topic: {5: batch(LARGE), 0: batch(LARGE)}})
    assert answer[topic, 5].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer[topic, 0].code == 0
