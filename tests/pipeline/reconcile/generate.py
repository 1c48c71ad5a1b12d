"""Audit events in any number, with known truth: copies of the same traffic, each with sidecars and topics of its own.

    PYTHONPATH=src:tests python tests/pipeline/reconcile/generate.py FOLDER EVENTS [HOURS]

makes them in that many hours of event time (24), by Spark: only the traffic of one copy is made record by record. It
writes Parquet for `reconcile --input FOLDER --input-format parquet`, and prints what the tables must have, with the
settings of the job.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass

from pyspark.sql import SparkSession, functions

from kafka_sidecar.pipeline.reconcile.events import event_schema
from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.proxy.config.sections import Pipeline
from pipeline.reconcile import truth
from pipeline.reconcile.conftest import LIMITS
from pipeline.reconcile.emitted import disturb, emit
from pipeline.reconcile.traffic import COMPACTED, MINUTE, Traffic, traffic

SPAN = 120 * MINUTE  # after which the next copies begin
EVENTS_PER_FILE = 50_000
COMPACTED_TOPICS = (f"{COMPACTED}-*",)
MAX_FILES = 1000  # which is what a batch of the job takes
TIMES = (
    "emitter_epoch", "emitted_at", "bucket_start", "interval_start", "interval_end", "lost_min_ts", "lost_max_ts",
    "min_ts", "max_ts",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expected:
    """Of all copies."""

    events: int  # without those that are sent twice
    states: dict[str, int]
    missing: int  # of final rows of groups


def generate(spark: SparkSession, folder: str, made: Traffic, copies: int, at_once: int) -> Expected:
    """Write the events, those of the first hours first. So many copies are in the same hours."""
    once = emit(made)
    arrived = disturb(once, seed=1)
    base = spark.createDataFrame(
        [{**dict.fromkeys(event_schema().names), **event} for event in arrived], event_schema()
    )
    files = min(MAX_FILES, max(1, len(arrived) * copies // EVENTS_PER_FILE))
    copy = functions.col("copy")
    later = (copy / at_once).cast("long") * SPAN
    rows = (
        spark.range(copies)
        .withColumnRenamed("id", "copy")
        .repartitionByRange(files, "copy")
        .crossJoin(functions.broadcast(base))
    )
    moved = rows.withColumns(
        {name: functions.col(name) + later for name in TIMES}
        | {name: functions.concat_ws("-", name, copy) for name in ("emitter_id", "topic")}
        # As random as a UUID is: copies with the same beginning would be slow to sort.
        | {"audit_id": functions.concat(functions.hex(functions.xxhash64("audit_id", copy)), functions.lit("-"), copy)}
    )
    moved.drop("copy").write.mode("overwrite").parquet(folder)
    return expected_of(made, len(once), copies)


def expected_of(made: Traffic, events: int, copies: int) -> Expected:
    rows = truth.rows(made, LIMITS.lateness, LIMITS.clock_skew)
    states = Counter(row["state"] for row in rows.values())
    missing = sum(row["missing"] for (_, _, hop, _), row in rows.items() if (hop, row["state"]) == ("deliver", "FINAL"))
    return Expected(
        events * copies, {state: count * copies for state, count in sorted(states.items())}, missing * copies
    )


def main() -> None:
    folder, events, hours = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 24
    made = traffic(seed=1, minutes=60)
    copies = -(-events // len(disturb(emit(made), seed=1)))
    at_once = -(-copies // max(1, hours * 60 * MINUTE // SPAN))
    found = generate(start_session(Pipeline(), "generate", uses_kafka=False), folder, made, copies, at_once)
    settings = {
        "lateness_ms": LIMITS.lateness,
        "clock_skew_ms": LIMITS.clock_skew,
        "compacted_topics": COMPACTED_TOPICS,
    }
    print(json.dumps(asdict(found) | settings))


if __name__ == "__main__":
    main()
