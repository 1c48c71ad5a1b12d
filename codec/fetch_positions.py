"""From which offsets a Fetch request, or its fetch session, reads.

This file runs as it is and compiled (fetch_positions.pxd holds the C types).
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.fetch_head import (
        FetchHead,
        bytes_after_offset,
        bytes_before_offset,
        has_sessions,
        names_ids,
        open_fetch,
        read_fetch_head,
    )
else:
    from cython.cimports.kafka_sidecar.codec.fetch_head import (  # type: ignore[no-redef]
        FetchHead,
        bytes_after_offset,
        bytes_before_offset,
        has_sessions,
        names_ids,
        open_fetch,
        read_fetch_head,
    )

Partition = tuple[str | bytes, int]  # a topic's name, or since v13 its id of 16 bytes; the index

MAX_SCANNED = 64  # partitions that are looked for one by one
UNKNOWN = 0  # in place of an offset: all that a response holds is read
# For C.
_MAX_SCANNED, _UNKNOWN = MAX_SCANNED, UNKNOWN


class Asked:
    """A partition, and from where it is read."""

    __slots__ = ("index", "key", "offset")

    key: str | bytes  # as in `Partition`
    index: int
    offset: int


class Offsets:
    """Offsets of partitions, in the order of requests: the next one to be found is likely the one after the last.

    Objects of rows are used again after `clear`.
    """

    __slots__ = ("_by_partition", "_next", "_rows", "size")

    def __init__(self) -> None:
        self._rows: list[Asked] = []
        self._by_partition: dict[Partition, Asked] | None = None  # of more than can be scanned, once one was looked for
        self._next = 0
        self.size = 0  # rows in use

    def clear(self) -> None:
        self.size = self._next = 0
        self._by_partition = None

    def expected(self, known: str | bytes | None) -> str | bytes | None:
        """The topic that the next row had in the last request, as this one most likely names it too; else ``known``."""
        return self._rows[self.size].key if self.size < len(self._rows) else known

    def add(self, key: str | bytes, index: int, offset: int) -> None:
        """Add a partition that is not there yet."""
        if self.size < len(self._rows):
            row = self._rows[self.size]
        else:
            row = Asked.__new__(Asked)
            self._rows.append(row)
        row.key, row.index, row.offset = key, index, offset
        self.size += 1
        if self._by_partition is not None:
            self._by_partition.setdefault((key, index), row)

    def get(self, key: str | bytes, index: int) -> int:
        """From where a partition is read, or `UNKNOWN`."""
        row = self._find(key, index)
        return _UNKNOWN if row is None else row.offset

    def update(self, named: Offsets) -> None:
        """Take the offsets of a later request."""
        for place in range(named.size):
            row = named._rows[place]
            known = self._find(row.key, row.index)
            if known is None:
                self.add(row.key, row.index, row.offset)
            else:
                known.offset = row.offset

    def forget(self, key: str | bytes, index: int) -> None:
        """The partition has left the session. Its row stays: in most cases it comes back."""
        row = self._find(key, index)
        if row is not None:
            row.offset = _UNKNOWN

    def _find(self, key: str | bytes, index: int) -> Asked | None:
        if self.size > _MAX_SCANNED:
            return self._look_up(key, index)
        place = self._next
        for _ in range(self.size):
            if place >= self.size:
                place = 0
            row = self._rows[place]
            place += 1
            if row.index == index and (row.key is key or row.key == key):
                if row.key is not key:
                    row.key = key  # the same object is found in fewer steps next time
                self._next = place
                return row
        return None

    def _look_up(self, key: str | bytes, index: int) -> Asked | None:
        if self._by_partition is None:
            self._by_partition = {}
            for row in self._rows[: self.size]:
                self._by_partition.setdefault((row.key, row.index), row)
        return self._by_partition.get((key, index))


class FetchPositions(FetchHead):
    """What a Fetch request asks for. One object reads the requests of one version, one after the other."""

    __slots__ = ("_version", "forgotten", "offsets")

    forgotten: list[Partition]  # that no longer belong to the session

    def __init__(self, version: int) -> None:
        self._version = version
        self.offsets = Offsets()
        self.forgotten = []

    def size(self) -> int:
        """The partitions that the request names."""
        return self.offsets.size + len(self.forgotten)

    def read(self, data: bytes, at: int, end: int, known: str | bytes | None = None) -> None:
        """Read the request data[at:end], which begins with its length. A topic equal to ``known`` is that object.

        Raises:
            CodecError: these bytes are no such request.
        """
        version, offsets = self._version, self.offsets
        before, after = bytes_before_offset(version) - 4, bytes_after_offset(version)
        offsets.clear()
        if self.forgotten:
            self.forgotten = []
        cursor = open_fetch(data, at, end, version)
        read_fetch_head(cursor, version, self)
        for _ in range(cursor.length(4, False, "topics")):
            topic = cursor.topic(names_ids(version), offsets.expected(known))
            for _ in range(cursor.length(4, False, "partitions")):
                index = cursor.integer(4)
                cursor.skip(before)
                offsets.add(topic, index, cursor.integer(8))
                cursor.skip(after)
                cursor.skip_tags()
            cursor.skip_tags()
        if has_sessions(version):
            for _ in range(cursor.length(4, False, "forgotten_topics_data")):
                topic = cursor.topic(names_ids(version))
                for _ in range(cursor.length(4, False, "partitions")):
                    self.forgotten.append((topic, cursor.integer(4)))
                cursor.skip_tags()
