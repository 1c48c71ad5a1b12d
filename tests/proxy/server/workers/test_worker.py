"""The worker's end of the channel, with the test as its supervisor."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import NODE_PORTS, config, connected, until, until_refused

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.workers import Place
from kafka_sidecar.proxy.server.workers import worker as worker_module
from kafka_sidecar.proxy.server.workers.channel import (
    Alive,
    Applied,
    BrokersChanged,
    Channel,
    Drain,
    HangUp,
    Invalid,
    PageRequest,
    PageResponse,
    Prepared,
    Serve,
    Serving,
    Start,
)
from kafka_sidecar.proxy.server.workers.worker import serve
from kafka_sidecar.proxy.telemetry.log_limiter import LogRate

pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])  # the program chooses its own
HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)


@pytest.fixture(autouse=True)
def keep_the_logging_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "configure", lambda level, rate, number, wanted: LogRate(rate, lambda: 0.0))


class Supervisor:
    """The other end."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.channel: Channel | None = None
        self.worker: asyncio.Future[int] | None = None

    def send(self, message: object) -> None:
        assert self.channel is not None
        self.channel.send(message)

    async def first(self, kind: type[Any]) -> Any:
        """The first message of a kind, once it has come."""
        await until(lambda: any(isinstance(one, kind) for one in self.received))
        return next(one for one in self.received if isinstance(one, kind))

    async def code(self) -> int:
        assert self.worker is not None
        async with asyncio.timeout(10):
            return await self.worker


@asynccontextmanager
async def supervising() -> AsyncIterator[Supervisor]:
    supervisor, (ours, theirs) = Supervisor(), socket.socketpair()
    supervisor.channel = await Channel.open(ours, supervisor.received.append, lambda: None)
    supervisor.worker = asyncio.ensure_future(serve(theirs))
    try:
        yield supervisor
    finally:
        await supervisor.channel.close()
        await supervisor.code()
        gc.unfreeze()


def start(settings: Config, path: Path | None = None, **more: Any) -> Start:
    return Start(settings.for_worker(Place(2, 2)), path, {}, tuple(sys.path), **more)


def second_port(settings: Config, node_id: int) -> int:
    """Where worker 2 serves a node."""
    return int(settings.listen.rpartition(":")[2]) + 1 + NODE_PORTS + node_id


async def test_it_listens_once_it_may_at_ports_of_its_own_and_says_what_it_knows() -> None:
    async with FakeBroker() as broker, supervising() as supervisor:
        settings = config(broker, workers=2)
        supervisor.send(start(settings))
        await supervisor.first(Prepared)
        await until_refused(int(settings.listen.rpartition(":")[2]))
        supervisor.send(Serve())
        await supervisor.first(Alive)
        assert (await supervisor.first(BrokersChanged)).brokers == ((1, "127.0.0.1", broker.port),)
        async with connected(second_port(settings, 1)) as client:
            assert (await client.ask(HEARTBEAT))[8:] == b"node 1"
        supervisor.send(PageRequest("/livez"))
        assert json.loads((await supervisor.first(PageResponse)).page.body) == {"live": True}
        supervisor.send(Drain())
        assert await supervisor.code() == 0


async def test_one_that_is_started_again_has_the_listeners_of_the_one_before_at_once() -> None:
    settings = config("127.0.0.1:1", workers=2)  # where no broker responds
    async with FakeBroker(3) as broker, supervising() as supervisor:
        supervisor.send(start(settings, brokers=((3, "127.0.0.1", broker.port),)))
        supervisor.send(Serve())
        await supervisor.first(Serving)
        async with connected(second_port(settings, 3)) as client:
            assert (await client.ask(HEARTBEAT))[8:] == b"node 3"


async def test_an_invalid_configuration_is_reported_and_ends_it() -> None:
    async with supervising() as supervisor:
        supervisor.send(start(config("127.0.0.1:1", policies={"a": {"type": "json", "nesting": 7}})))
        assert "nesting" in (await supervisor.first(Invalid)).lines[0]
        assert await supervisor.code() == 2


@pytest.mark.parametrize("last", [None, Prepared], ids=["before its configuration", "before it may serve"])
async def test_it_ends_with_the_supervisor(last: type[Any] | None) -> None:
    async with supervising() as supervisor:
        if last is not None:
            supervisor.send(start(config("127.0.0.1:1", workers=2)))
            await supervisor.first(last)
        assert supervisor.channel is not None
        await supervisor.channel.close()
        assert await supervisor.code() == 0


async def test_it_drains_if_the_supervisor_dies() -> None:
    async with FakeBroker() as broker, supervising() as supervisor:
        settings = config(broker, workers=2)
        supervisor.send(start(settings))
        supervisor.send(Serve())
        await supervisor.first(BrokersChanged)
        async with connected(second_port(settings, 1)) as client:
            await client.ask(HEARTBEAT)
            assert supervisor.channel is not None
            await supervisor.channel.close()
            await until_refused(second_port(settings, 1))
            await client.ask(HEARTBEAT)
        assert await supervisor.code() == 0


async def test_a_drain_may_be_hurried() -> None:
    async with FakeBroker() as broker, supervising() as supervisor:
        settings = config(broker, workers=2)
        supervisor.send(start(settings))
        supervisor.send(Serve())
        await supervisor.first(BrokersChanged)
        async with connected(second_port(settings, 1)) as client:
            await client.ask(HEARTBEAT)
            supervisor.send(Drain(hurry=True))
            assert await client.rest() == b""
        assert await supervisor.code() == 0


async def test_a_reload_applies_the_sections_that_need_no_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    file = tmp_path / "kafka-sidecar.yaml"
    settings = config("127.0.0.1:1", workers=2)
    text = f"bootstrap_servers: 127.0.0.1:1\nlisten: {settings.listen}\nworkers: 2\nnodes: {{ports: 5}}\n"
    file.write_text(text + "limits: {max_records: 7}\n")
    async with supervising() as supervisor:
        supervisor.send(start(settings, file))
        supervisor.send(Serve())
        await supervisor.first(Serving)
        assert not any(isinstance(one, Applied) for one in supervisor.received)
        supervisor.send(HangUp())
        applied = (await supervisor.first(Applied)).config
        assert (applied.limits.max_records, applied.nodes.ports, applied.worker.number) == (7, NODE_PORTS, 2)
    (line,) = [record for record in caplog.records if record.message == "changed settings need a restart"]
    assert vars(line)["settings"] == ["nodes"]


async def test_one_that_is_started_again_reads_the_file_again(tmp_path: Path) -> None:
    file = tmp_path / "kafka-sidecar.yaml"
    settings = config("127.0.0.1:1", workers=2)
    file.write_text(
        f"bootstrap_servers: 127.0.0.1:1\nlisten: {settings.listen}\nworkers: 2\nlimits: {{max_records: 9}}\n"
    )
    async with supervising() as supervisor:
        supervisor.send(start(settings, file, is_replacement=True))
        supervisor.send(Serve())
        assert (await supervisor.first(Applied)).config.limits.max_records == 9
