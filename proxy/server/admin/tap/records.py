"""Watches Produce, Fetch and ShareFetch for an open tap of records.

Each frame is walked by its batch headers, so that what is not shown is counted; it is copied and read only where lines
are granted, and in a thread if it is large.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.fetch_counts import FetchWalk, ShareFetchWalk
from kafka_sidecar.codec.fetch_positions import FetchPositions, Offsets
from kafka_sidecar.codec.large_bytes import join
from kafka_sidecar.codec.produce_counts import NOT_ANSWERED, ProduceWalk, Sent, acknowledge
from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.routes import GlancingTap, Seen
from kafka_sidecar.proxy.relay.watch import Tap, Watch, WatchedRequest
from kafka_sidecar.proxy.server.admin.tap.glancing import glance
from kafka_sidecar.proxy.server.admin.tap.open_tap import OpenTap, client_of
from kafka_sidecar.proxy.server.admin.tap.reading import (
    Key,
    Positions,
    Room,
    Show,
    Shown,
    TooLargeError,
    read_fetched,
    read_produced,
)
from kafka_sidecar.proxy.server.admin.waiting_frames import WaitingFrames

SLICE_BYTES = 64 << 10  # that are walked before it is seen whether there are more batches than honest clients send
MAX_BATCHES = 4_000  # those that follow are not counted
MAX_INLINE_BYTES = 64 << 10  # of a frame that is read in the event loop
INLINE = Room(inflated=256 << 10, records=5_000, is_last=False)
IN_THREAD = Room(inflated=16 << 20, records=1_000_000, is_last=True)
MAX_FRAME_BYTES = 16 << 20  # that is copied
MAX_ACKNOWLEDGED_BYTES = 256 << 10  # of a response to Produce
MAX_POSITIONS_BYTES = 256 << 10  # of a Fetch request
ALL_TIME_MS = 1 << 50
MAX_KNOWN = 1_000  # partitions of which it is remembered whether they are wanted
OLDEST_FETCH = 4  # version


class Reader(Protocol):
    """What reads frames for all taps of a process."""

    def name_of(self, key: Key) -> str | None:
        """A topic's name, where it is known."""

    def copy_of(self, size: int) -> Copy | None:
        """For a copy of so many bytes; None: there is no room."""

    def read_later(
        self, copy: Copy, topics: Iterable[Key], read: Callable[[], list[Shown]], done: Callable[[list[Shown]], None]
    ) -> None:
        """Read a copy in a thread, once the names of its topics were asked for."""


