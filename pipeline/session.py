"""The Spark session of a command: local by default, and nothing of its own under spark-submit."""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.jars import find_jars
from kafka_sidecar.proxy.config.sections import Pipeline

# What the jobs rely on, wherever they run.
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # An overwritten partition leaves the others as they are.
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # A batch of the available files or offsets is bounded even beside a source that has no end, such as the clock.
    "spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true",
    # A command prints one line of its own for an error.
    "spark.log.level": "OFF",
    # Else each call that builds a query asks where it was written: a fifth of the time of a small batch.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The column hour stays text when it is read.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
# One machine, no other program on its ports.
LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "true" if sys.stderr.isatty() else "false",
}
# PySpark asks the JVM for these classes and their methods with nearly every column, by these names.
ASKED_FOR = {
    "org.apache.spark.sql.functions": "org.apache.spark.sql.functions",
    "functions": "org.apache.spark.sql.functions",
    "PythonUtils": "org.apache.spark.api.python.PythonUtils",
    "PythonSQLUtils": "org.apache.spark.sql.api.python.PythonSQLUtils",
}


def is_submitted() -> bool:
    """Whether spark-submit has started this process: then master, jars and memory are set there."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def start_session(settings: Pipeline, name: str, uses_kafka: bool) -> SparkSession:
    """The session. Raises JarError if the job reads from Kafka and the connector is missing."""
    # Else workers start the first python3 of PATH, which has not what is installed here.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = dict(SETTINGS)
    if not is_submitted():
        options |= {"spark.master": settings.master or "local[*]"} | LOCAL
        if uses_kafka:
            options["spark.jars"] = ",".join(map(str, find_jars(settings.jars)))
    builder = SparkSession.builder.appName(f"kafka-sidecar {name}")
    for key, value in (options | settings.spark).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    java = session.sparkContext._jvm
    for name, full_name in ASKED_FOR.items():
        found = getattr(java, full_name)
        setattr(java, name, found if isinstance(found, Asked) else Asked(found))
    return session


class Asked:
    """A Java class whose methods are looked for once: each search is a call into the JVM, and goes through all jars."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._java, name)
        setattr(self, name, found)
        return found
