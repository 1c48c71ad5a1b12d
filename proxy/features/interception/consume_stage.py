"""The stages of a consumer: `on_consume` for each batch that it fetches, `pre_commit` and `on_commit` for its commits.

In a ShareFetch (KIP-932), records that are acquired and not in the response are gaps to a share consumer: it
acknowledges them as such, and the group goes on (docs/decisions/0015). What is withheld must not look like a gap: it is
not among the acquired records, so no member acknowledges it, and the broker delivers it again.

`pre_commit` is called before a commit is sent (KIP-547), `on_commit` once it has succeeded (KIP-42).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import bare
from kafka_sidecar.codec.visibility import acquired_only, all_visible, committed_only
from kafka_sidecar.interceptors.committing import Committers
from kafka_sidecar.interceptors.consuming import Consumers
from kafka_sidecar.interceptors.contract import Context, Interceptor, Offsets
from kafka_sidecar.interceptors.guard import ResolveRequired
from kafka_sidecar.plugins.effects import Need, Steps, TimeLeft, TimeLimit, Work
from kafka_sidecar.proxy.exchanges.commits import Stage as CommitApiStage
from kafka_sidecar.proxy.exchanges.fetch import FetchedPartition, Stage, StageRun
from kafka_sidecar.proxy.exchanges.fetch_requests import FetchStart
from kafka_sidecar.proxy.exchanges.held_clients import HeldFetch
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_CONSUMED_BYTES
from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredPartition
from kafka_sidecar.proxy.exchanges.share_fetch import Stage as ShareFetchApiStage
from kafka_sidecar.proxy.exchanges.share_fetch import StageRun as ShareFetchApiRun
from kafka_sidecar.proxy.features.interception.fetched_partition import PartitionReading, Remaining
from kafka_sidecar.proxy.features.interception.services import Services
from kafka_sidecar.proxy.relay.exchange import Client

MAX_INLINE_COMPRESSED_BYTES = 64 << 10  # of a partition's records, to be looked into while others wait
READ_COMMITTED = 1
NO_LIMIT = TimeLimit("interception", inf, inf)

Chains = Callable[[str], Consumers | None]  # by topic
API = "ShareFetch"


class ConsumeStage(Stage):
    """The interceptors of consumers that are current."""

    def __init__(self, chains: Chains, fail_closed: bool, services: Services) -> None:
        self._chains = chains
        self._fail_closed = fail_closed
        self._services = services

    @property
    def fail_closed(self) -> bool:
        return self._fail_closed

    def wants(self, topic: str) -> bool:
        return self._chains(topic) is not None

    def hides(self, topic: str) -> bool:
        chain = self._chains(topic)
        return chain is not None and chain.fail_closed

    def start(self, client: Client, version: int) -> ConsumeRun:
        return ConsumeRun(self._chains, self._services, client, version)


@dataclass(frozen=True, slots=True)
class InterceptorFetch(Need):
    """Call ``interceptor.resolve(key)``, once for all that ask for the same. Answered with nothing: call it again."""

    name: str
    interceptor: Interceptor
    key: object
    limit: TimeLeft | None = None


def consume_in_thread(
    reading: PartitionReading,
    consume: Callable[[], Remaining],
    limit: TimeLeft,
    waiting: ResolveRequired | None = None,
) -> Steps[Remaining]:
    """What is left of records that take long, or for which interceptors are waiting; or if they take too long."""
    try:
        while True:
            if waiting is not None:
                yield InterceptorFetch(waiting.name, waiting.interceptor, waiting.key, limit)
                reading.asked.add((waiting.name, waiting.key))  # one that asks for it again would ask for ever
            done: Remaining | ResolveRequired = yield Work(
                partial(_tried, consume), is_light=reading.is_light, limit=limit
            )
            if not isinstance(done, ResolveRequired):
                return done
            waiting = done
    except TimeoutError:
        return reading.give_up("timed_out")


def _tried(consume: Callable[[], Remaining]) -> Remaining | ResolveRequired:
    try:
        return consume()
    except ResolveRequired as error:
        return bare(error)


class ConsumeRun(StageRun):
    """The interceptors of one request's response."""

    restores = False

    __slots__ = (
        "_chains", "_client", "_context", "_held", "_isolation_level", "_services", "_time_left", "_version",
        "wants_empty",
    )  # fmt: skip

    _context: Context
    _isolation_level: int

    def __init__(self, chains: Chains, services: Services, client: Client, version: int) -> None:
        self._chains = chains
        self._services = services
        self._client = client
        self._version = version
        self._held: HeldFetch | None = None
        self._time_left: TimeLeft | None = None
        self.wants_empty = False

    def open(self, frame: bytes, start: FetchStart) -> Steps[bytes]:
        services, client, version = self._services, self._client, self._version
        self._isolation_level = start.isolation_level
        self._context = services.context(client, version)
        # A request that continues a session does not name the offsets that it has named before.
        if start.continues_session or not services.holds(client, version):
            return frame
        self._held = HeldFetch(client, version, start.isolation_level, services.name_of, services.hidden_offsets)
        self.wants_empty = True
        return (yield from self._held.skip_hidden(frame))

    def wants(self, topic: str) -> bool:
        return self._chains(topic) is not None

    def partition(self, partition: FetchedPartition) -> Steps[None] | None:
        records, services, topic = partition.records, self._services, partition.topic
        if not len(records):
            if self._held is not None:
                self._held.answer_empty(partition)
            return None
        chain = self._chains(topic)
        assert chain is not None
        is_committed_only = self._isolation_level == READ_COMMITTED
        reading = PartitionReading(
            chain, self._context, topic, partition.index, services.stats, records,
            committed_only(partition.aborted_transactions()) if is_committed_only else all_visible,
            hides_unreadable=services.hides_unreadable, max_records=services.max_records,
        )  # fmt: skip
        if len(records) <= MAX_INLINE_COMPRESSED_BYTES and reading.inflate(
            min(services.limit, MAX_INLINE_CONSUMED_BYTES)
        ):
            done = _tried(partial(self._consume, partition, reading))
            if isinstance(done, ResolveRequired):
                return self._consume_in_thread(partition, reading, done)
            self._settle(partition, done)
            return None
        return self._consume_in_thread(partition, reading)

    def finish(self) -> Steps[None] | None:
        return self._held.confirm() if self._held is not None else None

    def _consume_in_thread(
        self, partition: FetchedPartition, reading: PartitionReading, waiting: ResolveRequired | None = None
    ) -> Steps[None]:
        if self._time_left is None:
            self._time_left = self._services.time_limit.start()
        consume = partial(self._consume, partition, reading)
        self._settle(partition, (yield from consume_in_thread(reading, consume, self._time_left, waiting)))

    def _consume(self, partition: FetchedPartition, reading: PartitionReading) -> Remaining:
        if self._held is None:
            return reading.consume(self._services.limit)
        return reading.consume(self._services.limit, marker=False, offset=self._held.offset_of(partition))

    def _settle(self, partition: FetchedPartition, remaining: Remaining) -> None:
        if remaining.records is not None:
            partition.replace(remaining.records)
        if remaining.records is not None and not remaining.records:
            if remaining.following is not None and self._held is not None:
                self._held.hide(partition, remaining.following)
            elif remaining.withheld_from is not None:  # the log says why; clients try again
                partition.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        if self._held is not None:
            self._held.check(partition)