class Copies:
    """The bytes that are copied at a time."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def take(self, size: int) -> Copy | None:
        """None: there is no room for so many more."""
        if size > min(self._left, MAX_FRAME_BYTES):
            return None
        self._left -= size
        return Copy(self, size)

    def give_back(self, size: int) -> None:
        self._left += size


class Copy:
    """A copy of a frame. Its room is there again once nothing refers to it, however its connection has ended."""

    __slots__ = ("_copies", "_size", "parts")

    def __init__(self, copies: Copies, size: int) -> None:
        self._copies = copies
        self._size = size
        self.parts: list[bytes] = []

    def __del__(self) -> None:
        self._copies.give_back(self._size)

    @property
    def frame(self) -> bytes:
        """Once it is whole."""
        if len(self.parts) > 1:
            self.parts = [join(self.parts)]
        return self.parts[0]


class RecordsTap(Tap):
    """What one API and version shows to an open tap."""

    __slots__ = (
        "_known", "_over_rate", "_over_until", "_wants_all", "direction", "key", "open", "reader", "show", "version",
    )  # fmt: skip

    def __init__(self, open_tap: OpenTap, reader: Reader, key: int, version: int) -> None:
        self.open = open_tap
        self.reader = reader
        self.key = key
        self.version = version
        self.direction = "produced" if key == ApiKey.PRODUCE else "fetched"
        wanted = open_tap.wanted
        self.show = Show("keys" in wanted.show, "values" in wanted.show, wanted.salt)
        self._wants_all = not {"topic", "partition"} & wanted.filters.keys()
        self._known = Bounded[tuple[Key, int], bool](MAX_KNOWN)  # what is wanted, of partitions
        self._over_rate = WaitingFrames(self._skip)  # Produce requests that came when no line was granted
        self._over_until = 0.0  # when some may be again, by the clock of sessions

    def wants(self, key: Key, index: int) -> bool:
        """Whether records of a partition are shown."""
        if self._wants_all:
            return True
        known = self._known.get((key, index))
        if known is None:
            one, name = self.open.filter, self.reader.name_of(key)
            known = one.allows("partition", str(index)) and (
                one.topics is None or (name is not None and one.topics(name))
            )
            if name is not None:
                self._known[key, index] = known
        return known

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        if not self.open.filter.allows_any_client and not self._allows(client):
            return None
        if len(data) < at + size:
            watch = self.begin(client, state, now)
            frames.edit(WatchedRequest(watch, waits is not None))
            return watch
        if self.key == ApiKey.PRODUCE and size <= SLICE_BYTES and (now < self._over_until or self._is_over_rate(now)):
            if self._over_rate.add(data, at, at + size):  # as most of them
                self.open.before_leaving(self._over_rate.count)
            return None
        return self.begin_whole(client, data, at, size, waits)

    def _is_over_rate(self, now: float) -> bool:
        if not (wait_s := self.open.wait_s):
            return False  # a request that came earlier may be shown later: it has waited for a limit, or in a queue
        self._over_until = now + wait_s
        return True

    def _allows(self, client: Client) -> bool:
        return self.open.filter.allows_client(client.client_id, client.principal)

    def _skip(self, data: bytes, at: int, end: int) -> None:
        """Count what of a small Produce request would have been shown."""
        walk = ProduceWalk(self.version)
        walk.try_feed(data, at, end, True)
        if number := sum(row.count for row in walk.rows if self.wants(row.key, row.index)):
            self.open.skip(number)

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return (_Produced if self.key == ApiKey.PRODUCE else _Fetched)(self, client)

    def begin_whole(self, client: Client, data: bytes, at: int, size: int, waits: object) -> Watch | None:
        """Watch a request that is all here."""
        watch = (_Produced if self.key == ApiKey.PRODUCE else _Fetched)(self, client)
        watch.request(data, at, at + size, True)
        if waits is None:
            watch.unanswered()
            return None
        return watch if watch.is_needed else None


class FilteredTap(RecordsTap, GlancingTap):
    """A tap with filters: requests of other clients and topics cost what they cost without it."""

    __slots__ = ()

    def glance(self, client: Client, data: bytes, at: int, size: int) -> Seen:
        return glance(self.open.filter, self.reader.name_of, self.key, self.version, client, data, at, size)


class Frame:
    """A frame of which the records are looked for, as it passes: what it has, and its copy if lines are granted."""

    __slots__ = ("_batches", "_copy", "_tap", "_walk", "size")

    def __init__(self, tap: RecordsTap, walk: Any) -> None:
        self._tap = tap
        self._walk = walk
        self._batches = 0
        self._copy: Copy | None = None
        self.size = -1  # not known yet

    def add(self, data: bytes, start: int, end: int, last: bool) -> list[Any] | None:
        """Take a piece. At the end: the rows of its batches."""
        if self.size < 0:
            self.size = int.from_bytes(data[start : start + 4], "big") + 4
            if not last and self._tap.open.has_left:
                self._copy = self._tap.reader.copy_of(self.size)
        if self._copy is not None:
            self._copy.parts.append(data[start:end])
        rows = self._count(data, start, end, last)
        return rows if last else None

    def copy(self, data: bytes, start: int, end: int) -> Copy | None:
        """What was copied, or is now if data[start:end] is all of it."""
        if self._copy is None and end - start == self.size and self._tap.open.has_left:
            self._copy = self._tap.reader.copy_of(self.size)
            if self._copy is not None:
                self._copy.parts.append(data[start:end])
        return self._copy

    def _count(self, data: bytes, start: int, end: int, last: bool) -> list[Any]:
        walk = self._walk
        for at in range(start, end, SLICE_BYTES):
            if self._batches > MAX_BATCHES:
                break
            here = min(at + SLICE_BYTES, end)
            walk.try_feed(data, at, here, last and here == end)
            self._batches = len(walk.rows)
        return list(walk.rows) if last else []


class _Records(Watch):
    """A request of which records are shown."""

    __slots__ = ("_client", "_frame", "_tap")

    def __init__(self, tap: RecordsTap, client: Client) -> None:
        super().__init__()
        self._tap = tap
        self._client = client
        self._frame: Frame | None = None

    @property
    def is_needed(self) -> bool:
        """Whether the response matters."""
        return True

    def _add(self, walk: Callable[[], Any], data: bytes, start: int, end: int, last: bool) -> None:
        """Take a piece of the frame that has the records."""
        if self._frame is None:
            self._frame = Frame(self._tap, walk())
        found = self._frame.add(data, start, end, last)
        if found is None:
            return
        frame, self._frame, tap = self._frame, None, self._tap
        wanted = [row for row in found if tap.wants(*_partition(row))]
        number = sum(_count(row) for row in wanted)
        if not number:
            return
        copy = frame.copy(data, start, end)
        if copy is None:
            tap.open.skip(number)
        elif most := tap.open.grant(number):
            self._read(copy, most, wanted)

    def _read(self, copy: Copy, most: int, rows: list[Any]) -> None:
        """Read the lines that are granted; ``rows``: of the batches that are wanted."""
        frame, reader = copy.frame, self._tap.reader
        topics = {_partition(row)[0] for row in rows}
        read = partial(self._reading(frame), wants=self._tap.wants, most=most, show=self._tap.show)
        if len(frame) <= MAX_INLINE_BYTES and all(reader.name_of(key) is not None for key in topics):
            try:
                self._shown(_tried(partial(read, room=INLINE)))
            except TooLargeError:
                pass
            else:
                return
        reader.read_later(copy, topics, partial(_tried, partial(read, room=IN_THREAD)), self._shown)

    def _reading(self, frame: bytes) -> Callable[..., list[Shown]]:
        raise NotImplementedError

    def _shown(self, found: list[Shown]) -> None:
        raise NotImplementedError

    def _emit(self, found: list[Shown], error: int | None = None) -> None:
        tap = self._tap
        common = {"kind": "record", "at_ms": int(time.time() * 1000), "direction": tap.direction}
        client = client_of(self._client)
        for one in found:
            name = tap.reader.name_of(one.key)
            place = {"topic": name, "partition": one.index, "error_code": error}
            if name is None:
                place["topic_id"] = one.key.hex() if isinstance(one.key, bytes) else None
            for line in one.lines:
                tap.open.add({**common, **place, **line, **client})


def _partition(row: Any) -> tuple[Key, int]:
    """Topic and partition of a walk's row."""
    return (row[0], row[1]) if isinstance(row, tuple) else (row.key, row.index)


