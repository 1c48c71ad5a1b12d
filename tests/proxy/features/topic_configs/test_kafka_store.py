"""The store over clients that fail as the test wants: what is read, when it is known, and when a write is done."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kafka_sidecar.proxy.features.topic_configs import kafka_store
from kafka_sidecar.proxy.features.topic_configs.kafka_store import KafkaStore, StoreError

ID, OTHER_ID, MISSING = b"1" * 16, b"2" * 16, bytes(16)


@dataclass
class Record:
    key: bytes | None
    value: bytes | None
    offset: int = 0  # where it is in its partition


class LogCutError(Exception):
    """What a consumer says when its offset is gone."""


@dataclass
class Partition:
    """A log, and clients of it whose reading can be stopped and broken."""

    records: list[Record] = field(default_factory=list)
    failures: tuple[type[Exception], ...] = (LogCutError, OSError)
    failure: Exception | None = None
    write_failure: Exception | None = None
    opened: int = 0
    stopped: bool = False
    visible: asyncio.Event = field(default_factory=asyncio.Event)  # whether what is written can be read already
    heard: float = 0.0  # seconds since a broker has answered
    read_to: int = 0
    id: bytes | None = ID  # zeros: there is no topic; None: no broker says
    begins_at: int = 0  # what was before is deleted
    created: int = 0
    asked: int = 0  # how often for its id

    def __post_init__(self) -> None:
        self.visible.set()

    @asynccontextmanager
    async def reading(self, create: bool) -> AsyncIterator[Partition]:
        self._fail()
        self.opened += 1
        self.created += create
        self.read_to = self.begins_at
        yield self

    async def topic_id(self) -> bytes | None:
        self.asked += 1
        return self.id

    async def start(self) -> int:
        return self.begins_at

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def end(self) -> int:
        return len(self.records)

    async def position(self) -> int:
        return self.read_to

    async def next(self, wait_ms: int) -> list[Record]:
        await asyncio.sleep(0.005)
        await self.visible.wait()
        self._fail()
        found = [replace(record, offset=at) for at, record in enumerate(self.records)][self.read_to :]
        self.read_to = len(self.records)
        return found

    def heard_at(self, before: float) -> float:
        return time.monotonic() - self.heard

    async def write(self, key: bytes, value: bytes | None) -> int:
        if self.write_failure is not None:
            raise self.write_failure
        self.records.append(Record(key, value))
        return len(self.records) - 1

    async def stop(self) -> None:
        self.stopped = True


@dataclass
class Listener:
    """Records its calls."""

    calls: list[Any] = field(default_factory=list)

    def began(self) -> None:
        self.calls.append("began")

    def read(self, key: bytes, value: bytes | None) -> None:
        self.calls.append((key, value))

    def caught_up(self) -> None:
        self.calls.append("caught up")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await _a_moment()


async def _a_moment() -> None:
    await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_store, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(kafka_store, "MAX_RETRY_S", 0.02)
    monkeypatch.setattr(kafka_store, "WRITE_LIMIT_S", 0.1)
    monkeypatch.setattr(kafka_store, "CHECK_S", 0.0)


@asynccontextmanager
async def started(partition: Partition) -> AsyncIterator[tuple[KafkaStore, Listener]]:
    store, listener = KafkaStore(lambda: partition), Listener()
    await store.start(listener)
    try:
        yield store, listener
    finally:
        await store.stop()
        assert partition.stopped


async def test_what_is_in_the_topic_is_read_before_it_is_known() -> None:
    async with started(Partition([Record(b"a", b"1"), Record(None, None)])) as (store, listener):
        assert store.trouble == "its topic is not read to the end yet"
        await until(lambda: store.trouble is None)
        assert listener.calls == ["began", (b"a", b"1"), (b"", None), "caught up"]


async def test_an_empty_topic_is_known_at_once() -> None:
    async with started(Partition()) as (store, listener):
        await until(lambda: store.trouble is None)
        assert listener.calls == ["began", "caught up"]


async def test_a_write_is_done_when_it_has_come_back() -> None:
    partition = Partition()
    async with started(partition) as (store, listener):
        await until(lambda: store.trouble is None)
        await store.write(b"a", b"1")
        assert listener.calls[-1] == (b"a", b"1")
        partition.visible.clear()
        await _a_moment()
        with pytest.raises(StoreError, match=r"the brokers did not take it within 0\.1 s"):
            await store.write(b"a", b"2")


@pytest.mark.parametrize("error", [LogCutError("no leader"), OSError("refused"), TimeoutError()])
async def test_a_write_that_fails_says_why(error: Exception) -> None:
    partition = Partition(write_failure=error)
    async with started(partition) as (store, _):
        await until(lambda: store.trouble is None)
        with pytest.raises(StoreError, match=str(error) or "the brokers did not take it"):
            await store.write(b"a", b"1")


@pytest.mark.parametrize("error", [LogCutError("cut"), ValueError("a bug")])
async def test_a_log_that_breaks_is_read_again_from_its_beginning(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    partition = Partition([Record(b"a", b"1")])
    async with started(partition) as (store, listener):
        await until(lambda: store.trouble is None)
        partition.failure = error
        await until(lambda: store.trouble is not None)
        assert str(error) in str(store.trouble)
        partition.records.append(Record(b"b", b"2"))
        partition.failure = None
        await until(lambda: store.trouble is None)
        again = ["began", (b"a", b"1"), (b"b", b"2"), "caught up"]
        assert listener.calls == ["began", (b"a", b"1"), "caught up", *again]
        assert (partition.opened, partition.created) == (2, 1)
        assert len(caplog.records) >= 1


async def test_a_cluster_that_is_silent_is_trouble() -> None:
    partition = Partition(heard=60.0)
    async with started(partition) as (store, _):
        await until(lambda: str(store.trouble).startswith("no broker has answered for 60 s"))


LOSSES: dict[str, tuple[dict[str, Any], str]] = {
    "deleted": ({"id": MISSING}, "it no longer exists"),
    "created again": ({"id": OTHER_ID}, "it was created again: its id was MTEx.*, now it is MjIy"),
    "emptied": ({"begins_at": 2}, "records were deleted: now it begins at offset 2"),
    "truncated": ({"records": []}, "it was truncated: it was read up to offset 2, now it ends at 0"),
}
TWO = [Record(b"a", b"1"), Record(b"b", b"2")]


@pytest.mark.parametrize("interrupted", [False, True], ids=["while it is read", "while it cannot be read"])
@pytest.mark.parametrize("kind", LOSSES)
async def test_a_lost_log_is_neither_read_nor_created_again(
    kind: str, interrupted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    changes, why = LOSSES[kind]
    partition = Partition([*TWO])
    async with started(partition) as (store, listener):
        await until(lambda: store.trouble is None)
        before = [*listener.calls]
        if interrupted:
            partition.failure = OSError("refused")
            await until(lambda: store.trouble is not None)
        for name, value in changes.items():
            setattr(partition, name, value)
        partition.failure = None
        await until(lambda: store.lost is not None)
        assert re.match(why, str(store.lost))
        assert store.trouble == store.lost
        with pytest.raises(StoreError, match=why):
            await store.write(b"c", b"3")
        opened = partition.opened
        await several_checks(partition)
        assert listener.calls == before
        assert (partition.created, partition.opened) == (1, opened if "id" in changes else partition.opened)
        lines = [line for line in caplog.records if line.message == "topic configs lost"]
        assert [(line.levelname, line.__dict__["detail"]) for line in lines] == [("ERROR", store.lost)]


@pytest.mark.parametrize("kind", LOSSES)
async def test_an_accepted_log_is_read_from_its_beginning_and_created_if_need_be(kind: str) -> None:
    changes, _ = LOSSES[kind]
    partition = Partition([*TWO])
    async with started(partition) as (store, listener):
        await until(lambda: store.trouble is None)
        for name, value in changes.items():
            setattr(partition, name, value)
        await until(lambda: store.lost is not None)
        partition.id, partition.records, partition.begins_at = OTHER_ID, [Record(b"c", b"3")], 0
        listener.calls.clear()
        store.accept()
        await until(lambda: store.lost is None)
        assert listener.calls == ["began", (b"c", b"3"), "caught up"]
        assert partition.created == 2
        await store.write(b"d", b"4")
        partition.id = ID  # now that one is another topic
        await until(lambda: store.lost is not None)


async def test_a_topic_that_a_broker_did_not_know_is_read_again() -> None:
    partition = Partition([*TWO])
    async with started(partition) as (store, _):
        await until(lambda: store.trouble is None)
        partition.id = MISSING
        await until(lambda: store.lost is not None)
        partition.id = ID
        await until(lambda: store.lost is None)
        assert (store.trouble, partition.created) == (None, 1)


@pytest.mark.parametrize("first", [MISSING, None], ids=["created just now", "no broker says"])
async def test_an_id_is_learned_as_soon_as_a_broker_names_it(first: bytes | None) -> None:
    partition = Partition([*TWO], id=first)
    async with started(partition) as (store, _):
        await until(lambda: store.trouble is None)
        partition.id = ID
        await several_checks(partition)
        partition.id = None
        await several_checks(partition)
        assert store.lost is None
        partition.id = OTHER_ID
        await until(lambda: store.lost is not None)


async def several_checks(partition: Partition) -> None:
    enough = partition.asked + 4
    await until(lambda: partition.asked >= enough)


async def test_nothing_is_written_before_the_start() -> None:
    with pytest.raises(StoreError):
        await KafkaStore(Partition).write(b"a", b"1")


def test_a_sidecar_that_keeps_no_topic_configs_does_not_load_aiokafka() -> None:
    code = (
        "import sys, kafka_sidecar.proxy.server.server, kafka_sidecar.proxy.features.topic_configs.configs;"
        "import kafka_sidecar.proxy.features.topic_configs.kafka_store;"
        "print(*(m for m in sys.modules if m.startswith('aiokafka')))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == ""
