"""The stages that keep offsets as li-apache-kafka-clients does, for its consumers in the same group.

Of a commit it is the last one: interceptors see what the client commits, before and after (KIP-547, KIP-42). Of a Fetch
it adds li's header `_so`, after messages are assembled and before interceptors see them. Only records get it after
which a large message is incomplete: batches without such records stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Batch, batches, reseal
from kafka_sidecar.codec.visibility import SHOWN, all_visible, offsets_of
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.lm_header import with_safe_offsets
from kafka_sidecar.large_messages.offsets import Committed, store
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Steps, TimeLeft, TimeLimit, Work
from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.plugins.values import OffsetAndMetadata, Offsets, TopicPartition
from kafka_sidecar.proxy.exchanges.commits import Stage
from kafka_sidecar.proxy.exchanges.fetch import FetchedPartition, FetchStart, Sees
from kafka_sidecar.proxy.exchanges.fetch import Stage as FetchApiStage
from kafka_sidecar.proxy.exchanges.fetch import StageRun as FetchApiRun
from kafka_sidecar.proxy.relay.exchange import Client

MAX_INLINE_BYTES = 64 << 10  # of a partition's records, to be looked into while others wait


class OffsetStage(Stage):
    """Stores (S, "C,metadata") where a large message reaches over what a client commits."""

    counts: Counter[str] | None = None  # it counts what it stores itself
    wants_result = False

    def __init__(
        self,
        find: Callable[[str], TopicSettings | None],
        intervals: Intervals,
        id_of: Callable[[str], bytes],
        stored: Counter[str],
        li_clients: Sequence[str] = (),
        max_metadata: int = 4096,
    ) -> None:
        """
        Args:
            find: the settings of a topic; None: it has no large messages.
            id_of: the id of a topic, zeros if it is not known or the cluster has none.
            stored: of offsets by the form in which they are stored.
            li_clients: patterns of client ids: these clients store offsets as li does themselves.
            max_metadata: characters that the broker takes.
        """
        self._find = find
        self._intervals = intervals
        self._id_of = id_of
        self._stored = stored
        self._li_clients = li_clients
        self._max_metadata = max_metadata

    def pre_commit(self, offsets: Offsets) -> Offsets:
        if is_li_client(offsets.context.client_id, self._li_clients):
            return offsets
        stored = {
            place: new
            for place, offset in offsets.items()
            if (new := self._stored_form(place, offset)) is not None and new != offset
        }
        return Offsets({**offsets, **stored}, offsets.context) if stored else offsets

    def on_commit(self, offsets: Offsets) -> None:
        pass

    def takes_long(self, partitions: int) -> bool:
        return False

    def time_left(self) -> None:
        return None

    def _stored_form(self, place: TopicPartition, offset: OffsetAndMetadata) -> OffsetAndMetadata | None:
        """None: large messages of the topic do not change what is stored."""
        settings = self._find(place.topic)
        if settings is None or settings.offsets == "plain" or offset.offset < 0:
            return None
        topic_id = self._id_of(place.topic)
        topic = place.topic if topic_id == NO_ID else topic_id
        safe = self._intervals.safe_offset(topic, place.partition, offset.offset, settings.look_back)
        new = store(
            Committed(offset.offset, offset.metadata), safe, self._max_metadata, settings.offsets == "strict-li"
        )
        is_wrapped = new.metadata != offset.metadata
        self._stored["wrapped" if is_wrapped else "plain" if safe == offset.offset else "too_long"] += 1
        return OffsetAndMetadata(new.offset, new.metadata, offset.leader_epoch)


def is_li_client(client_id: str | None, patterns: Sequence[str]) -> bool:
    """Whether a client stores and reads offsets as li does: it must get them as they are stored."""
    return matches(client_id or "", patterns)


class SafeOffsetStage(FetchApiStage):
    """The topics whose consumers get li's headers."""

    sees = Sees.SLICES  # next to assembly, whose messages it looks at
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


class SafeOffsetRun(FetchApiRun):
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
