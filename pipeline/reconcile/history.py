"""What is known from all events ever stored, without reading them all: sums of which each hour has its part.

An hour at rest has its part written down as a digest; only for hours that still change it is computed from the
events. Parts add up in any order, and each event is in one hour, once.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, functions, types

from kafka_sidecar.pipeline.reconcile.hops import is_group
from kafka_sidecar.pipeline.reconcile.sql import PARTITION, TOPIC, column, computed, longs, union

EPOCH = ["emitter_id", "emitter_epoch"]
GROUP = [*PARTITION, "group"]
DELIVERED = ("fetch_delivered", "share_delivered")  # tiers
HOUR, INTERVAL, NAMED, MARK, LIFE = "hour", "interval", "topic", "mark", "life"
DIGEST = types.StructType(
    [
        *(types.StructField(name, types.StringType()) for name in ("part", "emitter_id", *TOPIC, "group")),
        *longs("emitter_epoch", "interval_seq", "counted", "expected", "start_ms", "end_ms"),
        *longs("lost_events", "lost_min_ts", "lost_max_ts", "partition", "at", "untimed"),
        *longs("since", "first", "last_offset", "delivered", "committed"),
        *(types.StructField(name, types.BooleanType()) for name in ("is_closing", "is_share")),
        types.StructField("hour", types.StringType()),
    ]
)


@dataclass(frozen=True, slots=True)
class History:
    """The sums, over all hours of which the parts are."""

    intervals: DataFrame  # EPOCH, interval_seq: how many events there are, and what their interval says
    topics: DataFrame  # emitter_id, topic
    marks: DataFrame  # GROUP, at: the last offset that a group was seen to have reached, the first it was sent
    lives: DataFrame  # TOPIC, at: when the id was reported first
    hours: DataFrame  # hour: how many counts, up to when they were emitted, how many have no timestamp

    def computed(self) -> History:
        """Each is used several times. Groups are known by the ids of their topics."""
        intervals, topics, lives, hours = map(computed, (self.intervals, self.topics, self.lives, self.hours))
        return History(intervals, topics, computed(with_ids(self.marks, lives, "at")), lives, hours)


def parts_of(events: DataFrame) -> DataFrame:
    """The parts of single events, to be summed."""
    is_delivery = column("tier").isin(*DELIVERED)
    counts = events.where("kind = 'counts'")
    read = events.where(column("tier").isin(*DELIVERED, "commit") & is_group() & column("last_offset").isNotNull())
    intervals = events.select(
        *EPOCH, "interval_seq", "is_closing", "lost_events", "lost_min_ts", "lost_max_ts", "hour",
        functions.lit(INTERVAL).alias("part"),
        (column("kind") == "counts").cast("long").alias("counted"),
        column("interval_events").alias("expected"),
        column("interval_start").alias("start_ms"),
        column("interval_end").alias("end_ms"),
    )  # fmt: skip
    topics = counts.select(functions.lit(NAMED).alias("part"), "emitter_id", "topic", "hour")
    lives = counts.where("topic_id != ''").select(
        functions.lit(LIFE).alias("part"), *TOPIC, column("emitted_at").alias("at"), "hour"
    )
    marks = read.select(
        functions.lit(MARK).alias("part"), *GROUP, column("emitted_at").alias("at"), "last_offset", "hour",
        functions.when(is_delivery, column("first_offset")).alias("first"),
        functions.when(is_delivery & column("first_offset").isNotNull(), column("emitted_at")).alias("since"),
        functions.when(is_delivery, column("last_offset")).alias("delivered"),
        functions.when(~is_delivery, column("last_offset")).alias("committed"),
        (column("tier") == "share_delivered").alias("is_share"),
    )  # fmt: skip
    hours = events.select(
        functions.lit(HOUR).alias("part"), "hour", column("emitted_at").alias("at"),
        (column("kind") == "counts").cast("long").alias("counted"),
        functions.coalesce("no_timestamp_count", functions.lit(0)).alias("untimed"),
    )  # fmt: skip
    return union(intervals, topics, marks, lives, hours)


def history_of(parts: DataFrame) -> History:
    """The sums of parts, and of sums."""

    def summed(part: str, keys: list[str], *sums: Column) -> DataFrame:
        return parts.where(column("part") == part).groupBy(*keys).agg(*sums)

    names = ("expected", "start_ms", "end_ms", "is_closing", "lost_events", "lost_min_ts", "lost_max_ts")
    latest = [functions.max(name).alias(name) for name in names]
    return History(
        summed(INTERVAL, [*EPOCH, "interval_seq"], functions.sum("counted").alias("counted"), *latest),
        parts.where(column("part") == NAMED).select("emitter_id", "topic").distinct(),
        summed(
            MARK, [*GROUP, "at"],
            *_reached(),
        ),
        summed(LIFE, TOPIC, functions.min("at").alias("at")),
        summed(
            HOUR, ["hour"],
            *(functions.sum(name).alias(name) for name in ("counted", "untimed")), functions.max("at").alias("at"),
        ),
    )  # fmt: skip


def _reached() -> list[Column]:
    last = ("last_offset", "delivered", "committed", "is_share")
    return [
        *(functions.max(name).alias(name) for name in last),
        *(functions.min(name).alias(name) for name in ("first", "since")),
    ]


def digest(history: History, is_expired: bool) -> DataFrame:
    """Its sums as parts again. Of an expired hour no bucket is asked for again, so that its last mark is enough."""
    marks = history.marks
    if is_expired:
        marks = marks.groupBy(*GROUP).agg(functions.max("at").alias("at"), *_reached())
    named = {INTERVAL: history.intervals, NAMED: history.topics, MARK: marks, LIFE: history.lives, HOUR: history.hours}
    return union(*(frame.withColumn("part", functions.lit(part)) for part, frame in named.items()))


def with_ids(rows: DataFrame, lives: DataFrame, at: str) -> DataFrame:
    """The rows with the topic's id where they have none, as older sidecars do: at that time the last one that had been
    reported, or else the first one."""
    if not lives.take(1):
        return rows
    ids = lives.groupBy("cluster", "topic").agg(
        functions.array_sort(functions.collect_list(functions.struct("at", "topic_id"))).alias("ids")
    )
    begun = functions.filter("ids", lambda life: life["at"] <= column(at))
    found = functions.coalesce(functions.get(begun, functions.size(begun) - 1), functions.get("ids", functions.lit(0)))
    known = functions.when(column("topic_id") != "", column("topic_id")).otherwise(found["topic_id"])
    joined = rows.join(ids, ["cluster", "topic"], "left")
    return joined.withColumn("topic_id", functions.coalesce(known, functions.lit(""))).select(*rows.columns)
