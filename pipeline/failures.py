"""What Spark raises, as one line for the user."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

FAILURES = (PySparkException, Py4JJavaError)


def explain(error: Exception) -> str:
    """One line: of a traceback of our own the one that says what is wrong, or else what has ended the query."""
    if not isinstance(error, FAILURES):
        return str(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("kafka_sidecar.") and "Error: " in line]
    if own:
        return own[-1].partition("Error: ")[2]
    first = lines[0] if lines else "failed"
    return first.rpartition("terminated with exception: ")[2].partition(" SQLSTATE: ")[0]
