"""Audit events as rows: their schema, where they are read from, and which of them are stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, functions, types

EVENT_VERSION = 1
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


def to_valid(events: DataFrame) -> DataFrame:
    """The valid events with their hour. What is not valid shows as a missing number of its interval."""
    at = functions.coalesce("bucket_start", "interval_start")
    is_valid = (events.version == EVENT_VERSION) & events.audit_id.isNotNull() & at.isNotNull()
    keyed = events.where(is_valid).withColumn("hour", hour_of(at))
    return keyed.withColumn("cluster", functions.coalesce("cluster", functions.lit(""))).drop("version")


def once(events: DataFrame) -> DataFrame:
    """Each event once. One that is sent again keeps its id, and its hour."""
    # Few are sent again, so that to look for copies in each partition first would sort all events in vain.
    return events.repartition("audit_id").dropDuplicates(["audit_id"])


def stored_schema() -> types.StructType:
    """The columns of the table of events."""
    kept = [field for field in event_schema().fields if field.name != "version"]
    return types.StructType([*kept, *(types.StructField(name, types.StringType()) for name in ("hour", "batch"))])
