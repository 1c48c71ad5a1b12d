"""What is reported of producers: counts and lines within limits, ids that stay the same."""

from __future__ import annotations

import logging

import pytest
from support.client import FakeClient
from support.producer_habits import Asking, entry, habits, sent

from kafka_sidecar.proxy.exchanges.repeated import MAX_RECENT
from kafka_sidecar.proxy.features.producer_habits.clients import key_of
from kafka_sidecar.proxy.features.producer_habits.habits import Entry
from kafka_sidecar.proxy.features.producer_habits.producer_habits import LOG_INTERVAL_S, MAX_SERIES, OTHER, HabitStats

CLIENT = FakeClient(number=3, host="10.0.0.1")
BATCH = sent("one", "two").header


def violate(
    stats: HabitStats, client_id: str = "app", topic: str = "orders", enforced: bool = True, one: Entry | None = None
) -> str:
    one = one if one is not None else entry(idempotence="required")
    return stats.violated(
        key_of(client_id, None, "lib 1", topic), 2, one.faults_of_batch(BATCH, 0), enforced, one, CLIENT, BATCH
    )


def test_the_id_stays_the_same_for_one_client_topic_and_habit() -> None:
    stats = Asking().stats
    first = violate(stats)
    assert violate(stats) == first
    others = {violate(stats, "other"), violate(stats, topic="payments"), violate(stats, enforced=False)}
    assert len({first, *others}) == 4
    assert len({HabitStats(lambda: 0.0).prefix for _ in range(3)}) == 3


def test_all_that_is_known_of_a_violation_is_explained() -> None:
    asking = Asking(habits())
    asking.now = 10.0
    violate(asking.stats)
    asking.now = 20.0
    found = asking.stats.explain(violate(asking.stats))
    assert found is not None
    assert (found["topic"], found["partition"], found["mode"], found["outcome"]) == ("orders", 2, "enforce", "rejected")
    assert (found["reason"], found["rejected_records"]) == ("idempotence", 2)
    assert found["message"].startswith("idempotence: Topic orders requires")
    assert found["client"] == {
        "session": 3, "client": "10.0.0.1", "client_id": "app", "client_software": "lib 1",
        "principal": "User:ANONYMOUS",
    }  # fmt: skip
    assert found["batch"]["compression"] == "none"
    producer = found["producer"]
    assert (producer["times"], producer["since"], producer["source"]) == (
        2, "1970-01-01T00:00:10.000Z", "producers (entry 1)",
    )  # fmt: skip
    assert asking.stats.explain("unknown") is None


def test_the_last_ones_are_stored_newest_first() -> None:
    stats = Asking().stats
    ids = [violate(stats, f"app-{number}") for number in range(MAX_RECENT + 5)]
    assert [one["id"] for one in stats.rows(2)] == ids[:-3:-1]
    assert stats.explain(ids[4]) is None
    assert stats.explain(ids[5]) is not None


def test_one_line_is_written_for_a_client_topic_and_habit(caplog: pytest.LogCaptureFixture) -> None:
    asking = Asking()
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            violate(asking.stats)
        violate(asking.stats, "other")
        assert [record.message for record in caplog.records] == ["producer rejected"] * 2
        asking.now = LOG_INTERVAL_S
        violate(asking.stats)
    line = vars(caplog.records[-1])
    assert (line["suppressed"], line["reason"], line["client_id"]) == (49, "idempotence", "app")
    assert line["detail"].startswith("idempotence: Topic orders requires")


def test_series_are_bounded_and_configured_topics_keep_theirs() -> None:
    stats = Asking().stats
    stats.is_reserved = lambda topic: topic == "orders"
    for number in range(MAX_SERIES + 100):
        violate(stats, topic=f"topic-{number}")
    violate(stats)
    assert len(stats.violations) == MAX_SERIES + 2
    assert stats.violations[OTHER, "idempotence", "enforce"] == 100
    assert stats.violations["orders", "idempotence", "enforce"] == 1
