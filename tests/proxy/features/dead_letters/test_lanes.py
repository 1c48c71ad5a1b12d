"""Partitions that take nothing: whose letters wait, and which of them are sent once they take letters again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from support.in_process import until
from support.letters import names_of, parcel

from kafka_sidecar.dead_letters.buffer import Buffer
from kafka_sidecar.dead_letters.parcels import Parcel
from kafka_sidecar.proxy.features.dead_letters import store as module
from kafka_sidecar.proxy.features.dead_letters.held import HeldLanes, Lane
from kafka_sidecar.proxy.features.dead_letters.spool import Spool
from kafka_sidecar.proxy.features.dead_letters.store import Store


def to(partition: int, *names: str) -> list[Parcel]:
    return [replace(parcel(name), partition=partition) for name in names]


def lane(partition: int, parcels: Iterable[Parcel] = (), partitions: int = 4) -> Lane:
    found = Lane("dlq", partition, partitions)
    found.parcels.extend(parcels)
    found.task = asyncio.ensure_future(asyncio.Event().wait())  # type: ignore[arg-type]
    return found


async def end(one: Lane, sent: int) -> None:
    """It has sent so many letters itself, and takes no more."""
    one.remove(sent)
    assert one.task is not None
    one.task.cancel()
    await asyncio.wait([one.task])


@pytest.fixture(params=["disk", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    spool = Spool(tmp_path / "letters", 1 << 20) if request.param == "disk" else None
    found = Store(Buffer(1 << 20), spool, lambda: None, HeldLanes())
    await found.start()
    return found


async def drain(store: Store) -> list[str]:
    """All that can be sent now."""
    names: list[str] = []
    while taken := await store.take():
        names += names_of(taken)
        await store.written()
    return names


async def test_letters_of_a_held_lane_wait_and_those_of_others_are_sent(store: Store) -> None:
    for one in [*to(1, "a"), *to(2, "b"), *to(5, "c"), *to(6, "d")]:
        store.add(one)
    held = lane(1)
    store.held.lanes.add(held)
    assert await drain(store) == ["b", "d"]
    assert (store.letters, store.held.letters) == (2, 2)
    assert store.oldest_at == 7.5
    await end(held, 0)
    store.add(*to(2, "e"))
    assert await drain(store) == ["a", "c", "e"]
    assert (store.letters, store.held.lanes.count) == (0, 0)


async def test_what_a_held_lane_has_sent_itself_is_not_sent_again(store: Store) -> None:
    started = to(1, "a", "b", "c")
    held = lane(1, started)
    assert await store.hold(started)
    store.held.lanes.add(held)
    for one in to(1, "d", "e"):
        store.add(one)
    assert await drain(store) == []
    await end(held, 2)
    assert await drain(store) == ["c", "d", "e"]


async def test_the_letters_of_a_lane_that_is_still_held_stay_in_order_when_another_one_is_over(store: Store) -> None:
    first, second = lane(1, to(1, "a1")), lane(2, to(2, "b1"))
    for one in (first, second):
        assert await store.hold(list(one.parcels))
        store.held.lanes.add(one)
    for later in [*to(1, "a2"), *to(2, "b2"), *to(1, "a3"), *to(2, "b3")]:
        store.add(later)
    assert await drain(store) == []
    await end(first, 1)
    assert await drain(store) == ["a2", "a3"]
    store.add(*to(2, "b4"))
    assert await drain(store) == []
    await end(second, 0)
    assert await drain(store) == ["b1", "b2", "b3", "b4"]


async def test_a_lane_that_is_over_while_letters_of_another_are_sent_is_not_forgotten(store: Store) -> None:
    first, second = lane(1, to(1, "a")), lane(2, to(2, "b"))
    for one in (first, second):
        assert await store.hold(list(one.parcels))
        store.held.lanes.add(one)
    await end(first, 0)
    assert names_of(await store.take()) == ["a"]
    await end(second, 0)
    await store.written()
    assert names_of(await store.take()) == ["b"]
    await store.written()
    assert (await store.take(), store.letters) == ([], 0)


async def test_letters_that_are_held_while_they_are_sent_count_once(store: Store) -> None:
    for one in [*to(1, "a"), *to(2, "b")]:
        store.add(one)
    taken = await store.take()
    for again in (False, True):  # they come from memory, then from those that waited
        assert await store.hold(taken[:1])
        assert (store.letters, store.held.letters) == (1 if again else 2, 1)
        store.held.lanes.add(held := lane(1, taken[:1]))
        await store.written()
        assert (store.letters, store.held.letters) == (1, 1)
        await end(held, 0)
        taken = await store.take()
    await store.written()
    assert (store.letters, store.held.letters) == (0, 0)


async def test_letters_that_wait_on_while_those_of_another_lane_are_sent_count_once(store: Store) -> None:
    first, second = lane(1, to(1, "a")), lane(2, to(2, "b"))
    for one in (first, second):
        store.held.lanes.add(one)
        store.add(*one.parcels)
    assert await drain(store) == []
    await end(first, 0)
    assert names_of(await store.take()) == ["a"]
    assert (store.letters, store.held.letters) == (2, 2)
    await store.written()
    assert (store.letters, store.held.letters) == (1, 1)


async def test_a_lane_that_is_held_again_in_the_middle_keeps_its_order(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_sidecar.proxy.features.dead_letters import held as held_module

    monkeypatch.setattr(held_module, "READ_BYTES", 1)
    monkeypatch.setattr(held_module, "FRAME_BYTES", 1)
    monkeypatch.setattr(module, "FRAME_BYTES", 1)
    first = lane(1, to(1, "a1", "a2", "a3"))
    assert await store.hold(list(first.parcels))
    store.held.lanes.add(first)
    await end(first, 1)
    taken = await store.take()
    assert names_of(taken) == ["a2"]
    again = lane(1, taken)
    assert await store.hold(taken)
    store.held.lanes.add(again)
    await store.written()
    assert await drain(store) == []
    store.add(*to(1, "a4"))
    assert await drain(store) == []
    await end(again, 1)
    assert await drain(store) == ["a3", "a4"]


async def test_a_stop_keeps_on_disk_what_held_lanes_have_not_sent(tmp_path: Path) -> None:
    store = Store(Buffer(1 << 20), Spool(tmp_path / "letters", 1 << 20), lambda: None, HeldLanes())
    await store.start()
    held = lane(1, to(1, "a", "b"))
    assert await store.hold(list(held.parcels))
    store.held.lanes.add(held)
    store.add(*to(1, "c"))
    store.add(*to(2, "x"))
    taken = await store.take()
    assert names_of(taken) == ["x"]
    await end(held, 1)
    assert await store.finish(taken) == 0
    again = Store(Buffer(1 << 20), Spool(tmp_path / "letters", 1 << 20), lambda: None, HeldLanes())
    await again.start()
    assert again.letters == 3
    assert await drain(again) == ["b", "c", "x"]
    assert await again.finish([]) == 0


async def test_after_a_kill_what_waited_is_sent_first(tmp_path: Path) -> None:
    store = Store(Buffer(1 << 20), Spool(tmp_path / "letters", 1 << 20), lambda: None, HeldLanes())
    await store.start()
    store.held.lanes.add(lane(1))
    store.add(*to(1, "a"))
    assert await drain(store) == []
    store.held.close()
    assert store.spool is not None
    store.spool.close()
    for task in store._tasks:
        task.cancel()
    again = Store(Buffer(1 << 20), Spool(tmp_path / "letters", 1 << 20), lambda: None, HeldLanes())
    await again.start()
    again.add(*to(1, "b"))
    assert await drain(again) == ["a", "b"]
    assert again.dropped["killed"] == 0
    assert await again.finish([]) == 0


async def test_without_a_folder_a_stop_counts_what_waits_as_lost() -> None:
    store = Store(Buffer(1 << 20), None, lambda: None, HeldLanes())
    store.held.lanes.add(lane(1))
    store.add(*to(1, "a", "b")[:1])
    assert await drain(store) == []
    assert await store.finish([]) == 1
    assert store.dropped["not_sent"] == 1


async def test_without_room_letters_that_would_have_to_wait_stay_where_they_are() -> None:
    store = Store(Buffer(1000), None, lambda: None, HeldLanes())
    held = lane(1)
    store.held.lanes.add(held)
    names = [f"{number}" for number in range(9)]
    assert [store.add(one) for one in to(1, *names)] == [True] * 9
    assert await drain(store) == []
    assert store.letters == 9
    assert store.buffer.bytes + store.held.bytes <= 1000
    await end(held, 0)
    assert await drain(store) == names


async def test_what_waits_takes_room_of_the_others_and_never_more_than_half() -> None:
    store = Store(Buffer(1000), None, lambda: None, HeldLanes())
    store.held.lanes.add(lane(1))
    for number in range(4):
        store.add(*to(1, f"{number}"))
        assert await drain(store) == []
    assert (store.held.bytes, store.buffer.reserved) == (400, 400)
    assert [store.add(*to(2, f"{number}")) for number in range(7)] == [True] * 6 + [False]


async def test_the_end_of_a_lane_wakes_whoever_sends() -> None:
    woken: list[bool] = []
    lanes = HeldLanes(lambda: woken.append(True))
    held = lane(1)
    lanes.add(held)
    assert (lanes.have_ended, lanes.holds(to(1, "a")[0]), lanes.holds(to(2, "b")[0])) == (False, True, False)
    await end(held, 0)
    await until(lambda: woken == [True])
    assert lanes.have_ended
