"""The objects of a store by topic, and their end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_sidecar.proxy.features.large_messages.object_listing import ObjectListing


async def test_objects_are_listed_by_topic_and_deleted(tmp_path: Path) -> None:
    for name in ("orders/a", "orders/b", "returns/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    store = ObjectListing(f"file://{tmp_path}", {})
    assert await store.topics() == ["orders", "returns"]
    listed = [one async for page in store.objects("orders") for one in page]
    assert [(one.key, one.size) for one in sorted(listed, key=lambda one: one.key)] == [
        ("orders/a", 5),
        ("orders/b", 5),
    ]
    assert listed[0].modified_at == pytest.approx((tmp_path / "orders/a").stat().st_mtime, abs=5)
    await store.delete(["orders/a"])
    assert not (tmp_path / "orders/a").exists()


async def test_a_store_that_fails_is_an_oserror_without_what_it_says() -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("secret")

    store = ObjectListing("memory:///", {})
    store._store = Broken()
    with pytest.raises(OSError, match="cannot be listed: RuntimeError"):
        await store.topics()
    with pytest.raises(OSError, match="cannot be listed: RuntimeError"):
        [page async for page in store.objects("orders")]
    with pytest.raises(OSError, match="cannot be deleted: RuntimeError"):
        await store.delete(["orders/a"])


async def test_objects_that_another_run_has_deleted_do_not_keep_the_others(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    for name in ("a", "c"):
        (tmp_path / "orders" / name).write_bytes(b"12345")
    await ObjectListing(f"file://{tmp_path}", {}).delete(["orders/a", "orders/b", "orders/c"])
    assert list((tmp_path / "orders").iterdir()) == []
