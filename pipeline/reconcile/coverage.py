"""Which offsets were acknowledged and which of them each group was sent, exactly.

One pass over the ends of all ranges of a partition, in the order of offsets, cuts it into segments. Each has the bucket
that it was acknowledged in, the one it was delivered in, or both. Counts would let a duplicate make up for a loss.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window, functions

from kafka_sidecar.pipeline.reconcile.history import DELIVERED, GROUP
from kafka_sidecar.pipeline.reconcile.hops import DELIVER, SHARE, is_group
from kafka_sidecar.pipeline.reconcile.sql import PARTITION, TOPIC, column, computed, total, union

LOST, UNAUDITED = "lost", "unaudited"
UNKNOWN, UNREPORTED = "unknown", "unreported"  # the same two, where a hole may explain them
COMPACTED = "compacted"  # lost, or deleted by the broker in favour of a later record of its key
COPIES = {"duplicate": "duplicate_ranges", "resent": "resent_ranges"}  # finding and field of the events


@dataclass(frozen=True, slots=True)
class Groups:
    """What is known of consumer groups and share groups, from all events."""

    partitions: DataFrame
    """GROUP, start (first offset delivered), delivered (last one), committed (last one that was seen to be committed or
    accepted), reach (the greater of the two), and of the group in the topic: since, hop."""
    marks: DataFrame  # GROUP, last_offset, at: when a group was seen to have reached an offset


def groups_of(marks: DataFrame) -> Groups:
    """Groups by what they were sent. Offsets that only were committed count as reached."""
    each = marks.groupBy(*GROUP).agg(
        functions.min("first").alias("start"),
        functions.max("last_offset").alias("reach"),
        functions.max("delivered").alias("delivered"),
        functions.max("committed").alias("committed"),
    )
    in_topic = (
        marks.groupBy("cluster", "topic", "group")
        .agg(
            functions.min("since").alias("since"),
            functions.when(functions.max("is_share"), SHARE).otherwise(DELIVER).alias("hop"),
        )
        .where("since IS NOT NULL")
    )
    return Groups(computed(each.join(in_topic, ["cluster", "topic", "group"])), marks)


def progress(groups: Groups) -> DataFrame:
    """The table of how far each group is. A share group accepts records in any order: its last one says nothing."""
    rest = functions.greatest(functions.lit(0), column("delivered") - column("committed"))
    uncommitted = functions.when((column("hop") == DELIVER) & column("committed").isNotNull(), rest)
    return groups.partitions.where("delivered IS NOT NULL").select(
        *GROUP, "hop", column("start").alias("first_delivered"), column("delivered").alias("last_delivered"),
        column("committed").alias("last_committed"), uncommitted.alias("uncommitted"),
    )  # fmt: skip


def segments(events: DataFrame, groups: Groups) -> DataFrame:
    """GROUP, first, last, acked and delivered (starts of the buckets; null where it was not), start, reach, since."""
    acked = _ends(events.where("tier = 'produce_ack' AND type = 'SUCCESS'").drop("group"), "acked")
    delivered = _ends(events.where(column("tier").isin(*DELIVERED) & is_group()), "delivered")
    names = groups.partitions.select(*TOPIC, "group").distinct()
    ends = union(acked.join(names, TOPIC), delivered)
    at = ends.groupBy(*GROUP, "offset").agg(*(step for side in ("acked", "delivered") for step in _steps(side)))
    order = Window.partitionBy(*GROUP).orderBy("offset")
    cut = at.select(
        *GROUP,
        column("offset").alias("first"),
        (functions.lead("offset").over(order) - 1).alias("last"),
        *(_bucket_of(side, order) for side in ("acked", "delivered")),
    ).where("acked IS NOT NULL OR delivered IS NOT NULL")
    known = groups.partitions.select(*GROUP, "start", "reach")
    since = groups.partitions.select("cluster", "topic", "group", "since").distinct()
    return cut.join(known, GROUP, "left").join(since, ["cluster", "topic", "group"])


def _ends(events: DataFrame, side: str) -> DataFrame:
    """Where the ranges begin (+1, with the bucket) and end (-1)."""
    keys = [name for name in (*GROUP, "bucket_start") if name in events.columns]
    ranges = events.select(*keys, functions.explode("ranges").alias("range"))
    end = functions.struct((column("range")[1] + 1).alias("offset"), functions.lit(-1).alias(f"{side}_step"))
    begin = functions.struct(column("range")[0].alias("offset"), functions.lit(1).alias(f"{side}_step"))
    both = ranges.select(*keys, functions.explode(functions.array(begin, end)).alias("end"))
    bucket = functions.when(column("end")[f"{side}_step"] > 0, column("bucket_start")).alias(f"{side}_bucket")
    return both.select(*(key for key in keys if key != "bucket_start"), "end.*", bucket)


def _steps(side: str) -> list[Column]:
    step = functions.coalesce(functions.sum(f"{side}_step"), functions.lit(0)).alias(f"{side}_step")
    return [step, functions.max(f"{side}_bucket").alias(f"{side}_bucket")]


def _bucket_of(side: str, order: Window) -> Column:
    """Inside a range the bucket that began last: each offset belongs to one batch, and so to one bucket."""
    depth = functions.sum(f"{side}_step").over(order)
    return functions.when(depth > 0, functions.last(f"{side}_bucket", ignorenulls=True).over(order)).alias(side)


def by_partition(cut: DataFrame) -> DataFrame:
    """Of each bucket of acknowledged records, for each group: offsets before it began, not reached, and missing."""
    before, pending, missing = (functions.greatest(functions.lit(0), part) for part in _parts())
    parts = cut.where("acked IS NOT NULL").withColumn("bucket_start", column("acked"))
    sized = parts.withColumns(
        {"offsets": column("last") - column("first") + 1, "before": before, "pending": pending, "missing": missing}
    )
    sums = [total(name) for name in ("offsets", "before", "pending", "missing")]
    return sized.groupBy(*GROUP, "bucket_start").agg(*sums, functions.max("last").alias("last"))


def lost(cut: DataFrame) -> DataFrame:
    """The part of each segment that a group has passed without getting it, as first and last."""
    first = functions.greatest("first", _begin())
    last = functions.least(column("last"), _reach())
    return _named(
        cut.where("acked IS NOT NULL AND delivered IS NULL").withColumns({"first": first, "last": last}), "acked"
    )


def unaudited(cut: DataFrame) -> DataFrame:
    """What groups got that no sidecar has reported as acknowledged."""
    return _named(cut.where("acked IS NULL"), "delivered")


def copies(events: DataFrame) -> DataFrame:
    """Later copies of batches that producers have sent again, with their finding; group is null."""
    acked = events.where("tier = 'produce_ack'")
    keys = [*PARTITION, functions.lit(None).cast("string").alias("group"), "bucket_start"]
    found = [
        acked.select(*keys, functions.lit(finding).alias("finding"), functions.explode(field).alias("range"))
        for finding, field in COPIES.items()
    ]
    first, last = column("range")[0].alias("first"), column("range")[1].alias("last")
    return union(*found).select(*GROUP, "bucket_start", first, last, "finding")


def _named(parts: DataFrame, side: str) -> DataFrame:
    return parts.where("first <= last").select(*GROUP, column(side).alias("bucket_start"), "first", "last")


def joined(parts: DataFrame) -> DataFrame:
    """Neighbouring segments of an hour, finding and state as one, with their buckets."""
    keys = ["hour", *GROUP, "finding", "state"]
    order = Window.partitionBy(*keys).orderBy("first")
    begins = functions.coalesce(column("first") > functions.lag("last").over(order) + 1, functions.lit(True))
    numbered = parts.withColumn("begins", begins.cast("int")).withColumn("island", functions.sum("begins").over(order))
    return (
        numbered.groupBy(*keys, "island")
        .agg(
            functions.min("first").alias("first_offset"),
            functions.max("last").alias("last_offset"),
            functions.array_sort(functions.collect_set("bucket_start")).alias("buckets"),
        )
        .drop("island")
    )


def reached_at(needs: DataFrame, marks: DataFrame) -> DataFrame:
    """GROUP, bucket_start, at: when the group was first seen at or after offset ``last``; null if it never was."""
    asked = needs.select(*GROUP, "bucket_start", column("last").alias("offset"))
    seen = marks.select(*GROUP, column("last_offset").alias("offset"), "at")
    later = Window.partitionBy(*GROUP).orderBy(column("offset").desc())  # its frame includes equal offsets
    both = union(asked, seen).withColumn("at", functions.min("at").over(later))
    return both.where("bucket_start IS NOT NULL").drop("offset")


def _begin() -> Column:
    """From which offset on a group should have got everything: from its first one, or all since it was first seen."""
    early = functions.when(column("start").isNull(), functions.lit(2**62)).otherwise(column("start"))
    return functions.when(column("acked") >= column("since"), functions.lit(0)).otherwise(early)


def _reach() -> Column:
    return functions.coalesce("reach", functions.lit(-1))  # least() would ignore a null


def _parts() -> tuple[Column, Column, Column]:
    """The lengths of a segment's parts: before the group began, after what it has reached, and missing between."""
    before = functions.least(column("last") + 1, _begin()) - column("first")
    after_begin = functions.greatest("first", _begin())
    pending = column("last") - functions.greatest(after_begin - 1, _reach())
    missing = functions.when(column("delivered").isNull(), functions.least(column("last"), _reach()) - after_begin + 1)
    return before, pending, functions.coalesce(missing, functions.lit(0))
