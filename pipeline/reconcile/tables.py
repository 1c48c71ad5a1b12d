"""The tables in their folder. Every write can be repeated: a run that was killed while writing is simply run again.

`events` and `finals` have a folder for each batch, which a repeated batch replaces. The others have one for each hour,
which is computed from all stored events and replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions, types


class Tables:
    """The tables below one folder."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = root.rstrip("/")

    def path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def write_batch(self, name: str, rows: DataFrame, batch: int) -> None:
        """Replace what an earlier attempt of this batch has written."""
        rows.write.mode("overwrite").parquet(f"{self.path(name)}/batch={_sortable(batch)}")

    def write_hours(self, name: str, rows: DataFrame, hours: Iterable[str]) -> None:
        """Replace these hours: those without rows are deleted."""
        rows.repartition("hour").write.mode("overwrite").partitionBy("hour").parquet(self.path(name))
        written = {row.hour for row in rows.select("hour").distinct().collect()}
        for hour in set(hours) - written:
            self._delete(f"{self.path(name)}/hour={hour}")

    def write_all(self, name: str, rows: DataFrame) -> None:
        """Replace a small table."""
        rows.coalesce(1).write.mode("overwrite").parquet(self.path(name))

    def read(self, name: str, schema: types.StructType) -> DataFrame:
        """The table; empty if it was never written."""
        if not self.exists(name):
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(self.path(name))

    def read_batches(self, name: str, schema: types.StructType, before: int) -> DataFrame:
        """The rows of earlier batches."""
        return self.read(name, schema).where(functions.col("batch") < _sortable(before))

    def exists(self, name: str) -> bool:
        file, system = self._file(self.path(name))
        return bool(system.exists(file))

    def _delete(self, path: str) -> None:
        file, system = self._file(path)
        system.delete(file, True)

    def _file(self, path: str) -> tuple[Any, Any]:
        context = self._spark.sparkContext
        file = context._jvm.org.apache.hadoop.fs.Path(path)
        return file, file.getFileSystem(context._jsc.hadoopConfiguration())


def _sortable(batch: int) -> str:
    return f"{batch:012}"