def _count(row: Any) -> int:
    """Its records."""
    number: int = row[3] if isinstance(row, tuple) else row.count
    return number


def _tried(read: Callable[[], list[Shown]]) -> list[Shown]:
    """What cannot be read shows nothing: brokers and clients reject it too."""
    try:
        return read()
    except (CodecError, UnicodeDecodeError):
        return []


class _Produced(_Records):
    """A Produce request: its lines wait for the offsets in the response."""

    __slots__ = ("_found", "_outcome", "_parts", "_rows")

    def __init__(self, tap: RecordsTap, client: Client) -> None:
        super().__init__(tap, client)
        self._found: list[Shown] | None = None  # once it was read
        self._outcome: dict[tuple[Key, int], tuple[int, int]] | None = None  # error and first offset, once known
        self._rows: list[Sent] = []
        self._parts: list[bytes] = []  # of the response

    @property
    def is_needed(self) -> bool:
        return bool(self._rows)

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        self._add(partial(ProduceWalk, self._tap.version), data, start, end, last)

    def _read(self, copy: Copy, most: int, rows: list[Any]) -> None:
        self._rows = rows
        super()._read(copy, most, rows)

    def _reading(self, frame: bytes) -> Callable[..., list[Shown]]:
        return partial(read_produced, frame)

    def _shown(self, found: list[Shown]) -> None:
        self._found = found
        self._show_all()

    def unanswered(self) -> None:
        self._settle({})

    def lost(self, why: str) -> None:
        self._settle({})

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        if not last or self._parts:
            if sum(map(len, self._parts)) <= MAX_ACKNOWLEDGED_BYTES:
                self._parts.append(data[start:end])
            if not last:
                return
            data = b"".join(self._parts)
            self._parts, start, end = [], 0, len(data)
        with suppress(CodecError):
            acknowledge(self._rows, data, start, end, self._tap.version)
        answered = (one for one in self._rows if one.error != NOT_ANSWERED)
        self._settle({(one.key, one.index): (one.error, one.base_offset) for one in answered})

    def _settle(self, outcome: dict[tuple[Key, int], tuple[int, int]]) -> None:
        if self._outcome is None:
            self._outcome = outcome
            self._show_all()

    def _show_all(self) -> None:
        """Once both the records and their offsets are there."""
        if self._found is None or self._outcome is None:
            return
        found, self._found = self._found, None
        for one in found:
            error, base = self._outcome.get((one.key, one.index), (None, -1))
            for line in one.lines:
                if "offset" in line:
                    line["offset"] = line["offset"] + base if not error and base >= 0 else None
            self._emit([one], error)


