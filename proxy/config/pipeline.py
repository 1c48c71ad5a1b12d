"""The section of the Spark jobs. The proxy reads nothing of it; it is here because the file is shared."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from kafka_sidecar.plugins.units import Duration
from kafka_sidecar.proxy.config.sections import Section
from kafka_sidecar.proxy.config.types import duration_field


class Reconcile(Section):
    path: str = "kafka-sidecar-audit"
    """Folder of the tables and of the progress of `reconcile`: a path, or a URI that Spark can write to."""
    lateness: Duration = duration_field("30m", gt=0)
    """For how long missing audit events are waited for. After that, what they counted is unknown."""
    clock_skew: Duration = duration_field("1m")
    """How far the clocks of producers, brokers and sidecars may differ."""
    target: float = Field(default=100, ge=0, le=100)
    """The percentage of records that must arrive; below it there is an alert."""
    retention: Duration = duration_field("14d", gt=0)
    """For how long audit events are kept. The rows of older ones stay, and are not computed again."""
    max_events: int = Field(default=500_000, ge=1)
    """Maximum number of audit events that are read at a time."""


class Pipeline(Section):
    master: str | None = None
    """Spark's `spark.master`. Under `spark-submit` its own applies. Default: `local[*]`."""
    jars: Path | None = None
    """Folder of the jars of Spark's Kafka connector. Default: kafka-sidecar/spark-jars in the user's cache."""
    spark: dict[str, str] = Field(default_factory=dict)
    """Further settings of Spark, such as `spark.driver.memory`."""
    kafka: dict[str, str] = Field(default_factory=dict)
    """Settings of Spark's Kafka clients, such as `security.protocol`."""
    reconcile: Reconcile = Field(default_factory=Reconcile)
