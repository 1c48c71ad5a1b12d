"""Headers that interceptors add on the way to a broker arrive byte for byte, each record once and in order."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

import pytest
from confluent_kafka import Producer
from integration.cells import CELLS, Cell, parameters
from integration.interception.intercepted import Intercepted
from integration.interception.reads import Header
from integration.interception.wire import codecs_of
from integration.scenarios.target import LIMIT_S, SILENT, eventually, headers_of
from integration.validation.waves import STORED, Client, wave

FIRST, FLOOD, LAST = WAVES = (wave("first", 10), wave("flood", 300, filler=100), wave("last", 10))
JAVAS_HEADER, HEADER = ("h", b"\x01"), ("h", b"1")  # what the clients themselves send


def added(value: bytes | None) -> tuple[Header, ...]:
    """What the interceptors add to a record: `Marks`, then add_header."""
    return (
        ("value", value), ("twice", b"1"), ("twice", b"2"), ("null", None), ("empty", b""), ("twice", None),
        ("ключ ✓ \U0001f511", bytes(range(256))), ("", b"of no name"), ("ours", "ключ".encode()),
    )  # fmt: skip


@pytest.mark.parametrize("cell", parameters(CELLS))
def test_added_headers_arrive_and_every_record_is_there_once_and_in_order(
    intercepted: Intercepted, producers: Mapping[str, Client], cell: Cell
) -> None:
    topic = intercepted.topic(f"marks-{cell}")

    outcome = producers[cell.client](intercepted.sidecar.bootstrap, topic, cell.codec, cell.kind, WAVES)

    assert [outcome.of(each) for each in WAVES] == [[STORED] * len(each) for each in WAVES]
    assert outcome.ends == [""] * len(WAVES)
    log = intercepted.log(topic, isolation="read_committed")
    values = [sent.value.encode() for each in WAVES for sent in each]
    assert [record.value() for record in log] == values
    assert {record.key() for record in log} == {b"k"}
    own = JAVAS_HEADER if cell.client == "java" else HEADER
    assert [headers_of(record) for record in log] == [(own, *added(value)) for value in values]
    assert codecs_of(intercepted.cluster.direct, topic) == {cell.codec}


@pytest.mark.integration
def test_compaction_keeps_the_latest_record_of_each_key_with_its_headers(intercepted: Intercepted) -> None:
    topic = intercepted.topic(
        "marks-compacted", cleanup_policy="compact", segment_ms="50", min_cleanable_dirty_ratio="0.01"
    )
    keys, rounds = 20, 6
    for number in range(rounds):
        producer = Producer({"bootstrap.servers": intercepted.sidecar.bootstrap, "logger": SILENT})
        for key in range(keys):
            producer.produce(topic, b"%d" % number, b"key %d" % key, partition=0)
        assert producer.flush(LIMIT_S) == 0
        time.sleep(0.06)  # older than a segment may be: the next batch begins another

    def per_key() -> Counter[bytes | None]:
        return Counter(record.key() for record in intercepted.log(topic))

    # The last segment is being written to, and is not cleaned.
    eventually(per_key, lambda found: {*found.values()} == {2}, "cleaned")
    latest = {record.key(): record for record in intercepted.log(topic)}
    assert {*latest} == {b"key %d" % key for key in range(keys)}
    assert {record.value() for record in latest.values()} == {b"%d" % (rounds - 1)}
    assert {headers_of(record) for record in latest.values()} == {added(b"%d" % (rounds - 1))}
