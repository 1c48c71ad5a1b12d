"""The store over clients that fail as the test wants: what is read, when it is known, and when a write is done."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kafka_sidecar.proxy.topic_configs import kafka_store
from kafka_sidecar.proxy.topic_configs.kafka_store import KafkaStore
from kafka_sidecar.proxy.topic_configs.store import StoreError


@dataclass
class Record:
    key: bytes | None
    value: bytes | None


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

    def __post_init__(self) -> None:
        self.visible.set()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Partition]:
        self._fail()
        self.opened += 1
        self.read_to = 0
        yield self

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
        found = self.records[self.read_to :]
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
        partition.records, partition.failure = [Record(b"b", b"2")], None
        await until(lambda: store.trouble is None)
        assert listener.calls == ["began", (b"a", b"1"), "caught up", "began", (b"b", b"2"), "caught up"]
        assert partition.opened == 2
        assert len(caplog.records) >= 1


async def test_a_cluster_that_is_silent_is_trouble() -> None:
    partition = Partition(heard=60.0)
    async with started(partition) as (store, _):
        await until(lambda: str(store.trouble).startswith("no broker has answered for 60 s"))


async def test_nothing_is_written_before_the_start() -> None:
    with pytest.raises(StoreError):
        await KafkaStore(Partition).write(b"a", b"1")


def test_a_sidecar_that_keeps_no_topic_configs_does_not_load_aiokafka() -> None:
    code = (
        "import sys, kafka_sidecar.proxy.server, kafka_sidecar.proxy.topic_configs.configs;"
        "import kafka_sidecar.proxy.topic_configs.kafka_store;"
        "print(*(m for m in sys.modules if m.startswith('aiokafka')))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == ""
