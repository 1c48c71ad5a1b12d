"""The tables in their folder. Every write can be repeated: a run that was killed while writing is simply run again.

`events`, `finals` and `digests` have a folder for each hour and batch, which a repeated batch replaces; folders.py says
which of them count. The others have one for each hour, computed from the stored events and replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions, types

from kafka_sidecar.pipeline.reconcile.folders import Folder, named_in, visible
from kafka_sidecar.pipeline.reconcile.sql import apart, empty, together, with_texts

FILE_BYTES = 128 << 20  # of a merged folder


class Tables:
    """The tables below one folder."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = root.rstrip("/")
        java = spark.sparkContext._jvm.org.apache
        # Once: on the way to a class each package is looked for as a class, in every jar.
        self._new_path, self._paths_of = java.hadoop.fs.Path, java.hadoop.fs.FileUtil.stat2Paths
        self._to_string = java.commons.lang3.ArrayUtils.toString

    def path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def describe(self, step: str) -> None:
        """Name the jobs that follow, in Spark's UI and its event log."""
        context = self._spark.sparkContext
        context.setJobDescription(step)
        # Else each step of a plan looks through the stack for the program's line that leads to it: always this one's.
        context.setLocalProperty("callSite.short", step)
        context.setLocalProperty("callSite.long", step)

    def write_batch(self, name: str, rows: DataFrame, batch: int, hours: Iterable[str] = ()) -> None:
        """Replace what an earlier attempt of this batch has written, of ``hours`` also where there are no rows now."""
        self.describe(f"write {name}")
        named = rows.withColumn("batch", functions.lit(Folder("", batch).batch_name))
        named.write.mode("overwrite").partitionBy("hour", "batch").parquet(self.path(name))
        for hour in without_rows(rows, hours):
            self._delete(f"{self.path(name)}/{Folder(hour, batch).name}")

    def write_hours(self, name: str, rows: DataFrame, hours: Iterable[str]) -> None:
        """Replace these hours: those without rows are deleted."""
        self.describe(f"write {name}")
        apart(rows, "hour").write.mode("overwrite").partitionBy("hour").parquet(self.path(name))
        for hour in without_rows(rows, hours):
            self._delete(f"{self.path(name)}/hour={hour}")

    def write_all(self, name: str, rows: DataFrame) -> None:
        """Replace a small table."""
        self.describe(f"write {name}")
        rows.coalesce(1).write.mode("overwrite").parquet(self.path(name))

    def write_merged(self, name: str, rows: DataFrame, folder: Folder, size: int = 0) -> None:
        """The rows of an hour up to a batch, as one folder; it counts from the moment when it is complete."""
        self.describe(f"merge {name}")
        kept = rows.drop("hour", "batch").coalesce(1 + size // FILE_BYTES)
        kept.write.mode("overwrite").parquet(f"{self.path(name)}/{folder.name}")

    def read(self, name: str, schema: types.StructType) -> DataFrame:
        """A table of hours, or a small one; empty if it was never written."""
        if not self.exists(name):
            return empty(self._spark, schema)
        return together(_whole(self._spark.read.schema(schema).parquet(self.path(name))))

    def read_folders(self, name: str, schema: types.StructType, folders: Collection[Folder]) -> DataFrame:
        """The rows of these folders."""
        if not folders:
            return empty(self._spark, schema)
        reader = self._spark.read.schema(schema).option("basePath", self.path(name))
        return together(_whole(reader.parquet(*(f"{self.path(name)}/{one.name}" for one in folders))))

    def folders(self, name: str, before: int | None = None) -> list[Folder]:
        """Those that count; only those of earlier batches."""
        return [one for one in self._listed(name)[0] if before is None or one.batch < before]

    def hidden(self, name: str) -> list[Folder]:
        """Those that no longer count, or not yet."""
        return self._listed(name)[1]

    def size(self, name: str, folders: Iterable[Folder]) -> int:
        """Bytes."""
        paths = (self._path(f"{self.path(name)}/{one.name}") for one in folders)
        return sum(int(self._system(path).getContentSummary(path).getLength()) for path in paths)

    def delete(self, name: str, folders: Iterable[Folder]) -> None:
        for one in folders:
            self._delete(f"{self.path(name)}/{one.name}")

    def exists(self, name: str) -> bool:
        path = self._path(self.path(name))
        return bool(self._system(path).exists(path))

    def _delete(self, path: str) -> None:
        self._system(self._path(path)).delete(self._path(path), True)

    def _listed(self, name: str) -> tuple[list[Folder], list[Folder]]:
        there = self._glob(name)
        complete = [one for one in self._glob(name, "/_SUCCESS") if one.kind]
        counting = visible(there, complete)
        return counting, sorted(set(there) - set(counting))

    def _glob(self, name: str, below: str = "") -> list[Folder]:
        pattern = self._path(f"{self.path(name)}/hour=*/batch=*{below}")
        found = self._paths_of(self._system(pattern).globStatus(pattern))
        # One call for all of them: each call into the JVM takes a fraction of a millisecond.
        return list(named_in(self._to_string(found)))

    def _path(self, path: str) -> Any:
        return self._new_path(path)

    def _system(self, path: Any) -> Any:
        return path.getFileSystem(self._spark.sparkContext._jsc.hadoopConfiguration())


def _whole(rows: DataFrame) -> DataFrame:
    """Also of files from before topics had ids."""
    return with_texts(rows, "topic_id") if "topic_id" in rows.columns else rows


def without_rows(rows: DataFrame, hours: Iterable[str]) -> set[str]:
    """Those of these hours that have none of the rows."""
    wanted = set(hours)
    return wanted - {row.hour for row in rows.select("hour").distinct().collect()} if wanted else wanted
