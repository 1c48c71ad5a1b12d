"""A sidecar, or brokers, as the commands of dead letters use them: aiokafka connects and logs in, our codec reads.

aiokafka's own consumer shows no bytes of headers' names, and its producer cannot go on after a rejected batch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin.config_resource import ConfigResourceType
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.errors import KafkaError, NoError, for_code
from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.fetch import FetchRequest

from kafka_sidecar.codec.apis import ErrorCode, error_name
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.records import Record, batches
from kafka_sidecar.codec.visibility import Visibility, committed_only, offsets_of
from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.proxy.runtime.aiokafka_settings import create_no_topics

REACH_S = 15.0
PATIENCE_S = 90.0  # for a broker that is restarted, and for its leaders to be elected
FIRST_PAUSE_S, MAX_PAUSE_S = 0.1, 2.0
FETCH_BYTES = 8 << 20  # of one response; a record that is larger comes alone
FETCH_WAIT_MS = 500
MAX_EMPTY = 3  # responses without records before the end: what is there is compacted
MAX_RECORDS_BYTES, MAX_RECORDS = 1 << 30, 1 << 22  # of a batch, decompressed
READ_COMMITTED = 1
FAILURES = (KafkaError, OSError, TimeoutError)
# Beside those that aiokafka knows as such.
RETRIED = {
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR, ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}  # fmt: skip

Node = Callable[[], Awaitable[int | None]]


class ClusterError(Exception):
    """What was asked for cannot be had. One line that says why."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a response has of a partition: the records that consumers see, and where to go on."""

    records: list[tuple[int, Record]]  # with their offsets
    next_offset: int


