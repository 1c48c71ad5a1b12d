"""What the taps of batches share: how they count, and what they know of a connection.

This file runs as it is and compiled (connection.pxd holds the C types).
"""

from __future__ import annotations

from typing import Any

from kafka_sidecar.audit.contract import AuditedClient
from kafka_sidecar.proxy.features.auditing.counting import Counting
from kafka_sidecar.proxy.relay.exchange import Client

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.audit.counters import FetchCounter, ProduceCounter
    from kafka_sidecar.codec.fetch_counts import FetchWalk
    from kafka_sidecar.codec.fetch_positions import FetchPositions, Offsets
    from kafka_sidecar.codec.produce_counts import ProduceWalk
    from kafka_sidecar.proxy.relay.watch import Tap, Watch
else:
    from cython.cimports.kafka_sidecar.audit.counters import (  # type: ignore[no-redef]
        FetchCounter,
        ProduceCounter,
    )
    from cython.cimports.kafka_sidecar.codec.fetch_counts import FetchWalk  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.fetch_positions import (  # type: ignore[no-redef]
        FetchPositions,
        Offsets,
    )
    from cython.cimports.kafka_sidecar.codec.produce_counts import ProduceWalk  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.proxy.relay.watch import (  # type: ignore[no-redef]
        Tap,
        Watch,
    )

MAX_SESSION_PARTITIONS = 100_000
MAX_IDLE = 8  # watches that a connection keeps: enough for as many requests in flight
MAX_PENDING = 1000  # rows that wait to be counted
MAX_RECENT = 16  # counters that are found by their place in a request
MAX_COUNTERS = 10_000  # of each kind; a connection of more partitions finds them again and again
NO_SESSION, NEW_SESSION = -1, 0  # epochs (KIP-227)
READ_COMMITTED = 1
# For C.
_MAX_COUNTERS, _NO_SESSION, _NEW_SESSION, _READ_COMMITTED = MAX_COUNTERS, NO_SESSION, NEW_SESSION, READ_COMMITTED
_MAX_IDLE, _MAX_RECENT, _MAX_PENDING = MAX_IDLE, MAX_RECENT, MAX_PENDING


