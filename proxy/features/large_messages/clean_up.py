"""Deletes the objects of a store that no record refers to. The order makes it safe while producers write:

    list the objects --> read the topic to the end that it has after that --> delete what is not referred to, and old

An object is stored before its record is sent. One that was listed and whose record came later than the end is younger
than the time from its storing to its record, which is far below the smallest age.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from kafka_sidecar.large_messages.object_reference import is_key_of

MIN_AGE_S = 3600.0  # a record comes seconds after its object; the rest is for clocks that differ
DELETED_AT_ONCE = 1000  # as many as S3 takes in one request


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
