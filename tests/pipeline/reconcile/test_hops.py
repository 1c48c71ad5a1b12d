"""Share groups and consumers without a group: rows, states, and what is said of lost records."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kafka_sidecar.audit.contract import SEVERAL_GROUPS
from kafka_sidecar.pipeline.reconcile import coverage
from kafka_sidecar.pipeline.reconcile.history import history_of, parts_of
from kafka_sidecar.pipeline.reconcile.intervals import HOLES, Reported
from kafka_sidecar.pipeline.reconcile.job import losses
from kafka_sidecar.pipeline.reconcile.rows import bucket_rows
from kafka_sidecar.pipeline.reconcile.sql import PARTITION, computed, empty
from kafka_sidecar.pipeline.reconcile.states import FINALS, with_states
from pipeline.reconcile.emitted import Event
from pipeline.reconcile.made import counts, frame, minute

FIRST = {"bucket_start": minute(0)}


def sent(tier: str, *ranges: list[int], **values: Any) -> Event:
    return counts("s", 0, 0, tier, list(ranges), **FIRST | values)


def compared(events: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The rows and the segments of offsets, each step once, as in the job."""
    spark, now = events.sparkSession, minute(10)
    groups = coverage.groups_of(computed(history_of(parts_of(events)).marks))
    cut = computed(coverage.segments(events, groups))
    rows = with_states(
        bucket_rows(events, cut, groups), Reported(now, empty(spark, HOLES)), empty(spark, FINALS), now, 0
    )
    return computed(rows), cut


def test_rows_of_share_groups_and_of_consumers_without_a_group(spark: SparkSession) -> None:
    latency = {"base": 1.1, "i": [7], "c": [5]}
    events = frame(
        spark,
        *(sent("produce_ack", [0, 99], topic=topic) for topic in ("whole", "gap")),
        # In any order, again, and accepted.
        sent("share_delivered", [50, 99], topic="whole", group="w", redelivered_count=5),
        sent("share_delivered", [0, 49], topic="whole", group="w"),
        sent("commit", [0, 9], topic="whole", group="w"),
        sent("share_delivered", [0, 9], [20, 59], topic="gap", group="w"),
        # Without a group: the end of the log, and some of it again.
        sent("fetch_delivered", [70, 79], topic="whole", redelivered_count=3, latency=latency),
        sent("fetch_delivered", [95, 99], topic="whole", client_id="other"),
        # A second group with the same client id comes: it is not known in which of them it reads.
        *(sent("produce_ack", [0, 99], topic=topic) for topic in ("several", "lost")),
        *(sent("fetch_delivered", [0, 9], topic=topic, group="g") for topic in ("several", "lost")),
        sent("fetch_delivered", [10, 99], topic="several", group=SEVERAL_GROUPS),
        *(sent("commit", [5, 99], topic=topic, group="g") for topic in ("several", "lost")),
    )
    rows, _ = compared(events)
    columns = ("expected", "seen", "pending", "missing", "surplus", "redelivered", "completeness", "state")
    found = {
        (row["topic"], row["hop"], row["group"]): tuple(row[name] for name in columns)
        for row in rows.collect()
        if row["hop"] != "produce"
    }
    assert found == {
        ("whole", "share", "w"): (100, 100, 0, 0, 0, 5, 1.0, "FINAL"),
        ("gap", "share", "w"): (100, 50, 40, 10, 0, 0, 50 / 60, "OPEN"),
        ("whole", "read", None): (0, 15, 0, 0, 0, 3, None, "FINAL"),
        ("several", "deliver", "g"): (100, 10, 0, 90, 0, 0, 0.1, "UNKNOWN"),
        ("several", "read", None): (0, 90, 0, 0, 0, 0, None, "FINAL"),
        ("lost", "deliver", "g"): (100, 10, 0, 90, 0, 0, 0.1, "FINAL"),
    }
    assert [row["p50_ms"] for row in rows.where("hop = 'read' AND topic = 'whole'").collect()] == [1.1**7]


def test_large_messages_have_their_columns_and_are_compared_by_offset_like_all_others(spark: SparkSession) -> None:
    large = {"large_count": 3, "segment_count": 12}
    events = frame(
        spark,
        sent("produce_attempt", count=200, large_count=6, segment_count=24),
        # Acknowledged again through another sidecar, which does not know of the first time.
        sent("produce_ack", [0, 99], **large),
        sent("produce_ack", [0, 99], client_id="again", **large),
        sent("fetch_delivered", [0, 99], group="g", **large),
        sent("share_delivered", [0, 99], group="w", **large | {"large_count": 2}),
        sent("fetch_delivered", [40, 99], large_count=1),
    )
    rows, _ = compared(events)
    columns = ("expected", "seen", "missing", "surplus", "large", "segments")
    assert {(row["hop"], row["group"]): tuple(row[name] for name in columns) for row in rows.collect()} == {
        ("produce", None): (200, 200, 0, 0, 6, 24),
        ("deliver", "g"): (100, 100, 0, 0, 3, 12),
        ("share", "w"): (100, 100, 0, 0, 2, 12),
        ("read", None): (0, 60, 0, 0, 1, 0),
    }


def test_what_a_share_group_has_passed_over_is_unknown_and_copies_are_named(spark: SparkSession) -> None:
    copies = {"duplicate_ranges": [[40, 44], [45, 49]], "resent_ranges": [[60, 60]]}
    events = frame(spark, sent("produce_ack", [0, 99], **copies), sent("share_delivered", [0, 9], [20, 99], group="w"))
    rows, cut = compared(events)
    (row,) = rows.where("hop = 'share'").collect()
    assert (row["missing"], row["state"]) == (10, "UNKNOWN")
    names = ("finding", "group", "first_offset", "last_offset", "state")
    found = losses(rows, cut, coverage.copies(events), [row["hour"]]).select(*names).collect()
    assert {tuple(one) for one in found} == {
        ("unknown", "w", 10, 19, "UNKNOWN"),
        ("duplicate", None, 40, 49, "FINAL"),
        ("resent", None, 60, 60, "FINAL"),
    }


def test_how_far_each_group_is_and_what_it_has_not_committed(spark: SparkSession) -> None:
    events = frame(
        spark,
        sent("fetch_delivered", [5, 49], group="slow"),
        sent("commit", [10, 29], group="slow"),
        sent("fetch_delivered", [0, 49], group="whole"),
        sent("commit", [10, 49], group="whole"),
        sent("fetch_delivered", [0, 49], group="silent"),
        sent("share_delivered", [0, 49], group="shared"),
        sent("commit", [40, 44], group="shared"),
        sent("fetch_delivered", [0, 49]),
    )
    found = coverage.progress(coverage.groups_of(history_of(parts_of(events)).marks)).drop(*PARTITION).collect()
    assert {tuple(row) for row in found} == {
        ("slow", "deliver", 5, 49, 29, 20),
        ("whole", "deliver", 0, 49, 49, 0),
        ("silent", "deliver", 0, 49, None, None),
        ("shared", "share", 0, 49, 44, None),
    }
