"""Large messages that lie in the log as slices and carriers, read by plain clients through the sidecar."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from integration.front import Front
from integration.interception.reads import ISOLATIONS, How, Isolation, Reader
from integration.large_messages.written_logs import topic_id, write
from support.large_logs import Log, message_id, sliced

pytestmark = pytest.mark.integration

LIBRARIES = ("java", "librdkafka", "aiokafka", "kafka-python")
VALUE = bytes(range(256)) * 200  # 50 KB
FETCHES = 'client_to_proxy_request_total{api_key="Fetch"'
PAGE_S = 1.1  # the page of metrics is of this second
MAX_FETCHES = 20  # of 130 records, and some that wait for 50 ms at their end
ORPHANS = 30  # slices without a carrier, before the last record that is shown


def hidden_runs(id_: bytes) -> tuple[Log, list[tuple[int, bytes]]]:
    """Small, 40 slices, carrier, small, 40 slices, carrier, 30 orphans, small, 15 orphans at the end."""
    log, shown = Log(), []
    shown.append((log.add(b"one"), b"one"))
    shown.append((log.add_large(VALUE, 41, 1, topic_id=id_), VALUE))
    shown.append((log.add(b"two"), b"two"))
    shown.append((log.add_large(VALUE[::-1], 41, 2, topic_id=id_), VALUE[::-1]))
    for data in sliced(VALUE, ORPHANS + 1, message_id(3)):
        log.append(data)
    shown.append((log.add(b"three"), b"three"))
    for data in sliced(VALUE, 16, message_id(4)):
        log.append(data)
    return log, shown


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("fetch_bytes", [1600, 16_000, 1 << 20])
def test_every_client_gets_messages_whole_and_goes_on_to_the_end(
    large: Front, readers: Mapping[str, Reader], library: str, isolation: Isolation, fetch_bytes: int
) -> None:
    topic = large.topic(f"large-runs-{library}-{isolation}-{fetch_bytes}")
    log, shown = hidden_runs(topic_id(large, topic))
    write(large, topic, log)
    read = readers[library](large.sidecar.bootstrap, [topic], f"{topic}-group", How(isolation, fetch_bytes=fetch_bytes))
    assert [(one.offset, one.value) for one in read.records] == shown
    assert read.positions == {(topic, 0): log.end}
    assert all(one.headers == () for one in read.records)


@pytest.mark.matrix
@pytest.mark.parametrize("library", LIBRARIES)
def test_no_client_asks_again_and_again_where_slices_are_hidden(
    large: Front, readers: Mapping[str, Reader], library: str
) -> None:
    topic = large.topic(f"large-requests-{library}")
    log, shown = hidden_runs(topic_id(large, topic))
    write(large, topic, log)
    before = large.metric(FETCHES)
    read = readers[library](large.sidecar.bootstrap, [topic], f"{topic}-group", How(fetch_bytes=1600))
    assert [(one.offset, one.value) for one in read.records] == shown
    time.sleep(PAGE_S)
    assert large.metric(FETCHES) - before <= MAX_FETCHES