class _Fetched(_Records):
    """A request to Fetch or ShareFetch: its records are in the response."""

    __slots__ = ("_is_committed_only", "_offsets", "_parts", "_positions")

    def __init__(self, tap: RecordsTap, client: Client) -> None:
        super().__init__(tap, client)
        self._offsets = Offsets()
        self._positions: Positions = {}
        self._is_committed_only = False
        self._parts: list[bytes] = []

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        if self._tap.key != ApiKey.FETCH or end - start + sum(map(len, self._parts)) > MAX_POSITIONS_BYTES:
            return
        if not last or self._parts:
            self._parts.append(data[start:end])
            if not last:
                return
            data = b"".join(self._parts)
            self._parts, start, end = [], 0, len(data)
        positions = FetchPositions(self._tap.version)
        try:
            positions.read(data, start, end)
        except CodecError:
            return
        self._offsets, self._is_committed_only = positions.offsets, positions.isolation_level == 1

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        if self._client.has_closed:
            return
        self._add(self._walk, data, start, end, last)

    def _walk(self) -> FetchWalk | ShareFetchWalk:
        version = self._tap.version
        if self._tap.key == ApiKey.SHARE_FETCH:
            return ShareFetchWalk(version)
        return FetchWalk(version, self._offsets, self._is_committed_only, ALL_TIME_MS, ALL_TIME_MS)

    def _reading(self, frame: bytes) -> Callable[..., list[Shown]]:
        return partial(
            read_fetched, frame, self._tap.key, self._tap.version, positions=_Positions(self._offsets),
            is_committed_only=self._is_committed_only,
        )  # fmt: skip

    def _shown(self, found: list[Shown]) -> None:
        self._emit(found)


class _Positions(dict[tuple[Key, int], int]):
    """Offsets by topic and partition, which are looked for when they are needed."""

    def __init__(self, offsets: Offsets) -> None:
        super().__init__()
        self._offsets = offsets

    def get(self, key: tuple[Key, int], default: Any = 0) -> Any:
        return self._offsets.get(*key)


TAPPED = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH)


def records_tap(open_tap: OpenTap, reader: Reader, key: int, version: int) -> Tap | None:
    """What watches requests of this API and version; None: they have no records that are wanted."""
    if key not in TAPPED or (key == ApiKey.FETCH and version < OLDEST_FETCH):
        return None
    is_filtered = open_tap.filter.is_of_clients_or_topics
    tap = (FilteredTap if is_filtered else RecordsTap)(open_tap, reader, key, version)
    return tap if open_tap.filter.allows("direction", tap.direction) else None
