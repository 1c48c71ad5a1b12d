"""Records and bytes by topic and API, of batch headers, while a reader wants them.

They are no metrics: a sidecar that relays does not look into requests for a count that has no reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.fetch_counts import FetchWalk, ShareFetchWalk
from kafka_sidecar.codec.fetch_positions import Offsets
from kafka_sidecar.codec.produce_counts import ProduceWalk
from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.watch import Tap, Watch, WatchedRequest
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.server.admin.live.looking import Looking
from kafka_sidecar.proxy.server.admin.waiting_frames import WaitingFrames
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.metrics import Family, counter

MAX_TOPICS = 2000  # of one API; the rest is counted as one
MAX_RESOLVED = 100  # ids of topics whose names are requested for one sample
OTHERS = "(others)"
# A frame of more batches than any honest one has is not read on: it would take the turns of others.
SLICE_BYTES = 256 << 10  # what a socket is read by
MAX_BATCHES = 4_000
ALL_TIME_MS = 1 << 50

Key = str | bytes  # a topic's name or id
Walk = ProduceWalk | FetchWalk | ShareFetchWalk
Counts = dict[Key, list[int]]  # records and bytes


class Traffic:
    """What has passed since the first reader."""

    def __init__(self, server: Server) -> None:
        self._topics = server.topics
        self._counts: dict[int, Counts] = {}  # by API
        self._counting: dict[tuple[int, int], Counting] = {}  # by API and version
        self._looking = Looking(server, self.tap, self._forget)

    def tap(self, key: int, version: int) -> Tap | None:
        """What counts the records of this API and version, if it has any."""
        if key not in TAPS:
            return None
        make_walk, make_tap = TAPS[key]
        if (counting := self._counting.get((key, version))) is None:
            counts = self._counts.setdefault(key, {})
            counting = self._counting[key, version] = Counting(counts, partial(make_walk, version))
        return make_tap(counting)

    def _forget(self) -> None:
        self._counts.clear()
        self._counting.clear()

    def look(self) -> None:
        """A reader wants it: count from here on."""
        self._looking.extend()

    @property
    def topics(self) -> list[str]:
        """Names of topics with traffic, those with the most bytes first."""
        total: dict[str, int] = {}
        for (topic, _), (_, size) in self._by_name().items():
            total[topic] = total.get(topic, 0) + size
        return sorted(total, key=lambda one: -total[one])

    def families(self) -> Iterator[Family]:
        """As metrics are, so that their rates are computed alike."""
        self._count_waiting()
        self._resolve()
        counts = self._by_name()
        records, sizes = ({key: one[index] for key, one in counts.items()} for index in (0, 1))
        yield counter("records", "Records that have passed since a reader wants to know", records, "topic", "api_key")
        yield counter("record_bytes", "Bytes of their batches, compressed", sizes, "topic", "api_key")

    def _by_name(self) -> dict[tuple[str, str], list[int]]:
        self._count_waiting()
        found: dict[tuple[str, str], list[int]] = {}
        for api, counts in self._counts.items():
            for key, (records, size) in counts.items():
                name = key if isinstance(key, str) else self._topics.name_of(key) or OTHERS
                total = found.setdefault((name, APIS[api].name), [0, 0])
                total[0] += records
                total[1] += size
        return found

    def _count_waiting(self) -> None:
        for counting in self._counting.values():
            counting.frames.count()

    def _resolve(self) -> None:
        """Request the names of topics that are known by their ids alone."""
        unknown = [
            key
            for counts in self._counts.values()
            for key in counts
            if isinstance(key, bytes) and self._topics.name_of(key) is None
        ]
        if unknown:
            spawn(self._request(unknown[:MAX_RESOLVED]), "request names of topics for a reader of /live")

    async def _request(self, ids: list[bytes]) -> None:
        try:
            await self._topics.resolve(ids)
        except (OSError, CodecError):
            return  # the next sample tries again


def entry(counts: Counts, key: Key) -> list[int]:
    """Where a topic is counted; of names that clients choose so many at most."""
    if key not in counts and (len(counts) >= MAX_TOPICS or (isinstance(key, str) and not is_topic_name(key))):
        key = OTHERS
    return counts.setdefault(key, [0, 0])


class Counting:
    """Frames of one API and version that are counted, whole ones several at once."""

    __slots__ = ("_counts", "frames", "open")

    def __init__(self, counts: Counts, open_walk: Callable[[], Walk]) -> None:
        self._counts = counts
        self.open = open_walk  # begins to read a frame: all that is in it, whatever was asked for
        self.frames = WaitingFrames(self._count)  # of `SLICE_BYTES` at most

    def _count(self, data: bytes, start: int, end: int) -> None:
        walk = self.open()
        walk.try_feed(data, start, end, True)
        self.take(walk)

    def take(self, walk: Walk) -> int:
        """Count the rows that were read; how many there are."""
        counts = self._counts
        rows = walk.take_rows()
        for row in rows:
            key, records, size = (row[0], *row[3:5]) if isinstance(row, tuple) else (row.key, row.count, row.size)
            if (total := counts.get(key)) is None:
                total = entry(counts, key)
            total[0] += records
            total[1] += size
        return len(rows)


class FrameWatch(Watch):
    """A request or a response, whichever has the records, that comes in pieces."""

    __slots__ = ("_batches", "_counting", "_walk")

    def __init__(self, counting: Counting) -> None:
        super().__init__()
        self._counting = counting
        self._walk: Walk | None = None
        self._batches = 0

    def count(self, data: bytes, start: int, end: int, last: bool) -> None:
        """Count a piece of the frame."""
        if last and self._walk is None and end - start <= SLICE_BYTES:
            self._counting.frames.add(data, start, end)
            return
        if self._walk is None:
            self._walk = self._counting.open()
        for at in range(start, end, SLICE_BYTES):
            if self._batches > MAX_BATCHES:
                return
            self._walk.try_feed(data, at, min(at + SLICE_BYTES, end), False)
            if self._walk.rows:
                self._batches += self._counting.take(self._walk)


class ProduceTap(Tap):
    """Counts what clients send in Produce requests of one version, whatever becomes of it."""

    __slots__ = ("_counting",)

    def __init__(self, counting: Counting) -> None:
        self._counting = counting

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return ProduceWatch(self._counting)

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        if len(data) < at + size:
            frames.edit(WatchedRequest(ProduceWatch(self._counting), True))
        elif size <= SLICE_BYTES:
            self._counting.frames.add(data, at, at + size)
        else:
            ProduceWatch(self._counting).request(data, at, at + size, True)
        return None


class ProduceWatch(FrameWatch):
    """One Produce request; its response does not matter."""

    __slots__ = ()

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        self.count(data, start, end, last)

    def show_response(self, frames: Frames, data: bytes, at: int, size: int, now: float) -> None:
        """It does not matter."""


class FetchTap(Tap):
    """Counts what clients get in responses to Fetch or ShareFetch (KIP-932) of one version."""

    __slots__ = ("_counting",)

    def __init__(self, counting: Counting) -> None:
        self._counting = counting

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return FetchWatch(self._counting)

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        return FetchWatch(self._counting)


class FetchWatch(FrameWatch):
    """One such request, which does not matter, and its response."""

    __slots__ = ()

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        self.count(data, start, end, last)


def _fetch_walk(version: int) -> FetchWalk:
    """With as few rows as there may be."""
    return FetchWalk(version, NO_OFFSETS, False, ALL_TIME_MS, ALL_TIME_MS)


NO_OFFSETS = Offsets()
TAPS: Mapping[int, tuple[Callable[[int], Walk], Callable[[Counting], Tap]]] = {
    ApiKey.PRODUCE: (ProduceWalk, ProduceTap),
    ApiKey.FETCH: (_fetch_walk, FetchTap),
    ApiKey.SHARE_FETCH: (ShareFetchWalk, FetchTap),
}
