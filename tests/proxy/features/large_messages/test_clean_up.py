"""Which objects are deleted, whatever the store and the topic hold, and in which order both are read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.large_messages.object_reference import ObjectReference, new_key
from kafka_sidecar.proxy.features.large_messages.clean_up import (
    IncompleteError,
    ObjectListing,
    StoredObject,
    clean_topic,
    keys_in,
)

NOW, AGE_S = 1_000_000.0, 3600.0
KEY = new_key("orders", bytes(16))
HEADER = ObjectReference(KEY, 1, 2).encode()


def key(number: int) -> str:
    return f"orders/{number:032x}"


@dataclass
class Site:
    """A store and a topic; what happens is noted."""

    objects_of: dict[str, list[StoredObject]] = field(default_factory=dict)
    referenced: set[str] = field(default_factory=set)
    trouble: str | None = None
    events: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    async def topics(self) -> list[str]:
        return [*self.objects_of]

    async def objects(self, topic: str) -> AsyncIterator[Sequence[StoredObject]]:
        self.events.append("listed")
        for one in self.objects_of[topic]:
            yield [one]

    async def delete(self, keys: Sequence[str]) -> None:
        self.deleted += keys

    async def read(self, topic: str) -> set[str]:
        self.events.append("read")
        if self.trouble is not None:
            raise IncompleteError(self.trouble)
        return self.referenced


@given(st.lists(st.tuples(st.booleans(), st.floats(min_value=0, max_value=2 * AGE_S)), max_size=20))
async def test_exactly_the_old_objects_without_a_reference_are_deleted(kinds: list[tuple[bool, float]]) -> None:
    listed = [StoredObject(key(number), number, NOW - age_s) for number, (_, age_s) in enumerate(kinds)]
    site = Site({"orders": listed}, {key(number) for number, (is_referenced, _) in enumerate(kinds) if is_referenced})
    expected = [key(number) for number, (kept, age_s) in enumerate(kinds) if not kept and age_s > AGE_S]
    found = await clean_topic("orders", site, site, AGE_S, NOW, is_dry=False)
    assert site.deleted == expected
    assert found.listed == len(kinds) == found.referenced + found.young + found.unreferenced
    assert found.deleted == found.unreferenced == len(expected)


async def test_the_store_is_listed_before_the_topic_is_read() -> None:
    site = Site({"orders": [StoredObject(key(1), 1, 0)]})
    await clean_topic("orders", site, site, AGE_S, NOW, is_dry=False)
    assert site.events == ["listed", "read"]


async def test_a_dry_run_deletes_nothing() -> None:
    site = Site({"orders": [StoredObject(key(1), 5, 0)]})
    found = await clean_topic("orders", site, site, AGE_S, NOW, is_dry=True)
    assert (found.unreferenced, found.unreferenced_bytes, found.deleted, site.deleted) == (1, 5, 0, [])


async def test_nothing_is_deleted_of_a_topic_that_cannot_be_read_whole() -> None:
    site = Site({"orders": [StoredObject(key(1), 5, 0)]}, trouble="no broker answers")
    found = await clean_topic("orders", site, site, AGE_S, NOW, is_dry=False)
    assert (found.trouble, site.deleted) == ("no broker answers", [])


@pytest.mark.parametrize("name", ["orders/notes.txt", "other/" + "0" * 32, "orders/sub/" + "0" * 32])
async def test_what_no_sidecar_has_stored_is_not_touched(name: str) -> None:
    site = Site({"orders": [StoredObject(name, 5, 0)]})
    found = await clean_topic("orders", site, site, AGE_S, NOW, is_dry=False)
    assert (found.listed, site.deleted) == (0, [])


async def test_many_objects_are_deleted_in_requests_of_a_thousand() -> None:
    site = Site({"orders": [StoredObject(key(number), 1, 0) for number in range(2500)]})
    assert (await clean_topic("orders", site, site, AGE_S, NOW, is_dry=False)).deleted == 2500


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


def test_a_reference_is_found_among_other_headers() -> None:
    assert keys_in("orders", [("a", None), ("_lmo", HEADER), ("_lm", b"")]) == [KEY]


@pytest.mark.parametrize("value", [None, b"", b"\1short", ObjectReference("returns/1", 1, 2).encode(), HEADER + b"0"])
def test_what_no_sidecar_has_written_for_this_topic_is_no_reference(value: bytes | None) -> None:
    assert keys_in("orders", [("_lmo", value)]) == []


def test_with_a_reference_of_a_newer_version_nothing_of_the_topic_is_deleted() -> None:
    with pytest.raises(IncompleteError, match="a header _lmo has version 2: use the newest sidecar"):
        keys_in("orders", [("_lmo", b"\2" + HEADER[1:])])