class CommitStage(CommitApiStage):
    """The interceptors of commits that are current."""

    def __init__(self, committers: Committers, counts: Counter[str], time_limit: TimeLimit = NO_LIMIT) -> None:
        self._committers = committers
        self._time_limit = time_limit
        self._counts = counts

    @property
    def counts(self) -> Counter[str]:
        return self._counts

    @property
    def wants_result(self) -> bool:
        return bool(self._committers.on_commit_guards)

    def pre_commit(self, offsets: Offsets) -> Offsets:
        return self._committers.pre_commit(offsets)

    def on_commit(self, offsets: Offsets) -> None:
        self._committers.on_commit(offsets)

    def takes_long(self, partitions: int) -> bool:
        return partitions > self._committers.pace.records_at_once or self._committers.pace.needs_thread

    def time_left(self) -> TimeLeft:
        return self._time_limit.start()


class ShareStage(ShareFetchApiStage):
    """The interceptors of consumers that are current."""

    def __init__(self, chains: Callable[[str], Consumers | None], services: Services) -> None:
        self._chains = chains
        self._services = services

    def start(self, client: Client, version: int) -> ShareRun:
        return ShareRun(self._chains, self._services, self._services.context(client, version))


class ShareRun(ShareFetchApiRun):
    """The interceptors of one response."""

    restores = False

    __slots__ = ("_chains", "_context", "_services", "_time_left")

    def __init__(self, chains: Callable[[str], Consumers | None], services: Services, context: Context) -> None:
        self._chains = chains
        self._services = services
        self._context = context
        self._time_left = services.time_limit.start()

    def wants(self, topic: str) -> bool:
        return self._chains(topic) is not None

    def partition(self, partition: AcquiredPartition) -> Steps[None]:
        services, records, chain = self._services, partition.records, self._chains(partition.topic)
        assert chain is not None
        reading = PartitionReading(
            chain, self._context, partition.topic, partition.index, services.stats, records,
            acquired_only(partition.acquired), api=API, hides_unreadable=services.hides_unreadable,
            max_records=services.max_records,
        )  # fmt: skip
        consume = partial(reading.consume, services.limit)
        waiting = None
        if len(records) <= MAX_INLINE_COMPRESSED_BYTES and reading.inflate(
            min(services.limit, MAX_INLINE_CONSUMED_BYTES)
        ):
            done = _tried(consume)
            if not isinstance(done, ResolveRequired):
                _settle(partition, done)
                return
            waiting = done
        _settle(partition, (yield from consume_in_thread(reading, consume, self._time_left, waiting)))


def _settle(partition: AcquiredPartition, remaining: Remaining) -> None:
    if remaining.records is not None:
        partition.replace(remaining.records)
    if remaining.withheld_from is None:
        return
    partition.release_from(remaining.withheld_from)
    if not partition.records:  # the log says why; clients try again
        partition.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
