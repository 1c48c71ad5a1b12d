"""Consumers in Go and JavaScript: the same messages; kafka-go, which would show markers, without them."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import pytest
from integration.front import Front
from integration.interception.reads import ISOLATIONS, Isolation
from integration.large_messages import overlapping
from integration.large_messages.other_consumers import TOOLS, Shown, is_missing, read
from integration.large_messages.overlapping import Overlapping
from integration.large_messages.test_fetch import hidden_runs
from integration.large_messages.test_transactions import written
from integration.large_messages.written_logs import topic_id, write

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

CONTROL, CONTROL_BYTES = 6, 6  # records of the transactions, which kafka-go shows


def param(client: str) -> object:
    reason = f"{TOOLS[client]} is not installed: it builds {client}"
    return pytest.param(client, marks=pytest.mark.skipif(is_missing(client), reason=reason))


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
    found = read(client, large.sidecar.bootstrap, topic, len(shown), fetch_bytes=fetch_bytes, isolation=isolation)
    assert found == as_shown(shown)


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
