"""Reads partitions of a cluster in batches as they are stored: aiokafka connects and authenticates, our codec decodes.

Kafka's consumers return records one at a time, without the batch that policies validate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.fetch import FetchRequest

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Batch, batches
from kafka_sidecar.large_messages.reading import Fetched, Read
from kafka_sidecar.pipeline.brokers import REACH_S, UnreachableError
from kafka_sidecar.pipeline.records.slices import Slice
from kafka_sidecar.proxy.runtime.aiokafka_settings import create_no_topics

FETCH_BYTES = 8 << 20  # of one response: its bytes are in memory twice, the records of one batch once more
MAX_WAIT_MS = 500
MIN_BYTES = 1
MAX_ATTEMPTS = 8
RETRY_S = 0.25  # doubled with each attempt
FAILURES = (KafkaError, OSError, TimeoutError)

Settings = Mapping[str, Any]
# What may be read of a partition: (first offset, offset after the last one).
Ranges = dict[tuple[str, int], tuple[int, int]]

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # failures are raised


class LogError(Exception):
    """The log cannot be read. The text says of which topic, and why."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of the range to replay: an offset, or a time in ms since 1970."""

    offset: int | None = None
    time_ms: int | None = None


def find_ranges(settings: Settings, topics: Sequence[str], first: Bound | None, end: Bound | None) -> Ranges:
    """The offsets of each partition that are between the bounds, and in the log now.

    Raises LogError, UnreachableError.
    """
    try:
        return asyncio.run(_find_ranges(settings, topics, first, end))
    except FAILURES as error:
        raise LogError(f"{', '.join(topics)}: {_describe(error)}") from error


async def _find_ranges(settings: Settings, topics: Sequence[str], first: Bound | None, end: Bound | None) -> Ranges:
    async with _client(settings) as consumer:
        partitions = []
        await consumer._client.set_topics(topics)
        for topic in topics:
            if not (numbers := consumer._client.cluster.partitions_for_topic(topic)):
                raise LogError(f"topic {topic} does not exist, or may not be described")
            partitions += [TopicPartition(topic, number) for number in sorted(numbers)]
        starts: dict[TopicPartition, int] = await consumer.beginning_offsets(partitions)
        ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
        firsts = await _offsets_at(consumer, first, starts, ends)
        lasts = await _offsets_at(consumer, end, ends, ends)
    return {
        (one.topic, one.partition): (
            min(max(firsts[one], starts[one]), ends[one]),
            max(min(lasts[one], ends[one]), starts[one]),
        )
        for one in partitions
    }


async def _offsets_at(
    consumer: Any, bound: Bound | None, default: Mapping[Any, int], ends: Mapping[Any, int]
) -> Mapping[Any, int]:
    if bound is None:
        return default
    if bound.offset is not None:
        return dict.fromkeys(default, bound.offset)
    found = await consumer.offsets_for_times(dict.fromkeys(default, bound.time_ms))
    return {one: found[one].offset if found.get(one) is not None else ends[one] for one in default}


@asynccontextmanager
async def _client(settings: Settings) -> AsyncIterator[Any]:
    """A consumer that joins no group and assigns nothing: it finds leaders and offsets, and it connects.

    Raises UnreachableError.
    """
    consumer: Any = AIOKafkaConsumer(**settings, enable_auto_commit=False)
    create_no_topics(consumer._client)
    try:
        try:
            async with asyncio.timeout(REACH_S):
                await consumer.start()
        except TimeoutError as error:
            raise UnreachableError(settings["bootstrap_servers"], f"no response within {REACH_S} s") from error
        except FAILURES as error:
            raise UnreachableError(settings["bootstrap_servers"], _describe(error)) from error
        yield consumer
    finally:
        await consumer.stop()


