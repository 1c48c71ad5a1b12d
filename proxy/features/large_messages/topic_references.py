"""Reads the headers of a topic's records, from its beginning to its end: to which objects they refer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.large_messages.object_reference import KEY, VERSION, ObjectReference
from kafka_sidecar.proxy.features.large_messages.clean_up import IncompleteError
from kafka_sidecar.proxy.nodes.own_connections import OWN_CLIENT_ID
from kafka_sidecar.proxy.runtime.aiokafka_settings import create_client
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

WAIT_MS = 1000
STALLED_S = 60.0  # without a record before the end: something is wrong


class TopicReferences:
    """Reads topics of one cluster. ``progress`` is called with (topic, offsets read, offsets in all)."""

    def __init__(
        self, bootstrap_servers: list[str], access: BrokerAccess, progress: Callable[[str, int, int], None]
    ) -> None:
        self._servers = bootstrap_servers
        self._access = access
        self._progress = progress

    async def read(self, topic: str) -> set[str]:
        """As `References`."""
        consumer: Any = create_client(
            AIOKafkaConsumer, self._access, bootstrap_servers=self._servers, client_id=OWN_CLIENT_ID,
            enable_auto_commit=False, auto_offset_reset="none", isolation_level="read_uncommitted",
        )  # fmt: skip
        try:
            await consumer.start()
            return await self._read(topic, consumer)
        except (KafkaError, OSError, TimeoutError) as error:
            raise IncompleteError(f"the topic cannot be read: {error or type(error).__name__}") from error
        finally:
            await consumer.stop()

    async def _read(self, topic: str, consumer: Any) -> set[str]:
        if topic not in await consumer.topics():
            raise IncompleteError("there is no such topic in this cluster: delete the folder of its objects by hand")
        await consumer._client.force_metadata_update()
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
        starts: dict[TopicPartition, int] = await consumer.beginning_offsets(partitions)
        for partition, start in starts.items():
            consumer.seek(partition, start)
        found: set[str] = set()
        in_all = sum(ends[one] - starts[one] for one in partitions)
        progressed_at = time.monotonic()
        while open_ones := [one for one in partitions if await consumer.position(one) < ends[one]]:
            for one in set(consumer.assignment()) - set(open_ones):
                consumer.pause(one)
            records = await consumer.getmany(*open_ones, timeout_ms=WAIT_MS)
            if records:
                progressed_at = time.monotonic()
            elif time.monotonic() - progressed_at > STALLED_S:
                raise IncompleteError(f"no record has come for {STALLED_S:g} s, and the end is not reached")
            found |= {key for some in records.values() for one in some for key in keys_in(topic, one.headers)}
            left = sum([max(ends[one] - await consumer.position(one), 0) for one in partitions])
            self._progress(topic, in_all - left, in_all)
        return found


def keys_in(topic: str, headers: Iterable[tuple[str, bytes | None]]) -> list[str]:
    """The objects to which the headers of one record refer.

    Raises IncompleteError where a newer sidecar has written one: its object must not look unused.
    """
    found = []
    for name, value in headers:
        if name.encode() == KEY:
            if value and value[0] > VERSION:
                raise IncompleteError(f"a header _lmo has version {value[0]}: use the newest sidecar's clean-objects")
            try:
                found.append(ObjectReference.decode(value, topic).key)
            except CodecError:
                continue  # a header that no sidecar has written: it refers to no object of this topic
    return found
