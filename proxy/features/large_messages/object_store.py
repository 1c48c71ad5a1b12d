"""The object store, by its URL: a folder, S3, Google Cloud Storage, Azure, or memory (decision 22)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kafka_sidecar.proxy.features.large_messages.object_needs import GetObject, PutObjects

MISSING_LIBRARY = "large_messages.object_store needs obstore: in a clone, pip install '.[object-store]'"
PANIC = "PanicException"  # of obstore for some invalid options: no Exception, and not to be imported


def open_store(url: str, options: Mapping[str, str]) -> Any:
    """The store of obstore for a URL. Raises ValueError as `ObjectStore`."""
    try:
        from obstore.store import LocalStore, from_url
    except ImportError as error:
        raise ValueError(MISSING_LIBRARY) from error
    try:
        if url.startswith("file://"):
            return LocalStore(url.removeprefix("file://"), mkdir=True)
        is_plain = any(value.startswith("http://") for value in options.values())
        return from_url(url, config=dict(options), client_options={"allow_http": is_plain})  # type: ignore[call-overload]
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        raise ValueError(f"large_messages.object_store: {str(error).splitlines()[0]}") from error


def check_store(url: str, options: Mapping[str, str]) -> None:
    """Raises ValueError as `open_store`, without a connection; nor is a folder made."""
    if not url.startswith("file://"):
        open_store(url, options)
        return
    folder = Path(url.removeprefix("file://"))
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"large_messages.object_store: {folder} cannot be made or written to: see {existing}")


class ObjectStore:
    """Reads and writes objects, each within a time limit. Those who read the same object share one read."""

    def __init__(self, url: str, options: Mapping[str, str], timeout_s: float) -> None:
        """
        Raises:
            ValueError: there is no such store, or an option is unknown; or the library is not installed.
        """
        self._store = open_store(url, options)
        self._timeout_s = timeout_s
        self._reads: dict[GetObject, asyncio.Task[bytes | None]] = {}

    async def put(self, need: PutObjects) -> None:
        """Store all of them at once. Raises OSError."""
        puts = [self._store.put_async(key, value) for key, value in need.objects]
        await self._in_time(asyncio.gather(*puts))

    async def get(self, need: GetObject) -> bytes | None:
        """The object; None: there is none, or it is larger. Raises OSError."""
        read = self._reads.get(need)
        if read is None:
            read = self._reads[need] = asyncio.get_running_loop().create_task(self._read(need), name="read an object")
            read.add_done_callback(partial(self._forget, need))
        return await asyncio.shield(read)  # the connection may end: others wait for the same

    def _forget(self, need: GetObject, read: asyncio.Task[bytes | None]) -> None:
        del self._reads[need]
        read.exception()  # is retrieved: those who waited may all have gone

    async def _read(self, need: GetObject) -> bytes | None:
        try:
            found = await self._in_time(self._store.get_async(need.key))
            if found.meta["size"] > need.max_size:
                return None
            return bytes(await self._in_time(found.bytes_async()))
        except FileNotFoundError:
            return None

    async def _in_time(self, work: Any) -> Any:
        """The result. Raises OSError, whatever the store has raised."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await work
        except FileNotFoundError:
            raise
        except TimeoutError as error:
            raise OSError(f"the object store has not responded in {self._timeout_s:g} s") from error
        except Exception as error:
            raise OSError(f"the object store has failed: {type(error).__name__}") from error
