"""The object store: what is written is read, each within its time."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from kafka_sidecar.proxy.features.large_messages.object_needs import GetObject, PutObjects
from kafka_sidecar.proxy.features.large_messages.object_store import ObjectStore

OBJECTS = (("orders/a", b"one"), ("orders/b", b""))


@pytest.mark.parametrize("kind", ["file", "memory"])
async def test_objects_are_read_as_they_were_written(kind: str, tmp_path: Path) -> None:
    store = ObjectStore(f"file://{tmp_path}/new" if kind == "file" else "memory:///", {}, 10)
    await store.put(PutObjects(OBJECTS))
    assert [await store.get(GetObject(key, 10)) for key, _ in OBJECTS] == [b"one", b""]
    assert await store.get(GetObject("orders/a", 3)) == b"one"
    assert await store.get(GetObject("orders/a", 2)) is None  # it is larger than its reference says
    assert await store.get(GetObject("orders/c", 10)) is None
    if kind == "file":
        assert (tmp_path / "new" / "orders" / "a").read_bytes() == b"one"


class SlowStore:
    """Responds when it is let go."""

    def __init__(self) -> None:
        self.go_on, self.reads = asyncio.Event(), 0

    async def get_async(self, key: str) -> Any:
        self.reads += 1
        await self.go_on.wait()
        raise FileNotFoundError(key)

    async def put_async(self, key: str, value: bytes) -> None:
        raise RuntimeError("secret")


async def test_those_who_read_the_same_object_share_one_read_and_one_may_go_away() -> None:
    store, slow = ObjectStore("memory:///", {}, 10), SlowStore()
    store._store = slow
    waiting = [asyncio.ensure_future(store.get(GetObject("a", 1))) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    slow.go_on.set()
    assert await asyncio.gather(*waiting[1:]) == [None, None]
    assert slow.reads == 1


async def test_a_store_that_fails_or_does_not_respond_raises_what_quotes_nothing() -> None:
    store = ObjectStore("memory:///", {}, 0.01)
    store._store = SlowStore()
    with pytest.raises(OSError, match=r"has not responded in 0\.01 s"):
        await store.get(GetObject("a", 1))
    with pytest.raises(OSError, match=r"^the object store has failed: RuntimeError$"):
        await store.put(PutObjects(OBJECTS))


def test_a_url_of_no_store_and_a_missing_library_are_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    for url, options in (("nothing://x", {}), ("s3://b", {"nonsense": "x"}), ("s3://b", {"allow_http": "true"})):
        with pytest.raises(ValueError, match=r"^large_messages\.object_store: .*$"):
            ObjectStore(url, options, 1)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[object-store\]'"):
        ObjectStore("memory:///", {}, 1)
