"""A small job whose classes are archived: what sessions, streams and Parquet load. Run by `make spark-install`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import functions

from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.proxy.config.pipeline import Pipeline


def main() -> None:
    spark = start_session(Pipeline(master="local[2]"), "warm-up", uses_kafka=True)
    with tempfile.TemporaryDirectory() as name:
        source, table, checkpoint = (str(Path(name, part)) for part in ("source", "table", "checkpoint"))
        spark.range(100).select(functions.col("id"), (functions.col("id") % 3).alias("hour")).write.json(source)
        query = (
            spark.readStream.schema("id long, hour long")
            .json(source)
            .writeStream.foreachBatch(
                lambda rows, number: (
                    rows.groupBy("hour").agg(functions.sum("id")).write.partitionBy("hour").parquet(table)
                )
            )
            .trigger(availableNow=True)
            .option("checkpointLocation", checkpoint)
            .start()
        )
        query.awaitTermination()
        spark.read.parquet(table).collect()
    java = SparkContext._gateway.proc
    spark.stop()
    java.stdin.close()  # it ends, and writes the archive
    java.wait()


if __name__ == "__main__":
    main()
