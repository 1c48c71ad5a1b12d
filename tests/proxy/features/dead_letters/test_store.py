"""Letters that wait: in memory, on disk while they cannot be sent, in order, and each sent once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.in_process import until
from support.letters import names_of, parcel

from kafka_sidecar.dead_letters.buffer import Buffer
from kafka_sidecar.dead_letters.parcels import Parcel
from kafka_sidecar.proxy.features.dead_letters import store as module
from kafka_sidecar.proxy.features.dead_letters.spool import Spool
from kafka_sidecar.proxy.features.dead_letters.store import Store
from kafka_sidecar.proxy.runtime import sending
from kafka_sidecar.proxy.runtime.sending import Sender
from kafka_sidecar.proxy.runtime.tasks import stop

LIMIT_S = 10.0


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(sending, "MAX_RETRY_S", 0.01)
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    monkeypatch.setattr(module, "SLOW_S", 0.05)
    monkeypatch.setattr(module, "RETRY_S", 0.01)


class Topic:
    """What is written, and a failure as long as there is one."""

    failures = (OSError,)

    def __init__(self) -> None:
        self.names: list[str] = []
        self.error: OSError | None = None
        self.allowed = 1 << 30
        self.open = asyncio.Event()
        self.open.set()

    async def write(self, items: list[Parcel]) -> tuple[list[Parcel], str | None]:
        await self.open.wait()
        if self.error is not None:
            raise self.error
        written, left = items[: self.allowed], items[self.allowed :]
        self.names += names_of(written)
        self.allowed -= len(written)
        return left, "no more" if left else None

    async def stop(self) -> None:
        """It has nothing to stop."""


class Lines:
    def not_sent(self, detail: str) -> None:
        """No line."""

    def sent_again(self) -> None:
        """No line."""

    def crashed(self, error: Exception) -> None:
        raise AssertionError(error)


class Site:
    def __init__(self, folder: Path | None, max_bytes: int = 1 << 20, max_spooled: int = 1 << 20) -> None:
        self.topic = Topic()
        spool = None if folder is None else Spool(folder, max_spooled)
        self.store = Store(Buffer(max_bytes), spool, lambda: self.sender.wake())
        self.sender: Sender[Parcel] = Sender(self.store, lambda: self.topic, Lines(), "send", imports="asyncio")
        self.store.is_failing = self.sender.is_failing
        self.store.being_sent = lambda: self.sender.being_sent

    async def start(self) -> Site:
        await self.store.start()
        self.sender.start()
        return self

    async def stop(self, within_s: float = LIMIT_S) -> int:
        return await self.store.finish(await self.sender.finish(within_s))

    def add(self, *names: str) -> list[bool]:
        return [self.store.add(parcel(name)) for name in names]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "letters"


def files_in(folder: Path) -> list[Path]:
    return list(folder.glob("*.letters"))


async def test_letters_are_sent_in_order(folder: Path) -> None:
    site = await Site(folder).start()
    assert site.add("a", "b", "c") == [True] * 3
    assert await site.stop() == 0
    assert site.topic.names == ["a", "b", "c"]
    assert files_in(folder) == []


async def test_in_an_outage_letters_are_on_disk_and_sent_once_and_in_order_after_it(folder: Path) -> None:
    site = await Site(folder).start()
    site.topic.error = OSError("no broker")
    site.add("a", "b")
    spool = site.store.spool
    assert spool is not None
    await until(lambda: spool.letters == 2)
    site.add("c", "d")
    await until(lambda: spool.letters == 4)
    assert site.store.letters == 4
    assert site.store.oldest_at == 7.5
    site.topic.error = None
    site.add("e")
    await until(lambda: site.store.letters == 0 and spool.bytes == 0)
    assert site.topic.names == ["a", "b", "c", "d", "e"]
    assert not spool.has_more
    assert await site.stop() == 0


async def test_a_broker_that_does_not_answer_is_an_outage(folder: Path) -> None:
    site = await Site(folder).start()
    site.topic.open.clear()
    site.add("a")
    spool = site.store.spool
    assert spool is not None
    await until(lambda: spool.letters == 1)
    site.topic.open.set()
    await until(lambda: site.store.letters == 0)
    assert site.topic.names == ["a"]
    assert await site.stop() == 0


async def test_a_burst_is_on_disk_before_memory_is_full(folder: Path) -> None:
    site = await Site(folder, max_bytes=1000).start()
    site.topic.open.clear()
    kept = 0
    for number in range(50):
        kept += site.add(f"{number:02}")[0]
        await asyncio.sleep(0.01)
    assert kept == 50
    assert site.store.buffer.bytes <= 1000
    site.topic.open.set()
    assert await site.stop() == 0
    assert site.topic.names == [f"{number:02}" for number in range(50)]


async def test_without_room_letters_are_refused_and_none_that_was_taken_is_lost(folder: Path) -> None:
    site = await Site(folder, max_bytes=1000, max_spooled=1500).start()
    site.topic.open.clear()
    taken = []
    for number in range(60):
        if site.add(f"{number:02}")[0]:
            taken.append(f"{number:02}")
        await asyncio.sleep(0.002)
    assert 10 < len(taken) < 60
    site.topic.open.set()
    await until(lambda: site.store.letters == 0)
    assert sorted(site.topic.names) == taken
    assert await site.stop() == 0


async def test_what_a_stop_leaves_is_sent_after_the_next_start_and_nothing_twice(folder: Path) -> None:
    site = await Site(folder).start()
    site.topic.allowed = 2
    site.add("a", "b", "c", "d")
    await until(lambda: len(site.topic.names) == 2)
    site.add("e")
    assert await site.stop(0.05) == 0
    again = await Site(folder).start()
    await until(lambda: again.store.letters == 0)
    assert sorted(site.topic.names + again.topic.names) == ["a", "b", "c", "d", "e"]
    assert await again.stop() == 0
    assert dict(again.store.dropped) == {"not_sent": 0}


async def test_without_a_folder_a_stop_loses_and_counts_what_is_left() -> None:
    site = await Site(None).start()
    site.topic.error = OSError("no broker")
    site.add("a", "b")
    await until(lambda: site.sender.failures > 0)
    site.add("c")
    assert await site.stop(0.01) == 3
    assert site.store.dropped == {"not_sent": 3}


async def test_a_kill_loses_only_what_is_not_on_disk_and_that_is_counted(folder: Path) -> None:
    site = await Site(folder).start()
    site.add("sent")
    await until(lambda: site.topic.names == ["sent"])
    site.topic.open.clear()
    site.add("a", "b")
    spool = site.store.spool
    assert spool is not None
    await until(lambda: spool.letters == 2 and site.store._moving is None)
    await stop(*site.store._tasks, *site.sender._tasks)
    site.add("c", "d", "e")
    spool.close()
    site.store.held.close()
    again = await Site(folder).start()
    await until(lambda: again.store.letters == 0)
    assert again.topic.names == ["a", "b"]
    assert again.store.dropped["killed"] == 3
    assert await again.stop() == 0


async def test_a_stop_in_the_middle_of_a_read_loses_nothing(folder: Path) -> None:
    site = await Site(folder).start()
    site.topic.open.clear()
    site.add("a")
    spool = site.store.spool
    assert spool is not None
    await until(lambda: spool.letters == 1)
    site.add("b")
    await until(lambda: spool.letters == 2)
    assert await site.stop(0.0) == 0
    again = Site(folder)
    await again.store.start()
    taking = asyncio.ensure_future(again.store.take())
    await asyncio.sleep(0)
    taking.cancel()
    await asyncio.wait([taking])
    assert names_of(await again.store.take()) in (["a", "b"], ["b", "a"])
    await again.store.written()
    assert await again.store.finish([]) == 0


async def test_a_stop_while_letters_of_an_earlier_process_cannot_be_sent_keeps_them(folder: Path) -> None:
    site = await Site(folder).start()
    site.topic.error = OSError("no broker")
    site.add("a")
    assert await site.stop(0.05) == 0
    again = await Site(folder).start()
    again.topic.error = OSError("no broker")
    again.sender.wake()
    await until(lambda: again.sender.failures > 0)
    assert await again.stop(0.05) == 0
    last = await Site(folder).start()
    await until(lambda: last.store.letters == 0)
    assert last.topic.names == ["a"]
    assert await last.stop() == 0


async def test_a_disk_that_fails_costs_nothing_while_memory_has_room(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site = await Site(folder).start()
    spool = site.store.spool
    assert spool is not None

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(spool, "write", full)
        site.topic.open.clear()
        site.add("a", "b")
        await until(lambda: site.store.spool_failure is not None)
        await asyncio.sleep(0.05)
    assert [one.message for one in caplog.records].count("dead letter spool not written") == 1
    site.topic.open.set()
    await until(lambda: site.store.letters == 0)
    assert site.topic.names == ["a", "b"]
    assert await site.stop() == 0


@pytest.mark.parametrize("fails", [False, True])
async def test_letters_that_are_being_written_to_disk_are_counted_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Before the first of them is there, and once it is and others are not."""
    site = await Site(folder).start()
    site.topic.open.clear()
    spool = site.store.spool
    assert spool is not None
    write, seen = spool.write, list[int]()
    loop = asyncio.get_running_loop()

    async def look() -> int:
        return site.store.letters

    def watched(parcels: list[Parcel]) -> int:
        for done in (lambda: None, lambda: write(parcels[: 0 if fails else None])):
            done()
            seen.append(asyncio.run_coroutine_threadsafe(look(), loop).result(LIMIT_S))
        return 0 if fails else len(parcels)

    monkeypatch.setattr(spool, "write", watched)
    site.add("a")
    await until(lambda: site.sender.being_sent)
    site.add("b", "c")
    await until(lambda: len(seen) >= 4)  # the one that is being sent, and those that wait for it
    site.topic.open.set()
    await until(lambda: site.store.letters == 0)
    assert set(seen) == {3}
    assert await site.stop() == 0
