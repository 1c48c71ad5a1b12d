"""Audit events as rows: their schema, where they are read from, and which of them are stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, functions, types

from kafka_sidecar.pipeline.reconcile.sql import apart, column, computed, with_texts

EVENT_VERSION = 1
HOUR_MS = 3_600_000
MAX_REPEATED = 1_000_000  # ids that are sent to all executors, of 8 bytes each
_TYPES = {
    "string": types.StringType(),
    "integer": types.LongType(),
    "number": types.DoubleType(),
    "boolean": types.BooleanType(),
}


def event_schema() -> types.StructType:
    """The columns of both kinds of events, from the JSON Schema that the sidecars follow."""
    schema = json.loads(files("kafka_sidecar.audit").joinpath("event.schema.json").read_text(encoding="utf-8"))
    kinds = schema["$defs"].values()
    return _struct({name: about for kind in kinds for name, about in kind["properties"].items()})


def _struct(properties: Mapping[str, Any]) -> types.StructType:
    return types.StructType([types.StructField(name, _type(about)) for name, about in properties.items()])


def _type(about: Mapping[str, Any]) -> types.DataType:
    names = about.get("type", "integer" if isinstance(about.get("const"), int) else "string")
    (name,) = {names} if isinstance(names, str) else set(names) - {"null"}
    if name == "array":
        return types.ArrayType(_type(about["items"] if "items" in about else about["prefixItems"][0]))
    return _struct(about["properties"]) if name == "object" else _TYPES[name]


def from_files(spark: SparkSession, folder: str, file_format: str, files_at_a_time: int) -> DataFrame:
    """A stream of the events in files: JSON lines or Parquet."""
    reader = spark.readStream.schema(event_schema()).option("maxFilesPerTrigger", files_at_a_time)
    return reader.option("recursiveFileLookup", True).format(file_format).load(folder)


def from_kafka(spark: SparkSession, servers: str, topic: str, settings: Mapping[str, str], at_a_time: int) -> DataFrame:
    """A stream of the events in the audit topic, from its beginning."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    for name, value in settings.items():
        reader = reader.option(f"kafka.{name}", value)
    # Events that retention has deleted are missing numbers like others, and no reason to stop.
    reader = reader.option("startingOffsets", "earliest").option("failOnDataLoss", False)
    values = reader.option("maxOffsetsPerTrigger", at_a_time).load()
    return values.select(functions.from_json(values.value.cast("string"), event_schema()).alias("event")).select(
        "event.*"
    )


def hour_of(ms: Column) -> Column:
    """The hour that a table is partitioned by, such as 2026-11-22-18, UTC. No other type is mistaken for it."""
    return functions.date_format(functions.timestamp_millis(ms), "yyyy-MM-dd-HH")


def _at() -> Column:
    return functions.coalesce("bucket_start", "interval_start")


def to_valid(events: DataFrame) -> DataFrame:
    """The valid events with their hour. What is not valid shows as a missing number of its interval."""
    is_valid = (events.version == EVENT_VERSION) & events.audit_id.isNotNull() & _at().isNotNull()
    keyed = events.where(is_valid).withColumn("hour", hour_of(_at()))
    return with_texts(keyed, "cluster", "topic_id").drop("version")


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids of a batch of valid events."""

    hours: frozenset[str]
    repeated: int  # how many come more than once
    counts: DataFrame  # id_hash, at (ms: the hour), count


def ids_of(valid: DataFrame) -> Ids:
    """One pass over the events, of which no more is kept than their ids need."""
    hour = (functions.floor(_at() / HOUR_MS) * HOUR_MS).alias("at")
    counts = computed(valid.groupBy(_id_hash(), hour).count())
    again = functions.sum((column("count") > 1).cast("long")).alias("again")
    found = counts.groupBy("at").agg(again).select(hour_of(column("at")).alias("hour"), "again").collect()
    return Ids(frozenset(row.hour for row in found), sum(row.again for row in found), counts)


def once(events: DataFrame, ids: Ids | None = None) -> DataFrame:
    """Each event once. One that is sent again keeps its id, and its hour.

    Few are sent again, so with ``ids`` only those are shuffled, and compared; also two ids with the same hash.
    """
    if ids is None or ids.repeated > MAX_REPEATED:
        return apart(events, "audit_id").dropDuplicates(["audit_id"])
    if not ids.repeated:
        return events
    again = functions.broadcast(ids.counts.where("count > 1").select("id_hash"))
    hashed = events.withColumn("id_hash", _id_hash())
    alone, several = (hashed.join(again, "id_hash", how) for how in ("left_anti", "left_semi"))
    return alone.unionByName(apart(several, "audit_id").dropDuplicates(["audit_id"])).drop("id_hash")


def _id_hash() -> Column:
    # Of 8 bytes, where an id has 36.
    return functions.xxhash64("audit_id").alias("id_hash")


def stored_schema() -> types.StructType:
    """The columns of the table of events."""
    kept = [field for field in event_schema().fields if field.name != "version"]
    return types.StructType([*kept, *(types.StructField(name, types.StringType()) for name in ("hour", "batch"))])
