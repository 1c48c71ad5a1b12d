"""The process that supervises, in the process of the test: its workers are fake."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.in_process import config, until
from support.workers import FakeChild

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.server.workers import run
from kafka_sidecar.proxy.server.workers.channel import (
    Drain,
    FromWorker,
    HangUp,
    Prepared,
    Serve,
    Serving,
    Start,
    ToWorker,
)
from kafka_sidecar.proxy.server.workers.supervisor import WorkerProcess
from kafka_sidecar.proxy.telemetry.log_limiter import LogRate

pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])  # the program chooses its own


class Obedient(FakeChild):
    """Does what it is asked to."""

    def send(self, message: ToWorker) -> None:
        super().send(message)
        match message:
            case Serve():
                self.tell(Serving())
            case Drain(hurry=True):
                self.die()


Children = list[FakeChild]


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Children:
    started: Children = []

    async def launch(start: Start, tell: Callable[[FromWorker], None]) -> FakeChild:
        started.append(child := Obedient(start, tell))
        asyncio.get_running_loop().call_soon(tell, Prepared())
        return child

    monkeypatch.setattr(WorkerProcess, "launch", launch)
    return started


def settings(**more: Any) -> Config:
    return config("127.0.0.1:1", workers=2, admin={"listen": "127.0.0.1:0"}, **more)


@asynccontextmanager
async def supervising() -> AsyncIterator[asyncio.Future[int]]:
    path = Path("kafka-sidecar.yaml")
    yield asyncio.ensure_future(run.supervise(settings(), path, {}, LogRate(100, time.monotonic)))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(number)


def kill(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


async def test_signals_go_to_all_workers(children: Children, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with supervising() as running:
        await until(lambda: "serving" in caplog.messages)
        (line,) = [record for record in caplog.records if record.message == "serving"]
        assert vars(line)["workers"] == 2
        kill(signal.SIGHUP)
        await until(lambda: all(child.sent == [Serve(), HangUp()] for child in children))
        kill(signal.SIGTERM)
        await until(lambda: all(child.sent[2:] == [Drain()] for child in children))
        for child in children:
            child.die()
        assert await running == 0
    assert [line for line in caplog.messages if line != "loops over records not compiled"][-2:] == [
        "stopping",
        "stopped",
    ]


async def test_a_second_signal_hurries_all_workers(children: Children) -> None:
    async with supervising() as running:
        await until(lambda: len(children) == 2 and all(Serve() in child.sent for child in children))
        kill(signal.SIGTERM)
        await until(lambda: all(Drain() in child.sent for child in children))
        kill(signal.SIGTERM)
        await running
    assert all(Drain(hurry=True) in child.sent for child in children)


async def test_a_signal_during_the_start_ends_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    children: Children = []

    async def launch(start: Start, tell: Callable[[FromWorker], None]) -> FakeChild:
        children.append(child := FakeChild(start, tell))
        return child

    monkeypatch.setattr(WorkerProcess, "launch", launch)
    async with supervising() as running:
        await until(lambda: len(children) == 2)
        kill(signal.SIGTERM)
        await running
    assert not any(child.is_running for child in children)


async def test_workers_that_do_not_start_end_it_with_1(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def launch(start: Start, tell: Callable[[FromWorker], None]) -> FakeChild:
        child = FakeChild(start, tell)
        child.die("exit code 7")
        return child

    monkeypatch.setattr(WorkerProcess, "launch", launch)
    async with supervising() as running:
        assert await running == 1
    assert "workers not started" in caplog.messages


async def test_a_port_in_use_is_a_mistake() -> None:
    of_this = settings()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", int(of_this.listen.rpartition(":")[2])))
        other.listen()
        with pytest.raises(ConfigError, match=r"^listen: .* cannot be bound: Address already in use; choose another$"):
            await run.supervise(of_this, None, {}, LogRate(100, time.monotonic))


async def test_several_workers_need_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(ConfigError, match=r"^workers: 2 needs Linux, .*; here set workers: 1$"):
        await run.supervise(settings(), None, {}, LogRate(100, time.monotonic))