class AuditedConnection:
    """A connection's client, as auditors are shown it, its fetch session, and what counts its batches."""

    __slots__ = (
        "_counters_left", "_group", "_idle", "_idle_left", "_key", "_offsets", "_place", "_produced", "_producing",
        "_read", "_read_key", "_reading", "_recent", "_requests", "_requests_version", "_responses",
        "_responses_version", "_topics_generation", "audited", "origin", "session_id",
    )  # fmt: skip

    def __init__(self, audited: AuditedClient) -> None:
        self.audited = audited
        self.origin = (audited.client_id, audited.host)  # by which its group is known
        self.session_id = 0  # 0: there is none
        self._offsets = Offsets()  # that the session's requests have asked for
        self._produced: dict[str | bytes, dict[int, ProduceCounter]] = {}  # by topic (name or id) and partition
        self._read: dict[str | bytes, dict[int, FetchCounter]] = {}
        self._key: str | bytes | None = None  # the topic that was looked for last,
        self._producing: dict[int, ProduceCounter] = {}  # and what counts its partitions
        self._recent: list[ProduceCounter] = []  # in the order of requests, which are much alike
        self._place = 0  # of the one that is expected next
        self._read_key: str | bytes | None = None  # as `_key`
        self._reading: dict[int, FetchCounter] = {}
        self._group: str | None = None  # in which it reads, as far as `_read` knows
        self._counters_left = _MAX_COUNTERS
        self._topics_generation = 0  # of `AuditedTopics`, in which the counters are right
        self._idle: Watch | None = None  # the first one of those whose request has its response,
        self._idle_left = _MAX_IDLE  # and how many more it can be
        self._requests: ProduceWalk | None = None  # reads Produce requests, one after the other
        self._requests_version = 0
        self._responses: FetchWalk | None = None  # reads Fetch responses, one after the other
        self._responses_version = 0

    def take_idle(self) -> Watch | None:
        """A watch whose request has its response, for the next request."""
        watch = self._idle
        if watch is not None:
            self._idle, watch.following = watch.following, None
            self._idle_left += 1
        return watch

    def keep_idle(self, watch: Watch) -> None:
        """Keep a watch for `take_idle`. It must not refer to this object: a cycle waits for the garbage collector."""
        if self._idle_left:
            watch.following, self._idle = self._idle, watch
            self._idle_left -= 1

    def produce_walk(self, version: int) -> ProduceWalk:
        """The reader of the next Produce request that arrives whole; the one before has been read."""
        walk = self._requests
        if walk is None or self._requests_version != version:
            walk = self._requests = ProduceWalk(version)
            self._requests_version = version
        walk._restart()
        return walk

    def fetch_walk(self, version: int, positions: FetchPositions | None, bucket_ms: int, now_ms: float) -> FetchWalk:
        """What reads the next Fetch response; the one before has been read."""
        offsets = Offsets() if positions is None else self.offsets_of(positions)
        is_committed_only = positions is not None and positions.isolation_level == _READ_COMMITTED
        if self._responses is None or self._responses_version != version:
            self._responses, self._responses_version = FetchWalk(version, offsets), version
        self._responses.restart(offsets, is_committed_only, bucket_ms, now_ms)
        return self._responses

    def known_topic(self) -> str | bytes | None:
        """The topic of the last response, which the next request most likely names."""
        return None if self._responses is None else self._responses.topic()

    def offsets_of(self, positions: FetchPositions) -> Offsets:
        """The offsets that a Fetch reads from: a request that continues a session names only those that have changed.

        Of a session that has begun on another connection, only those are known.
        """
        epoch, named = positions.session_epoch, positions.offsets
        if epoch == _NO_SESSION:
            return named
        if epoch == _NEW_SESSION or positions.session_id != self.session_id:
            self._offsets = Offsets()
            self.session_id = positions.session_id
        offsets = self._offsets
        offsets.update(named)
        for key, index in positions.forgotten:
            offsets.forget(key, index)
        if offsets.size > MAX_SESSION_PARTITIONS:
            self._offsets = Offsets()
        return offsets

    def produce_counter(self, counting: Counting, key: str | bytes, index: int) -> ProduceCounter | None:
        """What counts a partition's batches; None: its topic is not audited, or its name is not known yet."""
        place = self._place if self._place < len(self._recent) else 0
        if place < len(self._recent):
            recent = self._recent[place]
            if recent.index == index and recent.key is key:
                self._place = place + 1
                return recent
        if key is not self._key:
            self._producing = self._produced.get(key) or {}
            self._key = key
        found = self._producing.get(index)
        if found is None:
            found = self._new_produce_counter(counting, key, index)
        if found is not None:
            self._expect(found)
        return found

    def _expect(self, found: ProduceCounter) -> None:
        """Expect it after the one before, as in the next request."""
        if self._place < len(self._recent):
            self._recent[self._place] = found
        elif len(self._recent) < _MAX_RECENT:
            self._recent.append(found)
        else:
            self._place = 0
            self._recent[0] = found
        self._place += 1

    def _new_produce_counter(self, counting: Counting, key: str | bytes, index: int) -> ProduceCounter | None:
        topic = counting.topics.get(key)
        if topic is None:
            return None
        self._make_room()
        found = counting.auditor.produce_counter(self.audited, topic, index)
        found.key, found.index = key, index
        self._producing[index] = found
        self._produced[key] = self._producing
        return found

    def fetch_counter(self, counting: Counting, group: str | None, key: str | bytes, index: int) -> FetchCounter | None:
        """As `produce_counter`, of what the client reads in this group."""
        if self._group is not group and self._group != group:
            self._read, self._read_key, self._group = {}, None, group
        if key is not self._read_key:
            self._reading = self._read.get(key) or {}
            self._read_key = key
        found = self._reading.get(index)
        return self._new_fetch_counter(counting, key, index) if found is None else found

    def _new_fetch_counter(self, counting: Counting, key: str | bytes, index: int) -> FetchCounter | None:
        topic = counting.topics.get(key)
        if topic is None:
            return None
        self._make_room()
        found = counting.auditor.fetch_counter(self.audited, self._group, topic, index)
        self._reading[index] = found
        self._read[key] = self._reading
        return found

    def check_topics(self, counting: Counting) -> None:
        """Forget what counts under names that have another id now."""
        generation = counting.topics.generation
        if generation != self._topics_generation:
            self._topics_generation = generation
            self._forget_counters()

    def _forget_counters(self) -> None:
        self._key = self._read_key = None
        self._produced, self._producing, self._recent, self._place = {}, {}, [], 0
        self._read, self._reading = {}, {}

    def _make_room(self) -> None:
        self._counters_left -= 1
        if self._counters_left <= 0:
            self._counters_left = _MAX_COUNTERS
            self._produced, self._producing = {}, {}
            self._read, self._reading = {}, {}


class CountingTap(Tap):
    """A tap that counts rows some at a time.

    Between two requests a CPU's caches are filled by other programs: what counts a batch takes several times as long to
    load as to run, so it is loaded once for many. The rows are not among the objects that the garbage collector visits,
    so it does not matter to it how many wait.
    """

    __slots__ = ("_api", "_is_flush_due", "_pending", "counting", "version")

    def __init__(self, api: str, counting: Counting, version: int) -> None:
        self._api = api
        self.counting = counting
        self.version = version
        self._pending: list[Any] = []  # rows
        self._is_flush_due = False  # will be called in time

    def add(self, rows: list[Any]) -> None:
        """Count rows soon. They must know their owner."""
        self._pending += rows
        if not self._is_flush_due:
            self._is_flush_due = self.counting.count_later(self.flush_pending)
        if len(self._pending) >= _MAX_PENDING or not self._is_flush_due:
            self.flush()

    def flush_pending(self) -> None:
        """As `flush`, for what is called in time."""
        self._is_flush_due = False
        self.flush()

    def flush(self) -> None:
        """Count what is not counted yet."""
        rows, self._pending = self._pending, []
        if rows:
            with self.counting.auditor.counting:
                for row in rows:
                    self.try_count(row)

    def try_count(self, row: Any) -> None:
        try:
            self.count(row)
        except Exception as error:  # noqa: BLE001 - an auditor must not cost a connection
            self.counting.stats.failed(self._api, error)

    def count(self, row: Any) -> None:
        """Call the auditor for a row."""
        raise NotImplementedError


# Of a watch that watches no request: it must not keep a client that is gone.
NO_CLIENT = AuditedConnection(AuditedClient(None, None, None))


def connection_of(client: Client, state: object) -> AuditedConnection:
    """What is known of a connection's client, whose `tap_state` this is."""
    if isinstance(state, AuditedConnection):
        return state
    known = client.tap_state = AuditedConnection(AuditedClient(client.client_id, client.principal, client.host))
    return known
