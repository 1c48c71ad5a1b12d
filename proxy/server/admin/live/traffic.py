"""Records and bytes by topic and API, of batch headers, while a reader wants them.

They are no metrics: a sidecar that relays does not look into requests for a count that has no reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
Counts = dict[Key, list[int]]  # records and bytes


class Traffic:
    """What has passed since the first reader."""

    def __init__(self, server: Server) -> None:
        self._topics = server.topics
        self._counts: dict[int, Counts] = {}  # by API
        self._looking = Looking(server, self.tap, self._counts.clear)

    def tap(self, key: int, version: int) -> Tap | None:
        """What counts the records of this API and version, if it has any."""
        make = TAPS.get(key)
        return make(self._counts.setdefault(key, {}), version) if make is not None else None

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
        self._resolve()
        counts = self._by_name()
        records, sizes = ({key: one[index] for key, one in counts.items()} for index in (0, 1))
        yield counter("records", "Records that have passed since a reader wants to know", records, "topic", "api_key")
        yield counter("record_bytes", "Bytes of their batches, compressed", sizes, "topic", "api_key")

    def _by_name(self) -> dict[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], list[int]] = {}
        for api, counts in self._counts.items():
            for key, (records, size) in counts.items():
                name = key if isinstance(key, str) else self._topics.name_of(key) or OTHERS
                total = found.setdefault((name, APIS[api].name), [0, 0])
                total[0] += records
                total[1] += size
        return found

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


def add(counts: Counts, key: Key, records: int, size: int) -> None:
    """Count batches of a topic."""
    total = entry(counts, key)
    total[0] += records
    total[1] += size


class ProduceTap(Tap):
    """Counts what clients send in Produce requests of one version, whatever becomes of it."""

    __slots__ = ("counts", "version")

    def __init__(self, counts: Counts, version: int) -> None:
        self.counts = counts
        self.version = version

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return ProduceWatch(self)

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        if size <= SLICE_BYTES and len(data) >= at + size:
            walk = ProduceWalk(self.version)
            walk.try_feed(data, at, at + size, True)
            counts = self.counts
            for one in walk.rows:
                if (total := counts.get(one.key)) is None:
                    total = entry(counts, one.key)
                total[0] += one.count
                total[1] += one.size
        elif len(data) >= at + size:
            ProduceWatch(self).request(data, at, at + size, True)
        else:
            frames.edit(WatchedRequest(ProduceWatch(self), True))
        return None


class ProduceWatch(Watch):
    """One Produce request; its response does not matter."""

    __slots__ = ("_batches", "_tap", "_walk")

    def __init__(self, tap: ProduceTap) -> None:
        super().__init__()
        self._tap = tap
        self._walk = ProduceWalk(tap.version)
        self._batches = 0

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        walk = self._walk
        for at in range(start, end, SLICE_BYTES):
            if self._batches > MAX_BATCHES:
                return
            walk.try_feed(data, at, min(at + SLICE_BYTES, end), False)
            rows = walk.take_rows()
            self._batches += len(rows)
            for one in rows:
                add(self._tap.counts, one.key, one.count, one.size)

    def show_response(self, frames: Frames, data: bytes, at: int, size: int, now: float) -> None:
        """It does not matter."""


class FetchTap(Tap):
    """Counts what clients get in Fetch responses of one version."""

    __slots__ = ("counts", "version")

    def __init__(self, counts: Counts, version: int) -> None:
        self.counts = counts
        self.version = version

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return FetchWatch(self)

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        return FetchWatch(self)

    def open(self) -> FetchWalk | ShareFetchWalk:
        """Begin to read a response: all that is in it, whatever was asked for, as few rows as there may be."""
        return FetchWalk(self.version, NO_OFFSETS, False, ALL_TIME_MS, ALL_TIME_MS)

    def count(self, walk: FetchWalk | ShareFetchWalk) -> int:
        """Count the rows that were read; how many there are."""
        rows = walk.take_rows()
        for one in rows:
            add(self.counts, one.key, one.count, one.size)
        return len(rows)


class FetchWatch(Watch):
    """One Fetch request, which does not matter, and its response."""

    __slots__ = ("_batches", "_tap", "_walk")

    def __init__(self, tap: FetchTap) -> None:
        super().__init__()
        self._tap = tap
        self._walk: FetchWalk | ShareFetchWalk | None = None
        self._batches = 0

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        walk = self._walk
        if walk is None:
            walk = self._walk = self._tap.open()
        for at in range(start, end, SLICE_BYTES):
            if self._batches > MAX_BATCHES:
                return
            walk.try_feed(data, at, min(at + SLICE_BYTES, end), False)
            if walk.rows:
                self._batches += self._tap.count(walk)


class ShareFetchTap(FetchTap):
    """The same of ShareFetch (KIP-932)."""

    __slots__ = ()

    def open(self) -> FetchWalk | ShareFetchWalk:
        return ShareFetchWalk(self.version)

    def count(self, walk: FetchWalk | ShareFetchWalk) -> int:
        rows = walk.take_rows()
        for key, _, _, records, size, *_ in rows:
            add(self.counts, key, records, size)
        return len(rows)


NO_OFFSETS = Offsets()
TAPS: dict[int, Callable[[Counts, int], Tap]] = {
    ApiKey.PRODUCE: ProduceTap,
    ApiKey.FETCH: FetchTap,
    ApiKey.SHARE_FETCH: ShareFetchTap,
}
