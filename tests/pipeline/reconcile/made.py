"""Single audit events: every key of the schema, with what a test is about."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from kafka_sidecar.pipeline.reconcile.events import event_schema, once, to_valid
from pipeline.reconcile.emitted import Event
from pipeline.reconcile.traffic import MINUTE, START

numbers = itertools.count()
COUNTS = (
    "bytes", "large_count", "segment_count", "reject_count", "redelivered_count", "hidden_count", "aborted_count",
    "no_timestamp_count", "unconfirmed_count",
)  # fmt: skip


def minute(number: float) -> int:
    return round(START + number * MINUTE)


def _common(emitter: str, seq: int, events: int, epoch: float) -> Event:
    return {
        "version": 1, "audit_id": str(uuid.UUID(int=next(numbers))), "emitter_id": emitter,
        "emitter_epoch": minute(epoch), "interval_seq": seq, "interval_events": events, "cluster": "c1", "dc": None,
        "app": None, "emitted_at": minute(epoch + seq + 1),
    }  # fmt: skip


def interval(emitter: str, seq: int, events: int = 0, epoch: float = 0, **values: Any) -> Event:
    """The end of an interval of one minute."""
    times = {"interval_start": minute(epoch + seq), "interval_end": minute(epoch + seq + 1)}
    lost = {"is_closing": False, "lost_events": 0, "lost_min_ts": None, "lost_max_ts": None}
    return _common(emitter, seq, events, epoch) | times | lost | {"kind": "interval"} | values


def counts(emitter: str, seq: int, index: int, tier: str, ranges: list[list[int]], **values: Any) -> Event:
    """What was counted in an interval, of topic orders and partition 0, in the bucket of the same minute."""
    number = sum(last - first + 1 for first, last in ranges)
    kind = {"produce_attempt": "ATTEMPT"}.get(tier, "SUCCESS")
    offsets = {
        "ranges": ranges, "ranges_exact": True, "first_offset": ranges[0][0] if ranges else None,
        "last_offset": ranges[-1][1] if ranges else None,
    }  # fmt: skip
    made = _common(emitter, seq, values.pop("interval_events", index + 1), values.pop("epoch", 0))
    return made | offsets | dict.fromkeys(COUNTS, 0) | {
        "kind": "counts", "event_index": index, "tier": tier, "type": kind, "topic": "orders", "partition": 0,
        "client_id": "app", "principal": None, "group": None, "bucket_start": minute(seq), "bucket_ms": MINUTE,
        "count": number, "min_ts": minute(seq), "max_ts": minute(seq), "latency": None,
    } | values  # fmt: skip


def frame(spark: SparkSession, *events: Event) -> DataFrame:
    """As they are stored."""
    return once(received(spark, *events))


def received(spark: SparkSession, *events: Event) -> DataFrame:
    """The valid ones, each as often as it has come."""
    schema = event_schema()
    # As Arrow it is a local relation; rows would start Python on the executors.
    made = pyarrow.Table.from_pylist(list(events), to_arrow_schema(schema))
    return to_valid(spark.createDataFrame(made, schema))
