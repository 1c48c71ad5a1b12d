"""The stages of a Fetch and a ShareFetch in which large messages are assembled, before interceptors see them.

each partition: segments hidden, messages whole -> nothing visible in the response? read ahead -> settled

Slices that a member of a share group (KIP-932) has acquired are not in what it gets. They stay acquired, and the client
acknowledges them as gaps, as it does for compacted records (docs/decisions/0015): so each slice is done with by whoever
got it, and the message by the member that got its carrier. What cannot be read now must not look like a gap: it is not
among the acquired records, and the broker delivers it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.large_messages.delivery import Delivery, ResponseRoom
from kafka_sidecar.large_messages.reading import READ_BYTES, Fetched, Read, UnreadableError
from kafka_sidecar.large_messages.segment_index import SegmentIndex
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.fetch import FIRST_WITH_IDS, FetchedPartition, FetchStart, Sees, Stage, StageRun
from kafka_sidecar.proxy.exchanges.held_clients import HeldFetch, shows_markers
from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredPartition
from kafka_sidecar.proxy.exchanges.share_fetch import Stage as ShareFetchApiStage
from kafka_sidecar.proxy.exchanges.share_fetch import StageRun as ShareFetchApiRun
from kafka_sidecar.proxy.features.large_messages.reads import FetchPositions, Reads
from kafka_sidecar.proxy.features.large_messages.services import AssemblyServices
from kafka_sidecar.proxy.relay.exchange import Client, TopicIds

# Of its max.wait.ms, after which a client that limits its wait must have a response: kafka-go sends a part of its own
# limit.
WAIT_PART = 0.7

T = TypeVar("T")

FindSettings = Callable[[str], TopicSettings | None]  # by topic
MAX_RESPONSE_BYTES = 64 << 20  # with two messages or more: many clients accept no more than 100 MB


class AssembleStage(Stage):
    """Large messages of the topics that are enabled now."""

    sees = Sees.SLICES

    def __init__(self, find: FindSettings, services: AssemblyServices) -> None:
        self._find = find
        self._services = services

    @property
    def fail_closed(self) -> bool:
        return False

    def wants(self, topic: str) -> bool:
        return self._find(topic) is not None

    def hides(self, topic: str) -> bool:
        return self._find(topic) is not None

    def start(self, client: Client, version: int) -> AssembleRun:
        return AssembleRun(self._find, self._services, client, version)


class AssembleRun(StageRun):
    """The large messages of one response."""

    restores = True

    __slots__ = (
        "_client", "_deliveries", "_find", "_held", "_is_passed", "_positions", "_reads", "_room",
        "_services", "_started", "_version", "large", "wants_empty",
    )  # fmt: skip

    _positions: FetchPositions
    _room: ResponseRoom
    _started: float

    def __init__(self, find: FindSettings, services: AssemblyServices, client: Client, version: int) -> None:
        self._find = find
        self._services = services
        self._client = client
        self._version = version
        self._held: HeldFetch | None = None
        self._reads = Reads(client, version, services.time_limit, services.stopwatch, None, services.ahead)
        self._is_passed = services.assembles_itself(client)
        self._deliveries: list[tuple[FetchedPartition, Delivery]] = []
        self.wants_empty = False
        self.large: dict[tuple[str | bytes, int], list[tuple[int, int]]] = {}

    def open(self, frame: bytes, start: FetchStart) -> Steps[bytes]:
        if self._is_passed:
            return frame
        services, client, version = self._services, self._client, self._version
        positions = FetchPositions(frame, version, client.fetch_state)
        client.fetch_state = self._positions = positions
        self._started = services.stopwatch()
        is_held = shows_markers(client, version, services.hold_for)
        if is_held:
            self._reads.late_at = self._answer_by
        self._room = ResponseRoom(positions.max_bytes, self._reads.reserve)
        if not is_held or start.continues_session:
            return frame
        self._held = HeldFetch(client, version, start.isolation_level, services.name_of, services.hidden_offsets)
        self.wants_empty = True
        return (yield from self._held.skip_hidden(frame))

    def wants(self, topic: str) -> bool:
        return not self._is_passed and self._find(topic) is not None

    def partition(self, partition: FetchedPartition) -> Steps[None] | None:
        if len(partition.records):
            return self._deliver(partition)
        if self._held is not None:
            self._held.answer_empty(partition)
        return None

    def finish(self) -> Steps[None] | None:
        return self._finish() if self._deliveries else self._confirm()

    def close(self) -> None:
        self._deliveries.clear()
        self._reads.close()

    @property
    def _answer_by(self) -> float:
        return self._started + WAIT_PART * self._positions.max_wait_ms / 1000

    def _deliver(self, partition: FetchedPartition) -> Steps[None]:
        settings = self._find(partition.topic)
        assert settings is not None
        topic, services = (yield from self._stored_by(partition)), self._services
        position, is_committed_only = self._positions.of(partition.key, partition.index), self._is_committed_only
        delivery = Delivery(
            services.log(partition.topic, topic, partition.index, settings, is_committed_only), services.unfinished,
            self._room, position.offset, position.max_bytes, services.inflate_limit,
        )  # fmt: skip
        yield from self._perform(partition, delivery.feed(partition.records, partition.aborted_transactions()))
        self._deliveries.append((partition, delivery))

    def _finish(self) -> Steps[None]:
        for partition, delivery in self._deliveries:
            yield from self._read_ahead(partition, delivery)
        for partition, delivery in self._deliveries:
            self._settle(partition, delivery)
        for partition, delivery in self._deliveries:
            if delivery.has_large_alone and delivery.cut_at is None:
                yield from self._begin_next(partition, delivery, delivery.next_offset)
        yield from self._confirm() or ()

    def _begin_next(self, partition: FetchedPartition, delivery: Delivery, until: int) -> Steps[None]:
        """While the client receives a large message, which ends before ``until``, the broker sends what follows it."""
        size = min(delivery.bytes_to_next, self._services.read_ahead, READ_BYTES)
        need = Read(until + 1, size, self._is_committed_only)  # the first batch is in the next response of the broker
        if need.offset < self._end(partition) and size:
            yield from self._reads.read_ahead(delivery.offset, until, need, partition.key, partition.index)

    def _end(self, partition: FetchedPartition) -> int:
        """The offset after the last record that the client may read now."""
        high, stable, _ = partition.offsets
        if self._is_committed_only:
            return max(stable, partition.last_stable_offset or 0)
        return max(high, partition.high_watermark or 0)

    def _read_ahead(self, partition: FetchedPartition, delivery: Delivery) -> Steps[None]:
        """Read on where nothing is visible in the response: it would only make the client ask again."""
        aborted = partition.aborted_transactions() if self._is_committed_only else ()
        left = self._services.read_ahead
        while (
            not self._room.has_shown
            and delivery.cut_at is None
            and delivery.hidden is not None
            and delivery.next_offset < self._end(partition)
            and left > 0
            and self._services.stopwatch() < self._answer_by
        ):
            at = delivery.next_offset
            size = min(left, delivery.bytes_to_carrier, READ_BYTES)
            try:
                fetched = yield from self._perform(partition, self._read_on(delivery, size))
                if (until := delivery.end_of_message(fetched.records)) is not None:
                    yield from self._begin_next(partition, delivery, until)  # before checksums are computed
                yield from self._perform(partition, delivery.feed(fetched.records, fetched.aborted))
            except (TimeoutError, UnreadableError):
                return
            left -= len(fetched.records)
            if delivery.next_offset == at and delivery.cut_at is None:
                return
            high, stable, _ = partition.offsets  # what was read ahead may be of before
            partition.high_watermark = max(high, fetched.high_watermark)
            partition.last_stable_offset = max(stable, fetched.last_stable_offset)
            if self._is_committed_only:
                aborted = partition.aborted = _merge(aborted, fetched.aborted)

    def _read_on(self, delivery: Delivery, size: int) -> Steps[Fetched]:
        fetched = yield from delivery.log.read(delivery.next_offset, size, self._is_committed_only)
        if fetched.error_code != ErrorCode.NONE:
            raise UnreadableError(fetched.error_code)
        return fetched

    def _settle(self, partition: FetchedPartition, delivery: Delivery) -> None:
        self.large[partition.key, partition.index] = delivery.large
        held = self._held
        new = delivery.pieces(with_marker=held is None)
        if new is not None:
            sent = delivery.pieces(held is None, with_aborted=True) if delivery.has_aborted else None
            partition.replace(*new, sent=sent)
        if delivery.error_code is not None:
            partition.error_code = delivery.error_code
        if held is not None:
            if new is not None and not new and delivery.hidden is not None:
                held.hide(partition, delivery.hidden[1])
            held.check(partition)

    def _confirm(self) -> Steps[None] | None:
        return self._held.confirm() if self._held is not None else None

    def _stored_by(self, partition: FetchedPartition) -> Steps[bytes | str]:
        """The topic's id, or its name in a cluster without ids."""
        if isinstance(partition.key, bytes):
            return partition.key
        topic_id = self._services.id_of(partition.topic)
        if topic_id == NO_ID:
            topic_id = ((yield TopicIds((partition.topic,))) or {}).get(partition.topic, NO_ID)
        return partition.topic if topic_id == NO_ID else topic_id

    def _perform(self, partition: FetchedPartition, reading: Steps[T]) -> Steps[T]:
        return self._reads.perform(reading, partition.key, partition.index)

    @property
    def _is_committed_only(self) -> bool:
        return self._positions.is_committed_only


