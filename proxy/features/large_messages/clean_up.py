"""Deletes the objects of a store that no record refers to. The order makes it safe while producers write:

    list the objects --> read the topic to the end that it has after that --> delete what is not referred to, and old

An object is stored before its record is sent. One that was listed and whose record came later than the end is younger
than the time from its storing to its record, which is far below the smallest age. A record refers to its object in a
header. Nothing of this is done by a sidecar that serves clients.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.large_messages.object_reference import KEY, VERSION, ObjectReference, is_key_of
from kafka_sidecar.proxy.features.large_messages.object_store import open_store
from kafka_sidecar.proxy.runtime.aiokafka_settings import create_client
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

MIN_AGE_S = 3600.0  # a record comes seconds after its object; the rest is for clocks that differ
DELETED_AT_ONCE = 1000  # as many as S3 takes in one request
WAIT_MS = 1000
STALLED_S = 60.0  # without a record before the end: something is wrong


class IncompleteError(Exception):
    """A topic cannot be read whole, so nothing of it may be deleted; one line that says why."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of the store."""

    key: str
    size: int  # bytes
    modified_at: float  # seconds since 1970, by the store's clock


class Store(Protocol):
    """Where the objects are."""

    async def topics(self) -> list[str]:
        """The topics that have objects."""
        ...

    def objects(self, topic: str) -> AsyncIterator[Sequence[StoredObject]]: ...

    async def delete(self, keys: Sequence[str]) -> None: ...


class References(Protocol):
    """What records refer to."""

    async def read(self, topic: str) -> set[str]:
        """The keys of all objects to which a record of the topic refers, whether or not its transaction is committed,
        up to the ends that the partitions have now. Raises IncompleteError."""
        ...


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was found in one topic."""

    topic: str
    listed: int = 0
    referenced: int = 0
    young: int = 0  # not referred to, and too young to be deleted
    unreferenced: int = 0  # the rest: these are deleted
    unreferenced_bytes: int = 0
    deleted: int = 0
    trouble: str | None = None  # why nothing was deleted


async def clean_topic(
    topic: str, store: Store, references: References, older_than_s: float, now: float, is_dry: bool
) -> Cleaned:
    """Delete a topic's objects to which no record refers.

    Args:
        older_than_s: the age that an object must have, in seconds.
        now: seconds since 1970.
        is_dry: only find out what would be deleted.

    Raises OSError where the store fails.
    """
    listed = [one async for page in store.objects(topic) for one in page if is_key_of(topic, one.key)]
    try:
        referenced = await references.read(topic) if listed else set[str]()
    except IncompleteError as error:
        return Cleaned(topic, len(listed), trouble=str(error))
    others = [one for one in listed if one.key not in referenced]
    old = [one for one in others if now - one.modified_at > older_than_s]
    deleted = 0
    if not is_dry:
        for at in range(0, len(old), DELETED_AT_ONCE):
            keys = [one.key for one in old[at : at + DELETED_AT_ONCE]]
            await store.delete(keys)
            deleted += len(keys)
    return Cleaned(
        topic, len(listed), len(listed) - len(others), len(others) - len(old), len(old),
        sum(one.size for one in old), deleted,
    )  # fmt: skip


class ObjectListing:
    """As `clean_up.Store`."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        """Raises ValueError as `ObjectStore`."""
        self._store = open_store(url, options)

    async def topics(self) -> list[str]:
        """The topics that have objects. Raises OSError."""
        try:
            found = await self._store.list_with_delimiter_async()
        except Exception as error:
            raise OSError(f"the object store cannot be listed: {type(error).__name__}") from error
        return sorted(prefix.rstrip("/") for prefix in found["common_prefixes"])

    async def objects(self, topic: str) -> AsyncIterator[Sequence[StoredObject]]:
        """Those of a topic, page by page. Raises OSError."""
        try:
            async for page in self._store.list(topic):
                yield [StoredObject(one["path"], one["size"], one["last_modified"].timestamp()) for one in page]
        except Exception as error:
            raise OSError(f"the object store cannot be listed: {type(error).__name__}") from error

    async def delete(self, keys: Sequence[str]) -> None:
        """What is gone already counts as deleted. Raises OSError."""
        try:
            await self._delete(keys)
        except Exception as error:
            raise OSError(f"objects cannot be deleted: {type(error).__name__}") from error

    async def _delete(self, keys: Sequence[str]) -> None:
        try:
            await self._store.delete_async(list(keys))
        except FileNotFoundError:  # a folder stops at the first key that another run has deleted
            for key in keys:
                with suppress(FileNotFoundError):
                    await self._store.delete_async(key)


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
            AIOKafkaConsumer, self._access, bootstrap_servers=self._servers, enable_auto_commit=False,
            auto_offset_reset="none", isolation_level="read_uncommitted",
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
