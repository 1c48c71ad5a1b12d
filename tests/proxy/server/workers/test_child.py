"""A worker's process, as the supervisor sees it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from support.in_process import config, until

from kafka_sidecar.proxy.config.workers import Place
from kafka_sidecar.proxy.server.workers.channel import Drain, Invalid, Prepared, Start
from kafka_sidecar.proxy.server.workers.supervisor import WorkerProcess

pytestmark = [pytest.mark.program, pytest.mark.asyncio(loop_factories=["uvloop"])]


def start(**settings: Any) -> Start:
    return Start(config("127.0.0.1:1", workers=2, **settings).for_worker(Place(1, 2)), None, {}, tuple(sys.path))


async def ended(child: WorkerProcess) -> str:
    async with asyncio.timeout(20):
        return await child.ended()


async def test_it_is_a_process_that_can_be_killed_and_says_how_it_ended() -> None:
    received: list[object] = []
    child = await WorkerProcess.launch(start(), received.append)
    await until(lambda: received == [Prepared()])
    child.kill()
    assert await ended(child) == "killed by SIGKILL"
    child.kill()  # nothing happens
    child.send(Drain())


async def test_its_last_messages_have_come_when_it_has_ended() -> None:
    received: list[object] = []
    child = await WorkerProcess.launch(start(policies={"a": {"type": "json", "nesting": 7}}), received.append)
    assert await ended(child) == "exit code 2"
    assert [type(one) for one in received] == [Invalid]