def _merge(
    one: Collection[AbortedTransaction], other: Collection[AbortedTransaction]
) -> tuple[AbortedTransaction, ...]:
    """All transactions of both, each once, in the order in which brokers list them."""
    found = {(each.first_offset, each.producer_id): each for each in (*one, *other)}
    return tuple([found[key] for key in sorted(found)])


class ShareAssembleStage(ShareFetchApiStage):
    """Large messages of the topics that are enabled now."""

    sees = Sees.SLICES

    def __init__(self, find: FindSettings, services: AssemblyServices) -> None:
        self._find = find
        self._services = services

    def start(self, client: Client, version: int) -> ShareAssembleRun:
        return ShareAssembleRun(self._find, self._services, client)


class ShareAssembleRun(ShareFetchApiRun):
    """The large messages of one response."""

    restores = True

    __slots__ = ("_find", "_reads", "_room", "_services", "large")

    def __init__(self, find: FindSettings, services: AssemblyServices, client: Client) -> None:
        self._find = find
        self._services = services
        self.large: dict[tuple[str | bytes, int], list[tuple[int, int]]] = {}
        # Brokers that know share groups know this version of Fetch.
        self._reads = Reads(client, FIRST_WITH_IDS, services.time_limit, services.stopwatch, None)
        self._room = ResponseRoom(MAX_RESPONSE_BYTES, self._reads.reserve)

    def wants(self, topic: str) -> bool:
        return self._find(topic) is not None

    def partition(self, partition: AcquiredPartition) -> Steps[None]:
        settings, services = self._find(partition.topic), self._services
        assert settings is not None
        # Members see some batches each: what one has seen says nothing of what is in the log between them.
        log = services.log(
            partition.topic,
            partition.topic_id,
            partition.index,
            settings,
            is_committed_only=False,
            index=SegmentIndex(),
        )
        delivery = Delivery(
            log,
            services.unfinished,
            self._room,
            0,
            MAX_RESPONSE_BYTES,
            services.inflate_limit,
            acquired=partition.acquired,
        )
        try:
            reading = delivery.feed(partition.records, ())
            yield from self._reads.perform(reading, partition.topic_id, partition.index)
        finally:
            self._reads.close()
        self.large[partition.topic_id, partition.index] = delivery.large
        records = delivery.records(with_marker=True)
        if records is not None:
            partition.replace(records)
        if delivery.cut_at is not None:
            partition.release_from(delivery.cut_at)
            if not len(partition.records):  # clients try again
                partition.error_code = delivery.error_code or ErrorCode.UNKNOWN_SERVER_ERROR
