"""A small run of the job whose classes are archived, so that others start faster. Run by `make spark-install`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark import SparkContext

from kafka_sidecar.pipeline.session import start_session
from pipeline.conftest import LOCAL
from pipeline.reconcile.conftest import LONG_AFTER, run, table, write_files
from pipeline.reconcile.emitted import emit
from pipeline.reconcile.traffic import traffic


def main() -> None:
    events = emit(traffic(seed=1, minutes=12))
    spark = start_session(LOCAL, "warm-up", uses_kafka=True)
    with tempfile.TemporaryDirectory() as name:
        source, root = Path(name, "events"), Path(name, "tables")
        write_files(source, events, 1)
        run(spark, source, root, lambda: LONG_AFTER)
        table(spark, root, "reconcile")
    java = SparkContext._gateway.proc
    spark.stop()
    java.stdin.close()  # it ends, and writes the archive
    java.wait()


if __name__ == "__main__":
    main()
