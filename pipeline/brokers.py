"""Whether brokers respond: found out before a job waits for them, so that the error names the setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

REACH_S = 15
# Of Kafka's clients, in place of a minute for each of several attempts.
TIMEOUTS = {"default.api.timeout.ms": "25000", "request.timeout.ms": "20000"}


class UnreachableError(Exception):
    """No broker responds. The text names the brokers, the settings and the reason."""

    def __init__(self, servers: Sequence[str], why: str) -> None:
        names = ", ".join(servers)
        super().__init__(
            f"bootstrap_servers: {names} cannot be reached ({why}); check the addresses, "
            "and security.protocol, sasl.* and ssl.* of pipeline.kafka"
        )


def with_timeouts(kafka: Mapping[str, str]) -> dict[str, str]:
    """The settings, with our timeouts if they have none: one of the two must not be less than the other."""
    return dict(kafka) if TIMEOUTS.keys() & kafka.keys() else {**kafka, **TIMEOUTS}


def check_brokers(spark: SparkSession, servers: Sequence[str], kafka: Mapping[str, str]) -> None:
    """Connect as Spark's source will, with the same client and settings. Raises UnreachableError."""
    java = spark.sparkContext._jvm
    assert java is not None
    options = java.org.apache.kafka.clients.admin.DescribeClusterOptions().timeoutMs(1000 * REACH_S)
    try:
        with admin_of(spark, servers, kafka) as admin:
            admin.describeCluster(options).nodes().get()
    except Py4JJavaError as error:
        raise UnreachableError(servers, reason(error)) from error


@contextmanager
def admin_of(spark: SparkSession, servers: Sequence[str], kafka: Mapping[str, str]) -> Iterator[Any]:
    """Kafka's Admin client, in Spark's JVM."""
    java = spark.sparkContext._jvm
    assert java is not None
    settings = java.java.util.HashMap()
    for name, value in {**with_timeouts(kafka), "bootstrap.servers": ",".join(servers)}.items():
        settings.put(name, value)
    admin = java.org.apache.kafka.clients.admin.AdminClient.create(settings)
    try:
        yield admin
    finally:
        admin.close(java.java.time.Duration.ZERO)


def reason(error: Py4JJavaError) -> str:
    """What the innermost exception says."""
    cause = error.java_exception
    while (inner := cause.getCause()) is not None:
        cause = inner
    return str(cause.getMessage()).rstrip(".")
