"""Show the meter what passes: requests of any API, batches of Produce requests, and those of Fetch responses.

A client that no limit is for costs one comparison. Topics that no limit counts are found by the beginning of their
requests, as `relay.routes.PrefixMemo` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.fetch_counts import FetchWalk, ShareFetchWalk
from kafka_sidecar.codec.fetch_positions import NO_SESSION, Offsets
from kafka_sidecar.codec.glance import glance_fetch, glance_produce
from kafka_sidecar.codec.produce_counts import ProduceWalk
from kafka_sidecar.proxy.features.rate_limits.limits import ClientLimits
from kafka_sidecar.proxy.features.rate_limits.meter import Meter, Row
from kafka_sidecar.proxy.relay.acks import CLIENT_ID_AT
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.routes import MAX_HEAD_BYTES
from kafka_sidecar.proxy.relay.watch import Tap, Watch, WatchedRequest
from kafka_sidecar.proxy.relay.watch_pairs import SizedWatch

# Answered before a client has a name, or while it gets one.
NOT_COUNTED = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
# So much of a request is read before it is seen whether it has more batches than any honest one, which has one for each
# partition: those that follow are not counted.
SLICE_BYTES = 64 << 10
MAX_BATCHES = 4_000
ALL_TIME_MS = 1 << 50
MAX_GLANCED = 1000  # partitions of a request that are looked at to see whether a limit counts it
NEW_SESSION = 0  # epoch (KIP-227)


def merge(into: list[Row], rows: Iterable[Row]) -> None:
    """Add rows; those of one topic that follow each other become one."""
    for row in rows:
        if into and into[-1][0] == row[0]:
            key, size, records = into.pop()
            row = key, size + row[1], records + row[2]
        into.append(row)


class RequestTap(Tap):
    """Counts requests of one API and version."""

    __slots__ = ("_key", "meter", "version")

    def __init__(self, meter: Meter, key: int, version: int) -> None:
        self.meter = meter
        self.version = version
        self._key = key << 16 | version

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return RequestWatch(self, client)

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        limits = client.limited
        if limits.__class__ is not ClientLimits or limits.rules is not self.meter.rules:
            limits = self.meter.limits_of(client)
        assert isinstance(limits, ClientLimits)
        if not self._counts(limits) or self._is_passed(limits, data, at, size):
            if not limits.requests:
                return None
            if len(data) >= at + size:
                self.meter.requested(client, limits, now)
            else:
                frames.edit(WatchedRequest(RequestWatch(self, client), True))
            return None
        if len(data) >= at + size and not self._wants_response:
            if limits.requests:
                self.meter.requested(client, limits, now)
            self._count(client, limits, data, at, at + size, now)
            return None
        watch = self.begin(client, state, now)
        if len(data) >= at + size:
            watch.request(data, at, at + size, True)
        else:  # a client is muted between two requests: a broker waits for the end of one
            frames.edit(WatchedRequest(watch, True))
        return watch if self._wants_response else None

    _wants_response = False  # whether it has the records that are counted

    def _counts(self, limits: ClientLimits) -> bool:
        """Whether any limit counts records of these requests, or of their responses."""
        return False

    def _is_passed(self, limits: ClientLimits, data: bytes, at: int, size: int) -> bool:
        """Whether a request is known to be only of topics that no limit counts."""
        return False

    def _count(self, client: Client, limits: ClientLimits, data: bytes, start: int, end: int, now: float) -> None:
        """Count the records of a request."""

    def count_whole(self, client: Client, data: bytes, start: int, end: int) -> None:
        """Count a request of which data[start:end] is all."""
        meter, limits = self.meter, self.meter.limits_of(client)
        now = meter.clock()
        if limits.requests:
            meter.requested(client, limits, now)
        if self._counts(limits) and not self._is_passed(limits, data, start, end - start):
            self._count(client, limits, data, start, end, now)

    def _as_the_last(self, limits: ClientLimits, data: bytes, at: int) -> bool | None:
        """What `_is_passed` has said of a request that begins alike; None: the last one has begun otherwise."""
        known = limits.heads.get(self._key)
        return known[1] if known is not None and data.startswith(known[0], at + CLIENT_ID_AT) else None

    def _note(self, limits: ClientLimits, head: bytes, is_passed: bool) -> None:
        if len(head) <= MAX_HEAD_BYTES:
            limits.heads[self._key] = head, is_passed


class RequestWatch(SizedWatch):
    """One request."""

    __slots__ = ("_client", "_tap")

    def __init__(self, tap: RequestTap, client: Client) -> None:
        Watch.__init__(self)
        self._tap = tap
        self._client = client

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        if last:
            meter = self._tap.meter
            if (limits := meter.limits_of(self._client)).requests:
                meter.requested(self._client, limits, meter.clock())


class ProduceTap(RequestTap):
    """Counts what clients send in Produce requests of one version."""

    __slots__ = ()

    def begin(self, client: Client, state: object, now: float) -> Watch:
        """The same for each request of a client: they come one after the other, and their responses do not matter."""
        watches = self.meter.limits_of(client).watches
        watch = watches.get(self._key)
        if watch is None or watch._tap is not self or watch._client is not client:
            watch = watches[self._key] = ProduceWatch(self, client)
        return watch

    def _counts(self, limits: ClientLimits) -> bool:
        return limits.produces

    def _is_passed(self, limits: ClientLimits, data: bytes, at: int, size: int) -> bool:
        if not limits.names_produced_topics:
            return False
        if (known := self._as_the_last(limits, data, at)) is not None:
            return known
        named, end = glance_produce(data, at, size, self.version, MAX_GLANCED)
        if not named or not all(map(limits.knows, named)):
            return False
        is_passed = not any(limits.produced(key).is_counted for key in named)
        if len(named) == 1:  # of several topics the records of the first would be part of the beginning
            self._note(limits, data[at + CLIENT_ID_AT : end], is_passed)
        return is_passed

    def _count(self, client: Client, limits: ClientLimits, data: bytes, start: int, end: int, now: float) -> None:
        if end - start <= SLICE_BYTES:
            walk = ProduceWalk(self.version)
            walk.try_feed(data, start, end, True)
            if len(rows := walk.rows) == 1:
                (one,) = rows
                self.meter.produced_one(client, limits, one.key, one.size, one.count, now)
            else:
                self.meter.produced(client, limits, [(one.key, one.size, one.count) for one in rows], now)
        else:
            ProduceWatch(self, client).count(data, start, end, True)


class ProduceWatch(RequestWatch):
    """The Produce requests of one client and version. It is shown all pieces of them: its `skip` stays 0."""

    __slots__ = ("_batches", "_rows", "_walk")

    def __init__(self, tap: ProduceTap, client: Client) -> None:
        super().__init__(tap, client)
        self._walk: ProduceWalk | None = None
        self._rows: list[Row] = []
        self._batches = 0

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        if last and self._walk is None:  # it is all here
            self._tap.count_whole(self._client, data, start, end)
            return
        super().request(data, start, end, last)
        self.count(data, start, end, last)

    def show_response(self, frames: Frames, data: bytes, at: int, size: int, now: float) -> None:
        """It does not matter."""

    def count(self, data: bytes, start: int, end: int, last: bool) -> None:
        """Count the records of a piece; what cannot be read a broker rejects."""
        walk, rows = self._walk, self._rows
        if walk is None:
            walk = self._walk = ProduceWalk(self._tap.version)
        for at in range(start, end, SLICE_BYTES):
            if self._batches > MAX_BATCHES:
                break
            here = min(at + SLICE_BYTES, end)
            walk.try_feed(data, at, here, last and here == end)
            batches = walk.take_rows()
            self._batches += len(batches)
            merge(rows, [(one.key, one.size, one.count) for one in batches])
        if last:
            self._walk, self._rows, self._batches = None, [], 0
            meter = self._tap.meter
            meter.produced(self._client, meter.limits_of(self._client), rows, meter.clock())


class FetchTap(RequestTap):
    """Counts what clients get in Fetch responses of one version."""

    __slots__ = ()

    _wants_response = True

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return FetchWatch(self, client)

    def _counts(self, limits: ClientLimits) -> bool:
        return limits.consumes

    def _is_passed(self, limits: ClientLimits, data: bytes, at: int, size: int) -> bool:
        """What continues a session names only what has changed; of one that began elsewhere everything is counted."""
        if not limits.names_consumed_topics:
            return False
        if (known := self._as_the_last(limits, data, at)) is not None:
            return known
        seen = glance_fetch(data, at, size, self.version, MAX_GLANCED)
        if seen is None or not all(map(limits.knows, seen.topics)):
            limits.session_is_counted = True
            return False
        is_counted = any(limits.consumed(key).is_counted for key in seen.topics)
        if seen.session_epoch == NEW_SESSION:
            limits.session_is_counted = is_counted
        elif seen.session_epoch != NO_SESSION:
            limits.session_is_counted = is_counted = is_counted or limits.session_is_counted
        elif len(seen.topics) == 1:
            self._note(limits, data[at + CLIENT_ID_AT : seen.named_to], not is_counted)
        return not is_counted


class FetchWatch(RequestWatch):
    """One Fetch request and its response."""

    __slots__ = ("_walk",)

    def __init__(self, tap: FetchTap, client: Client) -> None:
        super().__init__(tap, client)
        self._walk: FetchWalk | ShareFetchWalk | None = None

    def _open(self) -> FetchWalk | ShareFetchWalk:
        # All that is in the response, whatever was asked for; batches that follow each other are one row.
        return FetchWalk(self._tap.version, Offsets(), False, ALL_TIME_MS, ALL_TIME_MS)

    def begins(self, size: int) -> None:
        meter = self._tap.meter
        meter.expect(self._client, meter.limits_of(self._client), size)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        walk = self._walk
        if walk is None:
            walk = self._walk = self._open()
        walk.skip = self.skip
        walk.try_feed(data, start, end, last)
        self.skip = walk.skip
        if last and walk.rows:
            meter = self._tap.meter
            meter.consumed(self._client, self._rows(walk), meter.clock())

    def _rows(self, walk: FetchWalk | ShareFetchWalk) -> list[Row]:
        return [(one.key, one.size, one.count) for one in walk.rows]


class ShareFetchTap(FetchTap):
    """The same of ShareFetch (KIP-932), whose requests do not name what they may get."""

    __slots__ = ()

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return ShareFetchWatch(self, client)

    def _is_passed(self, limits: ClientLimits, data: bytes, at: int, size: int) -> bool:
        return False


class ShareFetchWatch(FetchWatch):
    """One ShareFetch request and its response, which has whole batches."""

    __slots__ = ()

    def _open(self) -> ShareFetchWalk:
        return ShareFetchWalk(self._tap.version)

    def _rows(self, walk: FetchWalk | ShareFetchWalk) -> list[Row]:
        return [(row[0], row[4], row[3]) for row in walk.rows]


WITH_RECORDS: dict[int, Callable[[Meter, int, int], RequestTap]] = {
    ApiKey.PRODUCE: ProduceTap,
    ApiKey.FETCH: FetchTap,
    ApiKey.SHARE_FETCH: ShareFetchTap,
}


def tap(meter: Meter, key: int, version: int) -> Tap | None:
    """What counts requests of this API and version; None: no limit does."""
    rules = [limit for limit in meter.rules if not limit.rejects]
    if key in NOT_COUNTED or not rules:
        return None
    if (make := WITH_RECORDS.get(key)) is not None:
        return make(meter, key, version)
    return RequestTap(meter, key, version) if any(limit.counts_requests for limit in rules) else None
