"""The stages of a Fetch and a ShareFetch in which a feature looks into records, and may change or hide them.

each partition: its look --> inflated and seen in the loop, or in a thread --> replaced, hidden or withheld

In a ShareFetch (KIP-932), records that are acquired and not in the response are gaps to a share consumer: it
acknowledges them as such, and the group goes on (docs/decisions/0015). What is withheld must not look like a gap: it is
not among the acquired records, so no member acknowledges it, and the broker delivers it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Protocol

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.checkpoint import ThreadRequiredError
from kafka_sidecar.codec.errors import bare
from kafka_sidecar.codec.visibility import acquired_only, all_visible, committed_only
from kafka_sidecar.plugins.effects import Need, Steps, TimeLeft, TimeLimit, Work
from kafka_sidecar.proxy.exchanges.fetch import FetchedPartition, FetchStart, Stage, StageRun
from kafka_sidecar.proxy.exchanges.fetched_records import (
    UNCHANGED,
    Look,
    PartitionReading,
    Remaining,
    Report,
    WaitRequired,
)
from kafka_sidecar.proxy.exchanges.held_clients import HeldFetch, HiddenOffsets, shows_markers
from kafka_sidecar.proxy.exchanges.limits import DEFAULT_LIMITS
from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredPartition
from kafka_sidecar.proxy.exchanges.share_fetch import Stage as ShareFetchApiStage
from kafka_sidecar.proxy.exchanges.share_fetch import StageRun as ShareFetchApiRun
from kafka_sidecar.proxy.relay.exchange import Client

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
FETCH, SHARE_FETCH = "Fetch", "ShareFetch"
Show = Callable[[str, int], Look | None]  # makes the look at a topic's partition; None: there is nothing to do

# What became of an attempt: WaitRequired, ThreadRequiredError where it has to be made again.
Tried = Remaining | WaitRequired | ThreadRequiredError


class Looks(Protocol):
    """What a feature looks into, by topic."""

    @property
    def fail_closed(self) -> bool:
        """As `fetch.Stage.fail_closed`."""
        ...

    def wants(self, topic: str) -> bool:
        """Whether it looks into the records of this topic."""
        ...

    def hides(self, topic: str) -> bool:
        """Whether a client must not get records of this topic unseen."""
        ...

    def begin(self, client: Client, version: int, api: str) -> Show:
        """Begin with a request of this client."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchServices:
    """What these stages need of their sidecar."""

    name_of: Callable[[bytes], str | None]  # a topic's by its id, where it is known
    report: Report
    limit: int  # bytes that a batch may have when it is inflated
    hold_for: tuple[str, ...] = ()  # client ids of clients that would show control batches
    hides_unreadable: bool = True  # batches that cannot be looked into are dropped, where something is hidden
    max_records: int = DEFAULT_LIMITS.max_records  # that a fetched batch may have to be looked into
    hidden_offsets: HiddenOffsets = field(default_factory=HiddenOffsets)
    time_limit: TimeLimit = field(default_factory=lambda: TimeLimit("interception", inf, inf))  # of a request
    # Of a partition whose records are withheld, and what is waited for before its client gets that and asks again.
    withheld_error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    pause: Need | None = None

    def holds(self, client: Client, version: int) -> bool:
        """Whether a client would show a control batch to its application, so that it must not get ours."""
        return shows_markers(client, version, self.hold_for)


class FetchedStage(Stage):
    """The part of a feature's looks in Fetch requests."""

    def __init__(self, looks: Looks, services: FetchServices) -> None:
        self._looks = looks
        self._services = services

    @property
    def fail_closed(self) -> bool:
        return self._looks.fail_closed

    def wants(self, topic: str) -> bool:
        return self._looks.wants(topic)

    def hides(self, topic: str) -> bool:
        return self._looks.hides(topic)

    def relayed(self, client: Client, version: int, isolation_level: int) -> Callable[[], FetchedRun] | None:
        if self._services.holds(client, version):
            return None
        show = self._looks.begin(client, version, FETCH)
        return partial(FetchedRun, self._looks, self._services, client, version, show, isolation_level)

    def start(self, client: Client, version: int) -> FetchedRun:
        return FetchedRun(self._looks, self._services, client, version, self._looks.begin(client, version, FETCH))


