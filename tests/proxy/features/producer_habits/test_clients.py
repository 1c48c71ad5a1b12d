"""What is known of clients: bounded, in the order in which they have sent, averages by the minute."""

from __future__ import annotations

import pytest
from support.produce_requests import batch
from support.producer_habits import entry, sent

from kafka_sidecar.codec.records import batches
from kafka_sidecar.proxy.features.producer_habits.clients import (
    MAX_CLIENTS,
    MAX_LISTED,
    Producer,
    Producers,
    index_of,
    key_of,
)

SMALL = entry(min_mean_batch_bytes=1000)


def test_the_client_that_has_not_sent_for_the_longest_time_goes() -> None:
    producers = Producers()
    for number in range(MAX_CLIENTS):
        producers.of(key_of(f"client-{number}", None, None, "orders"), float(number))
    producers.of(key_of("client-0", None, None, "orders"), 5000.0)
    producers.of(key_of("new", None, None, "orders"), 5001.0)
    assert (len(producers), producers.forgotten) == (MAX_CLIENTS, 1)
    newest = [one.key.client_id for one in producers.newest({})]
    assert newest[:2] == ["new", "client-0"]
    assert len(newest) == MAX_LISTED
    assert [one.key.client_id for one in producers.newest({"client_id": "client-2"})] == ["client-2"]
    assert list(producers.newest({"client_id": "client-1"})) == []


def test_what_clients_call_themselves_is_cut() -> None:
    name = "\N{SNOWMAN}" * 30_000
    found = key_of(name, f"User:{name}", name, "orders")
    assert all(len((part or "").encode()) <= 249 for part in found)
    assert key_of(None, None, None, "orders") == (None, "User:ANONYMOUS", None, "orders")


def minute(batches: int, value: str, over_s: float = 60.0) -> list[str]:
    """What is found once so many batches have come in this time."""
    producer = Producer(key_of("app", None, None, "orders"), 0.0)
    header = sent(value).header
    found = []
    for number in range(batches):
        producer.count(header, 0, -1)
        found += [str(fault.habit) for fault in producer.faults_of_mean(SMALL, number * over_s / (batches - 1))]
    return found


@pytest.mark.parametrize(
    ("batches", "value", "over_s", "found"),
    [
        (100, "small", 60.0, ["min_mean_batch_bytes"]),
        (100, "x" * 2000, 60.0, []),
        (99, "small", 60.0, []),  # too few to be a burden
        (1000, "small", 59.0, []),  # not a minute yet
        (1000, "small", 3600.0, []),
        (1000, "small", 130.0, ["min_mean_batch_bytes"] * 2),
    ],
)
def test_averages_are_looked_at_once_a_minute_if_there_are_many_batches(
    batches: int, value: str, over_s: float, found: list[str]
) -> None:
    assert minute(batches, value, over_s) == found


def test_what_no_broker_accepts_is_counted_in_few_places() -> None:
    producer = Producer(key_of("app", None, None, "orders"), 0.0)
    for acks in range(-100, 100):
        producer.count(sent("one").header, 0, index_of(acks))
    assert producer.acks == [1, 1, 197, 1]


def test_the_count_of_records_that_a_header_says_does_not_lower_the_sum() -> None:
    producer = Producer(key_of("app", None, None, "orders"), 0.0)
    producer.count(sent("one", "two").header, 0, -1)
    data = bytearray(batch("one"))
    data[57:61] = b"\xff\xff\xff\xff"
    producer.count(batches(bytes(data))[0].header, 0, -1)
    assert producer.records == 2
