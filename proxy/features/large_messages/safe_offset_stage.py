"""The stage of a Fetch that adds li's header `_so`, after messages are assembled and before interceptors see them.

Only records get it after which a large message is incomplete: batches without such records stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Batch, batches, reseal
from kafka_sidecar.codec.visibility import SHOWN, all_visible, offsets_of
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.large_messages.special_headers import with_safe_offsets
from kafka_sidecar.proxy.exchanges.fetch import FetchedPartition, Stage, StageRun
from kafka_sidecar.proxy.exchanges.fetch_requests import FetchStart
from kafka_sidecar.proxy.features.large_messages.offset_stage import is_li_client
from kafka_sidecar.proxy.relay.exchange import Client, Steps, TimeLeft, TimeLimit, Work

MAX_INLINE_BYTES = 64 << 10  # of a partition's records, to be looked into while others wait


class SafeOffsetStage(Stage):
    """The topics whose consumers get li's headers."""

    fail_closed = False

    def __init__(
        self,
        find: Callable[[str], TopicSettings | None],
        intervals: Intervals,
        id_of: Callable[[str], bytes],
        li_clients: Sequence[str],
        inflate_limit: int,
        time_limit: TimeLimit,
    ) -> None:
        """
        Args:
            find: the settings of a topic; None: it has no large messages.
            id_of: the id of a topic, zeros if it is not known or the cluster has none.
            li_clients: patterns of client ids, of clients that assemble themselves.
            inflate_limit: bytes that a batch may have when it is inflated.
            time_limit: for one response.
        """
        self.find = find
        self.intervals = intervals
        self.id_of = id_of
        self.inflate_limit = inflate_limit
        self.time_limit = time_limit
        self._li_clients = li_clients

    def wants(self, topic: str) -> bool:
        settings = self.find(topic)
        return settings is not None and settings.deliver_headers

    def hides(self, topic: str) -> bool:
        return False

    def start(self, client: Client, version: int) -> SafeOffsetRun:
        return SafeOffsetRun(self, is_li_client(client.client_id, self._li_clients))


class SafeOffsetRun(StageRun):
    """The headers of one response."""

    restores = True

    __slots__ = ("_is_passed", "_stage", "_time_left", "wants_empty")

    def __init__(self, stage: SafeOffsetStage, is_passed: bool) -> None:
        self._stage = stage
        self._is_passed = is_passed
        self._time_left: TimeLeft | None = None
        self.wants_empty = False

    def open(self, frame: bytes, start: FetchStart) -> Steps[bytes]:
        return frame
        yield  # a generator, as every stage

    def wants(self, topic: str) -> bool:
        return not self._is_passed and self._stage.wants(topic)

    def partition(self, partition: FetchedPartition) -> Steps[None] | None:
        if len(partition.records) > MAX_INLINE_BYTES:
            return self._add_in_thread(partition)
        self._settle(partition, self._add(partition))
        return None

    def finish(self) -> None: ...

    def _add_in_thread(self, partition: FetchedPartition) -> Steps[None]:
        if self._time_left is None:
            self._time_left = self._stage.time_limit.start()
        try:
            new = yield Work(partial(self._add, partition), limit=self._time_left)
        except TimeoutError:
            return
        self._settle(partition, new)

    def _settle(self, partition: FetchedPartition, new: bytes | None) -> None:
        if new is not None:
            partition.replace(new)

    def _add(self, partition: FetchedPartition) -> bytes | None:
        """The records with the headers; None: none of them needs it."""
        try:
            found = [*all_visible(batches(partition.records, may_end_early=True))]
        except CodecError:  # it is the client that says what is wrong with them
            return None
        out, is_changed = list[bytes | memoryview](), False
        for batch, visibility in found:
            new = self._with_headers(partition, batch) if visibility is SHOWN else None
            is_changed = is_changed or new is not None
            out.append(batch.data if new is None else new)
        return b"".join(out) if is_changed else None

    def _with_headers(self, partition: FetchedPartition, batch: Batch) -> bytes | None:
        stage, first_and_last = self._stage, offsets_of(batch)
        settings, topic = stage.find(partition.topic), partition.key
        if isinstance(topic, str) and (topic_id := stage.id_of(topic)) != NO_ID:
            topic = topic_id
        if settings is None or not stage.intervals.is_open(topic, partition.index, *first_and_last):
            return None
        safe = partial(stage.intervals.safe_offset, topic, partition.index, max_gap=settings.look_back)
        try:
            records = batch.records(stage.inflate_limit)
            new = with_safe_offsets(batch.header.base_offset, records, safe)
        except CodecError:
            return None
        return reseal(batch, new) if new is not records else None