class Cluster:
    """One connection to each broker. Made by `connect`."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._client = consumer._client
        self._coordinators: dict[tuple[int, str], int] = {}
        self._known: set[str] = set()

    async def expand(self, names: Sequence[str]) -> list[str]:
        """Topics by their names, in which * and ? stand for any characters and for one. Raises ClusterError."""
        found: dict[str, None] = {}
        for name in names:
            if not set(name) & set("*?"):
                found[name] = None
                continue
            try:
                known: set[str] = await self._consumer.topics()
            except FAILURES as error:
                raise ClusterError(f"topics cannot be listed: {describe(error)}") from error
            found |= dict.fromkeys(sorted(one for one in known if matches(one, [name])))
        return list(found)

    async def partitions(self, topic: str) -> list[int]:
        """Raises ClusterError: there is no such topic."""
        await self._know(topic)
        found = self._client.cluster.partitions_for_topic(topic)
        if not found:
            raise ClusterError(f"topic {topic} does not exist, or may not be described")
        return sorted(found)

    async def has_partition(self, topic: str, partition: int) -> bool:
        await self._know(topic)
        return partition in (self._client.cluster.partitions_for_topic(topic) or ())

    async def start_of(self, topic: str, partition: int) -> int:
        """The first offset of a partition. Raises ClusterError."""
        await self._know(topic)
        one = TopicPartition(topic, partition)
        try:
            found: dict[TopicPartition, int] = await self._consumer.beginning_offsets([one])
        except FAILURES as error:
            raise ClusterError(f"{topic}, partition {partition}: {describe(error)}") from error
        return found[one]

    async def configs(self, topic: str, names: Sequence[str]) -> dict[str, str]:
        """Those of a topic's configs that have a value. Raises ClusterError."""
        resource = (ConfigResourceType.TOPIC, topic, list(names))
        request = DescribeConfigsRequest([resource], False)
        response = await self.ask(self._any_node, request, lambda found: found.resources[0][0])
        code, _, _, _, entries = response.resources[0][:5]
        check(code, f"configs of {topic}")
        return {entry[0]: entry[1] for entry in entries if entry[1] is not None}

    async def _any_node(self) -> int | None:
        found: int | None = self._client.get_random_node()
        return found

    async def committed(self, group: str, topic: str, partition: int) -> tuple[int, str]:
        """Offset and metadata that a group has committed; (-1, "") if none. Raises ClusterError."""
        response = await self.ask(
            self.coordinator(CoordinationType.GROUP, group), OffsetFetchRequest(group, [(topic, [partition])]),
            lambda found: found.topics[0][1][0][3] if found.topics else getattr(found, "error_code", 0),
            ConnectionGroup.COORDINATION,
        )  # fmt: skip
        check(getattr(response, "error_code", 0), f"group {group}")
        _, offset, metadata, code = response.topics[0][1][0]
        check(code, f"group {group}")
        return offset, metadata or ""

    async def read(self, topic: str, partition: int, first: int) -> AsyncGenerator[Read, None]:
        """All that is in a partition now, from an offset on. Raises ClusterError."""
        offset, end, empty = max(first, await self.start_of(topic, partition)), -1, 0
        while end < 0 or offset < end:
            stable, data, aborted = await self._fetch(topic, partition, offset)
            end = stable if end < 0 else end
            try:
                found = batches(data, may_end_early=True)
                records = [
                    (batch.header.base_offset + record.offset_delta, record)
                    for batch, visibility in committed_only(aborted)(found)
                    if visibility is Visibility.SHOWN
                    for record in batch.records(MAX_RECORDS_BYTES, MAX_RECORDS)
                ]
                next_offset = offsets_of(found[-1])[1] + 1 if found else offset
            except CodecError as error:
                raise ClusterError(f"{topic}, partition {partition}, from offset {offset} on: {error}") from error
            empty = 0 if found else empty + 1
            if empty == MAX_EMPTY:
                return
            yield Read([one for one in records if offset <= one[0] < end], next_offset)
            offset = next_offset

    async def _fetch(self, topic: str, partition: int, offset: int) -> tuple[int, bytes, list[AbortedTransaction]]:
        """Last stable offset, data and aborted transactions."""
        request = FetchRequest(
            FETCH_WAIT_MS, 1, FETCH_BYTES, READ_COMMITTED, [(topic, [(partition, offset, FETCH_BYTES)])]
        )
        response = await self.ask(self.leader(topic, partition), request, lambda found: found.topics[0][1][0][1])
        _, code, _, stable, *between, data = response.topics[0][1][0]
        check(code, f"{topic}, partition {partition}")
        aborted = next((one for one in between if isinstance(one, list)), [])  # versions differ in what is beside it
        transactions = [AbortedTransaction(producer_id=one[0], first_offset=one[1]) for one in aborted]
        return stable, data or b"", transactions

    def leader(self, topic: str, partition: int) -> Node:
        async def find() -> int | None:
            await self._know(topic)
            found: int | None = self._client.cluster.leader_for_partition(TopicPartition(topic, partition))
            return None if found is None or found < 0 else found

        return find

    def coordinator(self, kind: int, key: str) -> Node:
        """The coordinator of a group or of a transactional id."""

        async def find() -> int:
            if (kind, key) not in self._coordinators:
                self._coordinators[kind, key] = await self._client.coordinator_lookup(kind, key)
            return self._coordinators[kind, key]

        return find

    async def ask(
        self, node: Node, request: Any, code_of: Callable[[Any], int], group: int = ConnectionGroup.DEFAULT
    ) -> Any:
        """The response of a broker; asked again for PATIENCE_S while there is none, or one that asks for it.

        Raises ClusterError: there is none.
        """
        deadline, pause, why = time.monotonic() + PATIENCE_S, FIRST_PAUSE_S, ""
        while time.monotonic() < deadline:
            try:
                found = await node()
                if found is not None:
                    response = await self._client.send(found, request, group=group)
                    code = code_of(response)
                    if not _is_retried(code):
                        return response
                    why = for_code(code).__name__
                else:
                    why = "a partition has no leader"
            except FAILURES as error:
                if isinstance(error, KafkaError) and not error.retriable and getattr(error, "errno", -1) > 0:
                    raise ClusterError(describe(error)) from error
                why = describe(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_S)
            self._coordinators.clear()
            await self._client.force_metadata_update()
        raise ClusterError(f"no answer within {PATIENCE_S:g} s: {why}")

    async def _know(self, topic: str) -> None:
        if topic not in self._known:
            self._known.add(topic)
            await self._client.set_topics(self._known)


@asynccontextmanager
async def connect(settings: Mapping[str, Any]) -> AsyncIterator[Cluster]:
    """A cluster, connected to with the arguments of aiokafka's clients. Raises ClusterError."""
    consumer: Any = AIOKafkaConsumer(**settings, enable_auto_commit=False)
    create_no_topics(consumer._client)
    servers = ", ".join(settings["bootstrap_servers"])
    try:
        try:
            async with asyncio.timeout(REACH_S):
                await consumer.start()
        except TimeoutError as error:
            raise ClusterError(f"{servers}: no answer within {REACH_S:g} s") from error
        except FAILURES as error:
            raise ClusterError(f"{servers}: cannot be reached: {describe(error)}") from error
        yield Cluster(consumer)
    finally:
        await consumer.stop()


def check(code: int, what: str) -> None:
    """Raises ClusterError if a code is one of an error."""
    if code != ErrorCode.NONE:
        raise ClusterError(f"{what}: {error_name(code)}")


def describe(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _is_retried(code: int) -> bool:
    kind = for_code(code)
    return kind is not NoError and (code in RETRIED or kind.retriable or kind.invalid_metadata)


def codes_of(topics: Sequence[Any]) -> int:
    """The first error of a response with a list of topics, each with a list of (partition, code)."""
    codes = [code for _, found in topics for _, code in found]
    no_reason = (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)
    return next((code for code in codes if code not in no_reason), ErrorCode.NONE)
