"""Show the meter what passes: requests of any API, batches of Produce requests, and those of Fetch responses.

A client that no limit is for costs one comparison. Topics that no limit counts are found by the beginning of their
requests, as `relay.routes.PrefixMemo` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.fetch_counts import FetchWalk, ShareFetchWalk
from kafka_sidecar.codec.fetch_positions import Offsets
from kafka_sidecar.codec.glance import glance_produce
from kafka_sidecar.codec.produce_counts import ProduceWalk
from kafka_sidecar.proxy.features.rate_limits.limits import Amount, ClientLimits
from kafka_sidecar.proxy.features.rate_limits.meter import Meter
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
MAX_BATCHES = 5_000
ALL_TIME_MS = 1 << 50
MAX_GLANCED = 1000  # partitions of a Produce request that are looked at to see whether a limit counts it


class Sums:
    """Bytes and records of the batches of one request or response, by topic."""

    __slots__ = ("_meter", "amounts")

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.amounts: dict[str, Amount] = {}

    def add(self, rows: Iterable[tuple[str | bytes, int, int]]) -> None:
        """Topics as frames have them, bytes and records of batches."""
        last: str | bytes | None = None
        topic, size, records = "", 0, 0
        for key, more_bytes, more_records in rows:
            if key is not last:
                self._keep(topic, size, records)
                topic, last = self._meter.topic_of(key), key
                size, records = self.amounts.get(topic, (0, 0))
            size += more_bytes
            records += more_records
        self._keep(topic, size, records)

    def _keep(self, topic: str, size: int, records: int) -> None:
        if size:
            self.amounts[topic] = Amount(size, records)


class RequestTap(Tap):
    """Counts requests of one API and version."""

    __slots__ = ("meter", "version")

    def __init__(self, meter: Meter, version: int) -> None:
        self.meter = meter
        self.version = version

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return RequestWatch(self, client)

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        limits = self.meter.limits_of(client)
        if not self._is_counted(limits, data, at, size):
            return None
        watch = self.begin(client, state, now)
        if len(data) >= at + size:
            watch.request(data, at, at + size, True)
        else:  # a client is muted between two requests: a broker waits for the end of one
            frames.edit(WatchedRequest(watch, True))
        return watch if self._wants_response(limits) else None

    def _is_counted(self, limits: ClientLimits, data: bytes, at: int, size: int) -> bool:
        return bool(limits.requests)

    def _wants_response(self, limits: ClientLimits) -> bool:
        return False


class RequestWatch(SizedWatch):
    """One request."""

    __slots__ = ("_client", "_tap")

    def __init__(self, tap: RequestTap, client: Client) -> None:
        super().__init__()
        self._tap = tap
        self._client = client

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        if last:
            meter = self._tap.meter
            meter.requested(self._client, meter.limits_of(self._client))


class ProduceTap(RequestTap):
    """Counts what clients send in Produce requests of one version."""

    __slots__ = ()

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return ProduceWatch(self, client)

    def _is_counted(self, limits: ClientLimits, data: bytes, at: int, size: int) -> bool:
        if limits.requests:
            return True
        if not limits.produce:
            return False
        head = limits.heads.get(self.version)
        if head is not None and data.startswith(head, at + CLIENT_ID_AT):
            return False
        named, end = glance_produce(data, at, size, self.version, MAX_GLANCED)
        topics = [self.meter.topic_of(key) for key in named]
        if not topics or not all(topics) or any(map(limits.count_topic, topics)):
            return True
        # Of several topics the records of the first would be part of the beginning.
        if len(topics) == 1 and len(beginning := data[at + CLIENT_ID_AT : end]) <= MAX_HEAD_BYTES:
            limits.heads[self.version] = beginning
        return False


class ProduceWatch(RequestWatch):
    """One Produce request."""

    __slots__ = ("_batches", "_sums", "_walk")

    def __init__(self, tap: ProduceTap, client: Client) -> None:
        super().__init__(tap, client)
        self._walk = ProduceWalk(tap.version)
        self._sums = Sums(tap.meter)
        self._batches = 0

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        walk = self._walk
        walk.skip = self.skip
        for at in range(start, end, SLICE_BYTES):
            if self._batches > MAX_BATCHES:
                break
            here = min(at + SLICE_BYTES, end)
            walk.try_feed(data, at, here, last and here == end)  # what cannot be read a broker rejects
            rows = walk.take_rows()
            self._batches += len(rows)
            self._sums.add((one.key, one.size, one.count) for one in rows)
        self.skip = walk.skip
        if last:
            super().request(data, start, end, last)
            self._tap.meter.produced(self._client, self._sums.amounts)


class RecordsWatch(RequestWatch):
    """One request whose response has records."""

    __slots__ = ("_walk",)

    _walk: FetchWalk | ShareFetchWalk

    def begins(self, size: int) -> None:
        meter = self._tap.meter
        meter.expect(self._client, meter.limits_of(self._client), size)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        walk = self._walk
        walk.skip = self.skip
        walk.try_feed(data, start, end, last)
        self.skip = walk.skip
        if last and walk.rows:
            sums = Sums(self._tap.meter)
            sums.add(self._rows())
            self._tap.meter.consumed(self._client, sums.amounts)

    def _rows(self) -> Iterator[tuple[str | bytes, int, int]]:
        raise NotImplementedError


class FetchTap(RequestTap):
    """Counts what clients get in Fetch responses of one version."""

    __slots__ = ()

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return FetchWatch(self, client)

    def _is_counted(self, limits: ClientLimits, data: bytes, at: int, size: int) -> bool:
        return bool(limits.requests or limits.consume)

    def _wants_response(self, limits: ClientLimits) -> bool:
        return bool(limits.consume)


class FetchWatch(RecordsWatch):
    """One Fetch request and its response."""

    __slots__ = ()

    def __init__(self, tap: FetchTap, client: Client) -> None:
        super().__init__(tap, client)
        # All that is in the response, whatever was asked for; batches that follow each other as one.
        self._walk = FetchWalk(tap.version, Offsets(), bucket_ms=ALL_TIME_MS, now_ms=ALL_TIME_MS)

    def _rows(self) -> Iterator[tuple[str | bytes, int, int]]:
        return ((one.key, one.size, one.count) for one in self._walk.rows)


class ShareFetchTap(FetchTap):
    """The same of ShareFetch (KIP-932)."""

    __slots__ = ()

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return ShareFetchWatch(self, client)


class ShareFetchWatch(RecordsWatch):
    """One ShareFetch request and its response, which has whole batches."""

    __slots__ = ()

    def __init__(self, tap: ShareFetchTap, client: Client) -> None:
        super().__init__(tap, client)
        self._walk = ShareFetchWalk(tap.version)

    def _rows(self) -> Iterator[tuple[str | bytes, int, int]]:
        return ((row[0], row[4], row[3]) for row in self._walk.rows)


WITH_RECORDS: dict[int, Callable[[Meter, int], RequestTap]] = {
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
        return make(meter, version)
    return RequestTap(meter, version) if any(limit.counts_requests for limit in rules) else None
