"""The stage of a Fetch: `on_consume` on its records, and clients that would show control batches to their application.

Such a client gets nothing in place of hidden records and asks for the same offset again; the broker is then asked for
the records that follow (`hidden_offsets`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import decode_request
from kafka_sidecar.codec.message import replace_fields
from kafka_sidecar.codec.messages.fetch import FetchRequest
from kafka_sidecar.interceptors.consuming import Consumers
from kafka_sidecar.interceptors.values import Context
from kafka_sidecar.proxy.exchanges.batch_cost import MAX_INLINE_BYTES
from kafka_sidecar.proxy.exchanges.fetch import FetchedPartition, Stage, StageRun
from kafka_sidecar.proxy.exchanges.fetch_requests import FIRST_WITH_IDS, FetchStart
from kafka_sidecar.proxy.interception.fetched_partition import PartitionReading, Remaining
from kafka_sidecar.proxy.interception.hidden_offsets import FetchPosition
from kafka_sidecar.proxy.interception.services import Services
from kafka_sidecar.proxy.relay.exchange import Client, Steps, TopicIds, Work

MAX_INLINE_COMPRESSED_BYTES = 64 << 10  # of a partition's records, to be looked into while others wait
READ_COMMITTED = 1
NO_TOPIC_ID = b""  # in a cluster without topic ids (KIP-516) a name is all that is known of a topic

Chains = Callable[[str], Consumers | None]  # by topic


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

    def start(self, client: Client, version: int) -> ConsumeRun:
        return ConsumeRun(self._chains, self._services, client, version)


class ConsumeRun(StageRun):
    """The interceptors of one request's response."""

    __slots__ = (
        "_chains", "_client", "_context", "_isolation_level", "_moved", "_positions", "_services", "_unconfirmed",
        "_version", "wants_empty",
    )  # fmt: skip

    _context: Context
    _isolation_level: int

    def __init__(self, chains: Chains, services: Services, client: Client, version: int) -> None:
        self._chains = chains
        self._services = services
        self._client = client
        self._version = version
        self.wants_empty = False  # the client must not get control batches of ours
        self._positions: dict[tuple[str, int], FetchPosition] = {}  # of such a client, by topic and partition
        self._moved: set[tuple[str, int]] = set()  # where the broker is asked for an offset after hidden records
        # Partitions of topics that may have been created again since: of those nothing is known to be hidden.
        self._unconfirmed: dict[str, list[FetchedPartition]] = {}

    def open(self, frame: bytes, start: FetchStart) -> bytes:
        self._isolation_level = start.isolation_level
        self._context = self._services.context(self._client, self._version)
        # A request that continues a session does not name the offsets that it has named before.
        if start.continues_session or not self._services.holds(self._client, self._version):
            return frame
        self.wants_empty = True
        return self._skip_hidden(frame)

    def wants(self, topic: str) -> bool:
        return self._chains(topic) is not None

    def partition(self, partition: FetchedPartition) -> Steps[None] | None:
        records = partition.records
        if not len(records):
            self._answer_empty(partition)
            return None
        chain, limit = self._chains(partition.topic), self._services.limit
        assert chain is not None
        aborted = partition.aborted_transactions() if self._isolation_level == READ_COMMITTED else None
        reading = PartitionReading(
            chain, self._context, partition.topic, partition.index, self._services.stats, records, aborted
        )
        if len(records) <= MAX_INLINE_COMPRESSED_BYTES and reading.inflate(min(limit, MAX_INLINE_BYTES)):
            self._settle(partition, self._consume(partition, reading))
            return None
        return self._consume_in_thread(partition, reading)

    def finish(self) -> Steps[None] | None:
        return self._confirm() if self._unconfirmed else None

    def _consume_in_thread(self, partition: FetchedPartition, reading: PartitionReading) -> Steps[None]:
        self._settle(partition, (yield Work(partial(self._consume, partition, reading))))

    def _consume(self, partition: FetchedPartition, reading: PartitionReading) -> Remaining:
        position = self._positions.get((partition.topic, partition.index))
        offset = position.offset if position is not None else 0
        return reading.consume(self._services.limit, marker=not self.wants_empty, offset=offset)

    def _settle(self, partition: FetchedPartition, remaining: Remaining) -> None:
        partition.new = remaining.records
        if remaining.records is not None and not remaining.records:
            if remaining.following is not None:
                self._hide(partition, remaining.following)
            elif remaining.withheld:  # the log says why; clients try again
                partition.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        if (partition.topic, partition.index) in self._moved:
            self._unconfirmed.setdefault(partition.topic, []).append(partition)

    # Clients that would show control batches

    def _skip_hidden(self, frame: bytes) -> bytes:
        """The request, for offsets after records that are known to be hidden."""
        _, body = decode_request(FetchRequest, frame)
        hidden, topics = self._services.hidden_offsets, []
        for topic in body.message.topics:
            by_id = self._version >= FIRST_WITH_IDS
            name = (self._services.name_of(topic.topic_id) if by_id else topic.topic) or ""
            partitions = []
            for one in topic.partitions:
                position = FetchPosition(
                    self._client.client_id, self._client.principal, self._isolation_level, name, one.partition,
                    one.fetch_offset,
                )  # fmt: skip
                self._positions[name, one.partition] = position
                following = hidden.next(position)
                if following != one.fetch_offset:
                    self._moved.add((name, one.partition))
                partitions.append(replace_fields(one, fetch_offset=following))
            topics.append(replace_fields(topic, partitions=tuple(partitions)))
        return body.with_message(replace_fields(body.message, topics=tuple(topics))) if self._moved else frame

    def _answer_empty(self, partition: FetchedPartition) -> None:
        """The broker has nothing at an offset that the client did not ask for."""
        position, hidden = self._positions.get((partition.topic, partition.index)), self._services.hidden_offsets
        if position is None or hidden.next(position) == position.offset:
            return
        error_code = partition.span.error_code
        if error_code:
            hidden.forget(position)
        if error_code in {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}:
            partition.error_code = ErrorCode.NONE
            self._answer_end_of_log(partition, position)

    def _hide(self, partition: FetchedPartition, following: int) -> None:
        """Answer as if the log ended where the client reads, and remember where to go on."""
        position = self._positions.get((partition.topic, partition.index))
        if position is not None:
            self._services.hidden_offsets.hide(position, following)
            partition.high_watermark = position.offset
            self._unconfirmed.setdefault(partition.topic, [])

    def _confirm(self) -> Steps[None]:
        """If a topic was created again, what is known of hidden records is of another one: answer as if the log ended
        where the client reads.
        """
        ids = yield TopicIds(tuple(self._unconfirmed))
        if ids is None:  # as where brokers demand SASL: otherwise the client would never go on
            return
        for topic, partitions in self._unconfirmed.items():
            if not self._services.hidden_offsets.is_current(topic, ids.get(topic, NO_TOPIC_ID)):
                for partition in partitions:
                    partition.error_code = None
                    self._answer_end_of_log(partition, self._positions[topic, partition.index])

    def _answer_end_of_log(self, partition: FetchedPartition, position: FetchPosition) -> None:
        partition.new, partition.high_watermark = b"", position.offset
