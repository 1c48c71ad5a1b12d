"""Consumers in Go and JavaScript: the same messages; kafka-go, which would show markers, without them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from zlib import crc32

import pytest
from _pytest.mark import ParameterSet
from confluent_kafka import Consumer, TopicPartition
from integration.front import Front
from integration.interception.reads import ISOLATIONS, Isolation
from integration.large_messages import overlapping
from integration.large_messages.other_consumers import TOOLS, Shown, is_missing, read
from integration.large_messages.overlapping import Overlapping
from integration.large_messages.senders import librdkafka
from integration.large_messages.test_fetch import FETCHES, ORPHANS, PAGE_S, hidden_runs
from integration.large_messages.test_transactions import written
from integration.large_messages.written_logs import topic_id, write
from integration.scenarios.target import LIMIT_S, SILENT

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

MAX_FETCHES = 20  # of 130 records, and of a second at their end
CONTROL, CONTROL_BYTES = 6, 6  # records of the transactions, which kafka-go shows


def param(client: str, *more: str) -> ParameterSet:
    reason = f"{TOOLS[client]} is not installed: it builds {client}"
    return pytest.param(client, *more, marks=pytest.mark.skipif(is_missing(client), reason=reason))


each_client = pytest.mark.parametrize("client", [param(client) for client in TOOLS])


def as_shown(records: Sequence[tuple[int, bytes]]) -> list[Shown]:
    return [Shown(offset, len(value), crc32(value)) for offset, value in records]


@each_client
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("fetch_bytes", [1600, 16_000, 1 << 20])
def test_each_client_gets_messages_whole_and_nothing_else(
    large: Front, client: str, isolation: str, fetch_bytes: int
) -> None:
    topic = large.topic(f"large-runs-{client}-{isolation}-{fetch_bytes}")
    log, shown = hidden_runs(topic_id(large, topic))
    write(large, topic, log)
    before = large.metric(FETCHES)
    found = read(client, large.sidecar.bootstrap, topic, len(shown), fetch_bytes=fetch_bytes, isolation=isolation)
    assert found == as_shown(shown)
    time.sleep(PAGE_S)
    requests = large.metric(FETCHES) - before
    assert requests <= MAX_FETCHES, "it asks again at once where it gets nothing"


@pytest.mark.parametrize("max_wait_ms", [500, 10_000])
@pytest.mark.parametrize("client", [param("kafka-go")])
def test_kafka_go_gets_each_message_within_either_wait(large: Front, client: str, max_wait_ms: int) -> None:
    topic = large.topic(f"large-held-{max_wait_ms}")
    log, shown = hidden_runs(topic_id(large, topic))
    write(large, topic, log)
    found = read(client, large.sidecar.bootstrap, topic, len(shown), fetch_bytes=1600, max_wait_ms=max_wait_ms)
    assert found == as_shown(shown)


Transactions = tuple[str, dict[Isolation, list[tuple[int, bytes]]]]
__all__ = ["written"]  # a fixture


@pytest.mark.parametrize("client", [param(client) for client in TOOLS if client != "kafka-go"])
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("fetch_bytes", [3000, 1 << 20])
def test_committed_messages_are_whole_and_aborted_ones_are_not_shown(
    large: Front, written: Transactions, client: str, isolation: Isolation, fetch_bytes: int
) -> None:
    topic, shown = written
    wanted = as_shown(shown[isolation])
    assert (
        read(client, large.sidecar.bootstrap, topic, len(wanted), fetch_bytes=fetch_bytes, isolation=isolation)
        == wanted
    )


@pytest.mark.parametrize("client", [param("kafka-go")])
def test_kafka_go_which_shows_control_records_gets_no_part_of_an_aborted_message(
    large: Front, written: Transactions, client: str
) -> None:
    topic, shown = written
    committed = as_shown(shown["read_committed"])
    count = len(committed) + CONTROL
    found = read(client, large.sidecar.bootstrap, topic, count, fetch_bytes=3000, isolation="read_committed")
    assert [one for one in found if one.size != CONTROL_BYTES] == committed
    assert len(found) == count


@pytest.fixture(scope="module")
def interleaved(large: Front) -> Overlapping:
    return overlapping.overlapping(large, "large-overlapping-others")


@each_client
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_of_transactions_that_overlap_each_client_gets_what_is_committed(
    large: Front, interleaved: Overlapping, client: str, isolation: Isolation
) -> None:
    wanted = as_shown(interleaved.shown[isolation])
    count = len(wanted) + (overlapping.CONTROL if client == "kafka-go" else 0)
    found = read(client, large.sidecar.bootstrap, interleaved.topic, count, isolation=isolation)
    assert [one for one in found if one.size != CONTROL_BYTES] == wanted
    assert len(found) == count


SKIP_MARKERS = ("kafkajs", "platformatic")  # they may commit the end of a marker; the others do not see it


@each_client
def test_a_group_goes_on_after_the_last_message_and_its_lag_is_exact(large: Front, client: str) -> None:
    topic, group = large.topic(f"large-group-{client}", max_message_bytes="20000"), f"group-{client}"
    log, shown = hidden_runs(topic_id(large, topic))
    write(large, topic, log)
    assert read(client, large.sidecar.bootstrap, topic, len(shown), group=group) == as_shown(shown)
    committed, lag = position(large.sidecar.bootstrap, topic, group)
    assert committed == shown[-1][0] + 1 or (client in SKIP_MARKERS and committed == log.end)
    assert lag == log.end - committed
    value = os.urandom(50_000)
    (sent,) = librdkafka(large.sidecar.bootstrap, topic, [[value]])
    assert read(client, large.sidecar.bootstrap, topic, 1, group=group) == as_shown([(sent.offset, value)])
    assert position(large.sidecar.bootstrap, topic, group) == (sent.offset + 1, 0)
    # For consumers of li the broker has the start of the first message that is never complete.
    orphans = shown[-1][0] - ORPHANS
    assert position(large.cluster.direct, topic, group) == (orphans, sent.offset + 1 - orphans)


def position(bootstrap: str, topic: str, group: str) -> tuple[int, int]:
    """The committed offset of a group, and its lag."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "logger": SILENT})
    place = TopicPartition(topic, 0)
    try:
        (committed,) = consumer.committed([place], LIMIT_S)
        _, end = consumer.get_watermark_offsets(place, LIMIT_S)
        return committed.offset, end - committed.offset
    finally:
        consumer.close()