class FetchedRun(StageRun):
    """The looks at one request's response."""

    restores = False

    __slots__ = (
        "_client", "_has_withheld", "_held", "_isolation_level", "_looks", "_services", "_show", "_time_left",
        "_version", "wants_empty",
    )  # fmt: skip

    def __init__(
        self, looks: Looks, services: FetchServices, client: Client, version: int, show: Show,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> None:  # fmt: skip
        """``isolation_level``: of a request that is not opened."""
        self._looks = looks
        self._services = services
        self._client = client
        self._version = version
        self._show = show
        self._isolation_level = isolation_level
        self._held: HeldFetch | None = None
        self._time_left: TimeLeft | None = None
        self._has_withheld = False
        self.wants_empty = False

    def open(self, frame: bytes, start: FetchStart) -> Steps[bytes]:
        services, client, version = self._services, self._client, self._version
        self._isolation_level = start.isolation_level
        # A request that continues a session does not name the offsets that it has named before.
        if start.continues_session or not services.holds(client, version):
            return frame
        self._held = HeldFetch(client, version, start.isolation_level, services.name_of, services.hidden_offsets)
        self.wants_empty = True
        return (yield from self._held.skip_hidden(frame))

    def wants(self, topic: str) -> bool:
        return self._looks.wants(topic)

    def partition(self, partition: FetchedPartition) -> Steps[None] | None:
        records, services, topic = partition.records, self._services, partition.topic
        if not len(records):
            if self._held is not None:
                self._held.answer_empty(partition)
            return None
        look = self._show(topic, partition.index)
        if look is None:
            self._settle(partition, UNCHANGED)
            return None
        is_committed_only = self._isolation_level == READ_COMMITTED
        reading = PartitionReading(
            look, topic, services.report, records,
            committed_only(partition.aborted_transactions()) if is_committed_only else all_visible,
            hides_unreadable=services.hides_unreadable, max_records=services.max_records,
        )  # fmt: skip
        consume = partial(reading.consume, services.limit)
        if self._held is not None:
            consume = partial(consume, marker=False, offset=self._held.offset_of(partition))
        done = try_at_once(look, reading, consume, records, services)
        if isinstance(done, Remaining):
            self._settle(partition, done)
            return None
        return self._consume_on(partition, reading, consume, done)

    def finish(self) -> Steps[None] | None:
        return self._finish() if self._held is not None or self._has_withheld else None

    def _finish(self) -> Steps[None]:
        if self._held is not None:
            yield from self._held.confirm()
        if self._has_withheld and self._services.pause is not None:
            yield self._services.pause

    def _consume_on(
        self,
        partition: FetchedPartition,
        reading: PartitionReading,
        consume: Callable[[], Remaining],
        tried: WaitRequired | ThreadRequiredError | None,
    ) -> Steps[None]:
        if self._time_left is None:
            self._time_left = self._services.time_limit.start()
        self._settle(partition, (yield from consume_in_thread(reading, consume, self._time_left, tried)))

    def _settle(self, partition: FetchedPartition, remaining: Remaining) -> None:
        if remaining.records is not None:
            partition.replace(remaining.records)
        if remaining.records is not None and not remaining.records:
            if remaining.following is not None and self._held is not None:
                self._held.hide(partition, remaining.following)
            elif remaining.withheld_from is not None:  # the log says why; clients try again
                partition.error_code = self._services.withheld_error
                self._has_withheld = True
        if self._held is not None:
            self._held.check(partition)


class SharedStage(ShareFetchApiStage):
    """The part of a feature's looks in ShareFetch requests."""

    def __init__(self, looks: Looks, services: FetchServices) -> None:
        self._looks = looks
        self._services = services

    def start(self, client: Client, version: int) -> SharedRun:
        return SharedRun(self._looks, self._services, self._looks.begin(client, version, SHARE_FETCH))


class SharedRun(ShareFetchApiRun):
    """The looks at one response."""

    restores = False

    __slots__ = ("_looks", "_services", "_show", "_time_left")

    def __init__(self, looks: Looks, services: FetchServices, show: Show) -> None:
        self._looks = looks
        self._services = services
        self._show = show
        self._time_left = services.time_limit.start()

    def wants(self, topic: str) -> bool:
        return self._looks.wants(topic)

    def partition(self, partition: AcquiredPartition) -> Steps[None]:
        services, records = self._services, partition.records
        look = self._show(partition.topic, partition.index)
        if look is None:
            return
        reading = PartitionReading(
            look, partition.topic, services.report, records, acquired_only(partition.acquired), api=SHARE_FETCH,
            hides_unreadable=services.hides_unreadable, max_records=services.max_records,
        )  # fmt: skip
        consume = partial(reading.consume, services.limit)
        done: Tried | None = try_at_once(look, reading, consume, records, services)
        if not isinstance(done, Remaining):
            done = yield from consume_in_thread(reading, consume, self._time_left, done)
        if done.records is not None:
            partition.replace(done.records)
        if done.withheld_from is None:
            return
        partition.release_from(done.withheld_from)
        if not partition.records:  # the log says why; clients try again
            partition.error_code = ErrorCode.UNKNOWN_SERVER_ERROR  # share consumers know few others
            if services.pause is not None:
                yield services.pause


def try_at_once(
    look: Look,
    reading: PartitionReading,
    consume: Callable[[], Remaining],
    records: bytes | memoryview,
    services: FetchServices,
) -> Tried | None:
    """What is left of records that do not take long. None: they do, and have not been looked into."""
    limit = look.bytes_at_once
    if len(records) > limit:
        return None
    return _tried(consume) if reading.inflate(min(services.limit, limit)) else None


def consume_in_thread(
    reading: PartitionReading,
    consume: Callable[[], Remaining],
    limit: TimeLeft,
    tried: WaitRequired | ThreadRequiredError | None = None,
) -> Steps[Remaining]:
    """What is left of records that take long, or for which a look is waiting; or if they take too long."""
    try:
        while True:
            if isinstance(tried, WaitRequired):
                yield tried.need(limit)
                reading.asked.add(tried.key)  # who asks for it again would ask for ever
            done: Tried = yield Work(partial(_tried, consume), is_light=reading.is_light, limit=limit)
            if isinstance(done, Remaining):
                return done
            tried = done
    except TimeoutError:
        return reading.time_out()


def _tried(consume: Callable[[], Remaining]) -> Tried:
    try:
        return consume()
    except (WaitRequired, ThreadRequiredError) as error:
        return bare(error)
