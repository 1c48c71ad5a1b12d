"""The aiokafka clients of the store: what it writes with, what it reads with, who makes its topic."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.features.topic_configs.kafka_store import TopicIds
from kafka_sidecar.proxy.runtime.aiokafka_settings import LONG_POLL_MS, create_client, create_topic, start_producer
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

REQUEST_LIMIT_MS = 5000
METADATA_AGE_MS = 30_000
TOPIC_CONFIGS = {"cleanup.policy": "compact"}


class PartitionLog:
    """The topic's one partition, being read."""

    def __init__(self, consumer: Any, partition: TopicPartition) -> None:
        self._consumer = consumer
        self._partition = partition

    async def start(self) -> int:
        """The offset of the first record that was not deleted."""
        starts: dict[TopicPartition, int] = await self._consumer.beginning_offsets([self._partition])
        return starts[self._partition]

    async def end(self) -> int:
        """The offset after the last record."""
        ends: dict[TopicPartition, int] = await self._consumer.end_offsets([self._partition])
        return ends[self._partition]

    async def next(self, wait_ms: int) -> list[Any]:
        """The next records, as soon as there are any; none after ``wait_ms``."""
        found = await self._consumer.getmany(self._partition, timeout_ms=wait_ms)
        return [record for records in found.values() for record in records]

    async def position(self) -> int:
        """The offset after what has been read."""
        position: int = await self._consumer.position(self._partition)
        return position

    def heard_at(self, before: float) -> float:
        """When a broker last answered, in monotonic seconds; ``before`` where it never has."""
        at_ms = self._consumer.last_poll_timestamp(self._partition)
        return before if at_ms is None else max(before, time.monotonic() - (time.time() - at_ms / 1000))


class KafkaClients:
    """One producer, and a consumer while the topic is read."""

    failures = (KafkaError, OSError, TimeoutError)

    def __init__(
        self,
        bootstrap_servers: list[str],
        topic: str,
        replication_factor: int,
        access: BrokerAccess,
        topic_ids: TopicIds,  # aiokafka knows no ids
    ) -> None:
        self._topic = topic
        self._topic_ids = topic_ids
        self._partition = TopicPartition(topic, 0)
        self._replication_factor = replication_factor
        self._common: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers, "request_timeout_ms": REQUEST_LIMIT_MS,
            "metadata_max_age_ms": METADATA_AGE_MS,
        }  # fmt: skip
        self._access = access
        self._producer: Any = None
        self._starting = asyncio.Lock()

    async def stop(self) -> None:
        if self._producer is not None:
            await self._producer.stop()

    async def topic_id(self) -> bytes | None:
        """The topic's id; zeros where it does not exist, None where no broker says."""
        try:
            return (await self._topic_ids([self._topic])).get(self._topic, NO_ID)
        except (OSError, CodecError):
            return None

    async def write(self, key: bytes, value: bytes | None) -> int:
        """The offset of the record once all replicas in sync have it. Raises one of ``failures``."""
        async with self._starting:
            if self._producer is None:
                self._producer = await start_producer(self._access, **self._common)
        written = await self._producer.send_and_wait(self._topic, value, key, partition=0)
        offset: int = written.offset
        return offset

    @asynccontextmanager
    async def reading(self, create: bool) -> AsyncIterator[PartitionLog]:
        """The topic from its beginning; with ``create`` it may be missing before. Raises one of ``failures``."""
        if create:
            await create_topic(self._access, self._topic, 1, self._replication_factor, TOPIC_CONFIGS, **self._common)
        # "none": a log that was truncated or replaced is an error.
        consumer = create_client(
            AIOKafkaConsumer, self._access, enable_auto_commit=False, auto_offset_reset="none",
            fetch_max_wait_ms=LONG_POLL_MS, **self._common,
        )  # fmt: skip
        try:
            await consumer.start()
            consumer.assign([self._partition])
            await consumer.seek_to_beginning(self._partition)
            yield PartitionLog(consumer, self._partition)
        finally:
            await _stop(consumer)


async def _stop(consumer: Any) -> None:
    """Stop it; a CancelledError that is raised is the caller's own.

    A fetch that waits after a failure is cancelled by aiokafka, which raises its CancelledError out of `stop`, and
    closes no connection.
    """
    results: list[BaseException | None] = await asyncio.gather(consumer.stop(), return_exceptions=True)
    error = results[0]
    if isinstance(error, asyncio.CancelledError):
        await consumer._client.close()
    elif error is not None:
        raise error
