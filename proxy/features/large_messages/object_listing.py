"""The objects of a store, listed and deleted: what the sidecar itself never does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress

from kafka_sidecar.proxy.features.large_messages.clean_up import StoredObject
from kafka_sidecar.proxy.features.large_messages.object_store import open_store


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
