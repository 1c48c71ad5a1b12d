"""A DataFrame whose rows Python makes in Spark's tasks, one task for each part of what is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

ROWS_AT_ONCE = 10_000
_ARROW = {"string": pyarrow.string(), "int": pyarrow.int32(), "long": pyarrow.int64()}

T = TypeVar("T")
Rows = Sequence[Sequence[Any]]
ReadPart = Callable[[Any], Iterable[Rows]]  # the rows of a part, some at a time


class _Task(InputPartition):  # type: ignore[misc]  # Spark is not looked into
    def __init__(self, part: Any) -> None:
        super().__init__(part)
        self.part = part


class _Reader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, parts: Sequence[Any], read: ReadPart, schema: pyarrow.Schema) -> None:
        self._parts = parts
        self._read = read
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [_Task(one) for one in self._parts]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        if isinstance(partition, _Task):  # else there is no part
            for rows in self._read(partition.part):
                columns = zip(*rows, strict=True)
                arrays = [pyarrow.array(column, one.type) for column, one in zip(columns, self._schema, strict=True)]
                yield pyarrow.RecordBatch.from_arrays(arrays, schema=self._schema)


def arrow_schema(schema: str) -> pyarrow.Schema:
    """Arrow's form of Spark's ``schema``, whose columns are strings and integers.

    >>> arrow_schema("topic string, records long").names
    ['topic', 'records']
    """
    return pyarrow.schema([(name, _ARROW[kind]) for name, kind in (one.split() for one in schema.split(", "))])


def in_chunks(rows: Iterable[T]) -> Iterator[list[T]]:
    """Rows as they become a batch of Arrow, so that few are in memory at once."""
    rest = iter(rows)
    while some := list(islice(rest, ROWS_AT_ONCE)):
        yield some


def load_table(
    spark: SparkSession, title: str, columns: str, parts: Sequence[Any], read: ReadPart,
    arrow: pyarrow.Schema | None = None,
) -> DataFrame:  # fmt: skip
    """The rows of all parts; nothing is read before they are used.

    Args:
        spark: the session.
        title: as Spark shows the source.
        columns: Spark's schema.
        parts: one for each task.
        read: is sent to workers, with what it refers to.
        arrow: the schema for Arrow; needed where columns are more than strings and integers.
    """
    reader = _Reader(parts, read, arrow_schema(columns) if arrow is None else arrow)

    class Source(DataSource):  # type: ignore[misc]
        """The class is sent to the workers, and the reader with it."""

        @classmethod
        def name(cls) -> str:
            return title

        def schema(self) -> str:
            return columns

        def reader(self, schema: Any) -> DataSourceReader:
            return reader

    spark.dataSource.register(Source)
    return spark.read.format(title).load()
