"""From which offsets a Fetch request, or its fetch session, reads.

This file runs as it is and compiled (fetch_positions.pxd holds the C types).
"""

from __future__ import annotations

from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.fetch import FetchRequest

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.cursor import Cursor, find_topic, is_text, read_big_endian
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
    from cython.cimports.kafka_sidecar.codec.cursor import (  # type: ignore[no-redef]
        Cursor,
        find_topic,
        is_text,
        read_big_endian,
    )
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
_NOWHERE = -1
_FLEXIBLE, _WITHOUT_REPLICA = FetchRequest.declaration_.first_flexible, first_version(FetchRequest, "replica_state")
_HEAD_BYTES, _PARTITION_BYTES = 22, 33


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

    def next_key(self, data: bytes, at: int, size: int, is_id: bool, known: str | bytes | None) -> str | bytes:
        """The topic data[at : at + size], where it can be the object that it was in the last request, or ``known``."""
        if self.size < len(self._rows):
            row = self._rows[self.size]
            if is_text(row.key, data, at, size):
                return row.key
        if known is not None and is_text(known, data, at, size):
            return known
        text = data[at : at + size]
        return text if is_id else text.decode("utf-8", "surrogateescape")

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
        self.offsets.clear()
        if self._version < _FLEXIBLE or not self._read_usual(data, at, end, known):
            self._read_any(open_fetch(data, at, end, self._version), known)
        elif self.forgotten:
            self.forgotten = []

    def _read_any(self, cursor: Cursor, known: str | bytes | None) -> None:
        version, offsets = self._version, self.offsets
        before, after = bytes_before_offset(version) - 4, bytes_after_offset(version)
        self.forgotten = []
        offsets.clear()
        read_fetch_head(cursor, version, self)
        for _ in range(cursor.length(4, False, "topics")):
            topic = cursor.topic(names_ids(version), known)
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

    def _read_usual(self, data: bytes, at: int, end: int, known: str | bytes | None) -> bool:
        """Read the usual request; False: it is none, and some of it may have been read.

        A usual request is whole, without tagged fields, has fewer than 127 topics of fewer than 127 partitions, and
        forgets none. It takes a third of the steps.
        """
        if not 0 <= at <= end - _HEAD_BYTES or end > len(data):
            return False
        # length int32 | api key, version int16 | correlation id int32 | client id string | tags
        here = at + 14 + max(read_big_endian(data, at + 12, 2), 0)
        if here + _HEAD_BYTES + 4 >= end or read_big_endian(data, here, 1):
            return False
        # replica_id (until v14), max_wait_ms, min_bytes, max_bytes int32 | isolation_level int8 |
        # session_id, session_epoch int32
        here += 13 if self._version >= _WITHOUT_REPLICA else 17
        self.isolation_level = read_big_endian(data, here, 1)
        self.session_id, self.session_epoch = read_big_endian(data, here + 1, 4), read_big_endian(data, here + 5, 4)
        self.epoch_at = here + 5
        topics = read_big_endian(data, here + 9, 1)
        if topics <= 0:
            return False
        here += 10
        for _ in range(topics - 1):
            here = self._read_topic(data, here, end, known)
            if here < 0:
                return False
        return here < end and read_big_endian(data, here, 1) == 1

    def _read_topic(self, data: bytes, here: int, end: int, known: str | bytes | None) -> int:
        """Add the partitions of the topic at data[here]; where it ends, or -1: it is not a usual one."""
        is_id = names_ids(self._version)
        found = find_topic(data, here, end, is_id)
        if not found:
            return _NOWHERE
        here, size = found >> 7, found & 127
        key = self.offsets.next_key(data, here, size, is_id, known)
        here += size + 1
        partitions = read_big_endian(data, here - 1, 1)
        if partitions <= 0 or (partitions - 1) * _PARTITION_BYTES >= end - here:
            return _NOWHERE
        for _ in range(partitions - 1):
            # index, current_leader_epoch int32 | fetch_offset int64 | last_fetched_epoch int32 |
            # log_start_offset int64 | partition_max_bytes int32 | tags: none
            if read_big_endian(data, here + _PARTITION_BYTES - 1, 1):
                return _NOWHERE
            self.offsets.add(key, read_big_endian(data, here, 4), read_big_endian(data, here + 8, 8))
            here += _PARTITION_BYTES
        return here + 1 if not read_big_endian(data, here, 1) else _NOWHERE