class PartitionReader:
    """Reads one slice. `batches` may be called once; ``deleted`` is complete when it has ended."""

    def __init__(self, settings: Settings, part: Slice) -> None:
        self._settings = settings
        self._part = part
        self._runner = asyncio.Runner()
        self._client: Any = None  # connected while `batches` is used
        self.deleted: list[tuple[int, int]] = []  # offsets (first, end) that were deleted before they were read

    def batches(self) -> Iterator[Batch]:
        """The batches of the slice, the first one whole. Raises LogError, UnreachableError."""
        with self._runner as runner:
            chunks = self._chunks()
            try:
                while (found := runner.run(anext(chunks, None))) is not None:
                    yield from found
            finally:
                runner.run(chunks.aclose())

    def read(self, asked: Read) -> Fetched:
        """What is stored from another offset on, while `batches` is used. Raises LogError."""
        log_start, data = self._runner.run(self._fetch(self._client, asked.offset))
        if data is None:
            return Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=log_start)
        return Fetched(ErrorCode.NONE, data, log_start_offset=log_start)

    async def _chunks(self) -> AsyncGenerator[list[Batch], None]:
        part = self._part
        async with self._connected() as consumer:
            offset, self._client = part.first, consumer._client
            while offset < part.end:
                log_start, data = await self._fetch(consumer._client, offset)
                if data is None:  # deleted meanwhile
                    end = min(max(log_start, offset + 1), part.end)
                    self.deleted.append((offset, end))
                    offset = end
                    continue
                found = self._decode(data)
                if not found:  # nothing is left up to the end: compacted
                    return
                yield found
                offset = max(offset, _end_offset(found[-1]))

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        try:
            async with _client(self._settings) as consumer:
                await consumer._client.set_topics([self._part.topic])
                yield consumer
        except FAILURES as error:
            raise self._failed(_describe(error)) from error

    def _decode(self, data: bytes) -> list[Batch]:
        try:
            return batches(data, may_end_early=True)
        except CodecError as error:
            raise self._failed(str(error)) from error

    async def _fetch(self, client: Any, offset: int) -> tuple[int, bytes | None]:
        """The start of the log, and what a broker returns from an offset on; None if that is before the start."""
        part, why = self._part, ""
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                await asyncio.sleep(RETRY_S * 2**attempt)
                await client.force_metadata_update()
            try:
                leader = client.cluster.leader_for_partition(TopicPartition(part.topic, part.partition))
                if leader is None or leader < 0:
                    why = "it has no leader"
                    continue
                # Aborted transactions too: the proxy would have validated their records.
                fetch = FetchRequest(
                    MAX_WAIT_MS, MIN_BYTES, FETCH_BYTES, 0, [(part.topic, [(part.partition, offset, FETCH_BYTES)])]
                )
                ((_, ((_, code, high_watermark, _, log_start, *_, data),)),) = (await client.send(leader, fetch)).topics
            except FAILURES as error:
                why = _describe(error)
                continue
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                return await self._log_start(log_start), None
            if code == ErrorCode.NONE:
                if data or high_watermark >= part.end:
                    return log_start, data
                why = f"its high watermark is {high_watermark} and was {part.end}"  # of a new leader, for a moment
                continue
            kind = for_code(code)
            why = kind.__name__
            if not kind.retriable and not kind.invalid_metadata:
                break
        raise self._failed(why)

    async def _log_start(self, log_start: int) -> int:
        """The first offset of the log; a response with an error need not have it."""
        if log_start >= 0:
            return log_start
        async with _client(self._settings) as consumer:
            partition = TopicPartition(self._part.topic, self._part.partition)
            starts: dict[TopicPartition, int] = await consumer.beginning_offsets([partition])
            return starts[partition]

    def _failed(self, why: str) -> LogError:
        return LogError(f"{self._part.topic}, partition {self._part.partition}: {why}")


def _describe(error: BaseException) -> str:
    return str(error) if isinstance(error, KafkaError) else f"{type(error).__name__}: {error}"


def _end_offset(batch: Batch) -> int:
    """The offset after the last record of a batch."""
    if batch.magic < 2:  # the offset of its last message
        return int.from_bytes(batch.data[:8], "big") + 1
    return batch.header.base_offset + batch.header.last_offset_delta + 1
