"""Show the meter what passes: requests of any API, batches of Produce requests, and those of Fetch responses.

What no limit counts is not shown at all: the beginning of a request says so, and of those that begin alike
(`relay.routes.PrefixMemo`).
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.fetch_counts import ShareFetchWalk
from kafka_sidecar.codec.fetch_positions import NO_SESSION
from kafka_sidecar.codec.glance import FetchGlance, glance_fetch, glance_produce
from kafka_sidecar.codec.record_sizes import RecordSizes
from kafka_sidecar.proxy.features.rate_limits.limits import ClientLimits
from kafka_sidecar.proxy.features.rate_limits.meter import Meter
from kafka_sidecar.proxy.relay.acks import CLIENT_ID_AT
from kafka_sidecar.proxy.relay.exchange import Client, Pass
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.routes import UNWATCHED, WATCHED, GlancingTap, Seen
from kafka_sidecar.proxy.relay.watch import Tap, Watch, WatchedRequest
from kafka_sidecar.proxy.relay.watch_pairs import SizedWatch

# Answered before a client has a name, or while it gets one.
NOT_COUNTED = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
# So much of a request is read before it is seen whether it has more batches than any honest one, which has one for each
# partition: those that follow are not counted.
SLICE_BYTES = 64 << 10
MAX_BATCHES = 4_000
MAX_GLANCED = 1000  # partitions of a request that are looked at to see whether a limit counts it
NEW_SESSION = 0  # epoch (KIP-227)
UNKNOWN = Seen(True)


class RequestTap(GlancingTap):
    """Counts requests of one API and version."""

    __slots__ = ("_key", "meter", "version")

    def __init__(self, meter: Meter, key: int, version: int) -> None:
        self.meter = meter
        self.version = version
        self._key = key << 16 | version

    def glance(self, client: Client, data: bytes, at: int, size: int) -> Seen:
        limits = self.meter.limits_of(client)
        if limits.requests:
            return WATCHED
        return self._glance(limits, data, at, size) if self._counts(limits) else UNWATCHED

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return RequestWatch(self, client)

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        limits = client.limited
        if limits.__class__ is not ClientLimits or limits.rules is not self.meter.rules:
            limits = self.meter.limits_of(client)
        if len(data) < at + size:  # a client is muted between two requests: a broker waits for the end of one
            watch = self.begin(client, state, now)
            frames.edit(WatchedRequest(watch, True))
            return watch if self._wants_response else None
        if limits.requests:
            self.meter.requested(client, limits, now)
        return self._count(client, limits, data, at, at + size, now)

    _wants_response = False  # whether it has the records that are counted

    def _counts(self, limits: ClientLimits) -> bool:
        """Whether any limit counts records of these requests, or of their responses."""
        return False

    def _glance(self, limits: ClientLimits, data: bytes, at: int, size: int) -> Seen:
        """Whether it counts those of one request."""
        return UNWATCHED

    def _count(
        self, client: Client, limits: ClientLimits, data: bytes, start: int, end: int, now: float
    ) -> Watch | None:
        """Count the records of a request that is all here, or watch its response."""
        return None


class RequestWatch(SizedWatch):
    """One request that comes in pieces."""

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

    __slots__ = ("_sizes",)

    def __init__(self, meter: Meter, key: int, version: int) -> None:
        super().__init__(meter, key, version)
        self._sizes = RecordSizes(version, True)  # of requests that are all here

    def begin(self, client: Client, state: object, now: float) -> Watch:
        """The same for each request of a client: they come one after the other, and their responses do not matter."""
        watches = self.meter.limits_of(client).watches
        watch = watches.get(self._key)
        if watch is None or watch._tap is not self or watch._client is not client:
            watch = watches[self._key] = ProduceWatch(self, client)
        return watch

    def _counts(self, limits: ClientLimits) -> bool:
        return limits.produces

    def _glance(self, limits: ClientLimits, data: bytes, at: int, size: int) -> Seen:
        if not limits.names_produced_topics:
            return WATCHED
        named, end = glance_produce(data, at, size, self.version, MAX_GLANCED)
        if not named or not all(map(limits.knows, named)):
            return UNKNOWN
        is_counted = any(limits.produced[key].is_counted for key in named)
        # Of several topics the records of the first would be part of the beginning.
        return Seen(is_counted, Pass(data[at + CLIENT_ID_AT : end]) if len(named) == 1 else None)

    def _count(
        self, client: Client, limits: ClientLimits, data: bytes, start: int, end: int, now: float
    ) -> Watch | None:
        if limits.produces:
            if end - start <= SLICE_BYTES:
                self.meter.produced(client, limits, self._sizes.whole(data, start, end), now)
            else:
                ProduceWatch(self, client).count(data, start, end, True)
        return None


class ProduceWatch(RequestWatch):
    """The Produce requests of one client and version. It is shown all pieces of them: its `skip` stays 0."""

    __slots__ = ("_sizes",)

    def __init__(self, tap: ProduceTap, client: Client) -> None:
        super().__init__(tap, client)
        self._sizes = RecordSizes(tap.version, True)

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        super().request(data, start, end, last)
        self.count(data, start, end, last)

    def show_response(self, frames: Frames, data: bytes, at: int, size: int, now: float) -> None:
        """It does not matter."""

    def count(self, data: bytes, start: int, end: int, last: bool) -> None:
        """Count the records of a piece; what cannot be read a broker rejects."""
        sizes = self._sizes
        for at in range(start, end, SLICE_BYTES):
            if sizes.batches > MAX_BATCHES:
                break
            here = min(at + SLICE_BYTES, end)
            sizes.try_feed(data, at, here, last and here == end)
        if last:
            meter = self._tap.meter
            meter.produced(self._client, meter.limits_of(self._client), sizes.take(), meter.clock())


class FetchTap(RequestTap):
    """Counts what clients get in Fetch responses of one version."""

    __slots__ = ()

    _wants_response = True

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return self._watch(client, self.meter.limits_of(client))

    def _watch(self, client: Client, limits: ClientLimits) -> Watch:
        """The same for each request of a client: their responses come one after the other."""
        watch: Watch | None = limits.watches.get(self._key)
        if not isinstance(watch, FetchWatch) or watch._tap is not self or watch._client is not client:
            watch = limits.watches[self._key] = FetchWatch(self, client)
        return watch

    def _counts(self, limits: ClientLimits) -> bool:
        return limits.consumes

    def _count(
        self, client: Client, limits: ClientLimits, data: bytes, start: int, end: int, now: float
    ) -> Watch | None:
        return self._watch(client, limits) if limits.consumes else None

    def _glance(self, limits: ClientLimits, data: bytes, at: int, size: int) -> Seen:
        """What continues a session names only what has changed; of one that began elsewhere everything is counted."""
        if not limits.names_consumed_topics:
            return WATCHED
        seen = glance_fetch(data, at, size, self.version, MAX_GLANCED)
        if seen is None or not all(map(limits.knows, seen.topics)):
            limits.session_is_counted = True
            return UNKNOWN
        is_counted = any(limits.consumed[key].is_counted for key in seen.topics)
        if seen.session_epoch == NEW_SESSION:
            limits.session_is_counted = is_counted
        elif seen.session_epoch != NO_SESSION:
            limits.session_is_counted = is_counted = is_counted or limits.session_is_counted
        return Seen(is_counted, self._alike(seen, is_counted, data, at, size))

    def _alike(self, seen: FetchGlance, is_counted: bool, data: bytes, at: int, size: int) -> Pass | None:
        """The later requests of which the same holds: without a session, or as long as one goes on."""
        head_at = at + CLIENT_ID_AT
        if seen.session_epoch == NO_SESSION:
            return Pass(data[head_at : seen.named_to]) if len(seen.topics) == 1 else None
        if not seen.goes_on or (seen.topics and not is_counted):  # another topic may be counted
            return None
        tail = b"" if is_counted else data[seen.topics_at : at + size]
        return Pass(data[head_at : seen.epoch_at], epoch=True, tail=tail)


class FetchWatch(RequestWatch):
    """The Fetch requests of one client and version, and their responses."""

    __slots__ = ("_sizes",)

    def __init__(self, tap: FetchTap, client: Client) -> None:
        super().__init__(tap, client)
        self._sizes = RecordSizes(tap.version, False)

    def begins(self, size: int) -> None:
        meter = self._tap.meter
        meter.expect(self._client, meter.limits_of(self._client), size)

    def show_response(self, frames: Frames, data: bytes, at: int, size: int, now: float) -> None:
        if len(data) < at + size:
            super().show_response(frames, data, at, size, now)
        elif rows := self._sizes.whole(data, at, at + size):
            self._tap.meter.consumed(self._client, rows, now)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        # All that is in the response, whatever was asked for.
        sizes = self._sizes
        sizes.skip = self.skip
        sizes.try_feed(data, start, end, last)
        self.skip = sizes.skip
        if last:
            self.skip = 0
            if rows := sizes.take():
                meter = self._tap.meter
                meter.consumed(self._client, rows, meter.clock())


class ShareFetchTap(FetchTap):
    """The same of ShareFetch (KIP-932), whose requests do not name what they may get."""

    __slots__ = ()

    def _watch(self, client: Client, limits: ClientLimits) -> Watch:
        return ShareFetchWatch(self, client)

    def _glance(self, limits: ClientLimits, data: bytes, at: int, size: int) -> Seen:
        return WATCHED


class ShareFetchWatch(RequestWatch):
    """One ShareFetch request and its response, which has whole batches."""

    __slots__ = ("_walk",)

    def __init__(self, tap: RequestTap, client: Client) -> None:
        super().__init__(tap, client)
        self._walk: ShareFetchWalk | None = None

    def begins(self, size: int) -> None:
        meter = self._tap.meter
        meter.expect(self._client, meter.limits_of(self._client), size)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        walk = self._walk
        if walk is None:
            walk = self._walk = ShareFetchWalk(self._tap.version)
        walk.skip = self.skip
        walk.try_feed(data, start, end, last)
        self.skip = walk.skip
        if last and walk.rows:
            meter = self._tap.meter
            meter.consumed(self._client, [(row[0], row[4], row[3]) for row in walk.rows], meter.clock())


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
