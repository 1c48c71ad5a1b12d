"""The records of one batch, and the loops over them that judge a whole batch in one call.

This file runs as it is and compiled (walk.pxd holds the C types).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator

from kafka_sidecar.codec.records.check import check

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import uncompiled as cython

if not cython.compiled:
    from kafka_sidecar.codec.records.record import Record, lacking
else:
    from cython.cimports.kafka_sidecar.codec.records.record import Record, lacking  # type: ignore[no-redef]


class Records:
    """The records of one batch, inflated and known to be well formed.

    Raises:
        CodecError: a length in ``payload`` cannot be, or there are not exactly ``count`` records.
    """

    __slots__ = ("_append_time", "_base_timestamp", "_count", "_starts", "payload")

    def __init__(self, payload: bytes, count: int, base_timestamp: int = 0, append_time: int | None = None) -> None:
        check(payload, count)
        self.payload = payload
        self._count = count
        self._base_timestamp = base_timestamp
        self._append_time = append_time
        self._starts: array[int] | None = None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Record]:
        at = self._cursor()
        for _ in range(self._count):
            at._advance()
            yield at._copy()

    def __getitem__(self, index: int) -> Record:
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError("no record has that index")
        if self._starts is None:
            self._starts = self._found_starts()
        record = self._cursor()
        record._index = index - 1
        record._end = self._starts[index]
        record._advance()
        return record

    def without_header(self, name: bytes, most: int = sys.maxsize) -> list[int]:
        """The indexes of the records that have no header of that name; as in all these, of the first ``most``."""
        return lacking(self.payload, self._count, name, most)

    def null_keys(self, most: int = sys.maxsize) -> list[int]:
        """The indexes of the records whose key is null."""
        found = []
        record = self._cursor()
        for index in range(self._count):
            record._advance()
            record._read()
            if record._key_size < 0:
                found.append(index)
                if len(found) >= most:
                    break
        return found

    def larger_than(
        self, key: int = -1, value: int = -1, record: int = -1, most: int = sys.maxsize
    ) -> list[tuple[int, str]]:
        """The indexes of the records that are over a limit, each with the first one it is over: ``"key"``,
        ``"value"`` or ``"record"`` (key, value and headers as they are written). Limits are bytes; -1: none."""
        found = []
        one = self._cursor()
        for index in range(self._count):
            one._advance()
            one._read()
            if 0 <= key < one._key_size:
                found.append((index, "key"))
            elif 0 <= value < one._value_size:
                found.append((index, "value"))
            elif 0 <= record < one._end - one._start:
                found.append((index, "record"))
            if len(found) >= most:
                break
        return found

    def _cursor(self) -> Record:
        """A record before the first."""
        record = Record.__new__(Record)
        record._records = self
        record._data = self.payload
        record._index = -1
        record._end = 0
        return record

    def _found_starts(self) -> array[int]:
        starts = array("q")
        record = self._cursor()
        for _ in range(self._count):
            starts.append(record._end)
            record._advance()
        return starts
