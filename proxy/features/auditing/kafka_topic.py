"""The audit topic in Kafka, through aiokafka: created if it is absent, written with acks=all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError, RecordTooLargeError
from aiokafka.partitioner import DefaultPartitioner

from kafka_sidecar.audit.outbox import Pending
from kafka_sidecar.proxy.runtime.aiokafka_settings import create_topic, start_producer
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

REQUEST_LIMIT_MS = 10_000
LINGER_MS = 5
MAX_REQUEST_BYTES = 1 << 20
HASHED = DefaultPartitioner()
TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError, RecordTooLargeError)


@dataclass(frozen=True, slots=True)
class AuditTopic:
    """The topic, as it is created if it is absent."""

    name: str
    partitions: int = -1  # -1: the cluster's default
    replication_factor: int = -1
    configs: dict[str, str] = field(default_factory=dict)


class KafkaTopic:
    """One producer, which is connected when the first events are written."""

    failures = (KafkaError, OSError, TimeoutError)

    def __init__(self, bootstrap_servers: list[str], topic: AuditTopic, access: BrokerAccess) -> None:
        self._topic = topic
        self._access = access
        self._common: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, "request_timeout_ms": REQUEST_LIMIT_MS}
        self._producer: Any = None
        self.too_large = 0

    async def write(self, events: list[Pending]) -> tuple[list[Pending], str | None]:
        if self._producer is None:
            self._producer = await self._connect()
        results = await asyncio.gather(*map(self._write_one, events), return_exceptions=True)
        unwritten, failure = [], None
        for event, result in zip(events, results, strict=True):
            if isinstance(result, TOO_LARGE):
                self.too_large += 1
            elif isinstance(result, self.failures):
                unwritten.append(event)
                failure = str(result) or repr(result)
            elif isinstance(result, BaseException):
                raise result
        return unwritten, failure

    async def stop(self) -> None:
        if self._producer is not None:
            await self._producer.stop()

    async def _write_one(self, event: Pending) -> None:
        await (await self._producer.send(self._topic.name, event.value, event.key))

    async def _connect(self) -> Any:
        topic = self._topic
        await create_topic(
            self._access, topic.name, topic.partitions, topic.replication_factor, topic.configs, **self._common
        )
        return await start_producer(
            self._access, compression_type="lz4", linger_ms=LINGER_MS, max_request_size=MAX_REQUEST_BYTES,
            partitioner=partition_of, **self._common,
        )  # fmt: skip


def partition_of(key: bytes, partitions: Sequence[int], available: Sequence[int]) -> int:
    """As Kafka's producers choose it by the key, of the partitions that have a leader: events have an id, and no order,
    so one partition without a leader holds up none."""
    found: int = HASHED(key, partitions, partitions)
    return found if found in available or not available else HASHED(key, sorted(available), available)
