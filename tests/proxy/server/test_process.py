"""One process that serves, in the process of the test."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
from pathlib import Path

import pytest
from support.in_process import config, connected, until

from kafka_sidecar.proxy.server.process import serve
from kafka_sidecar.proxy.telemetry.log_limiter import LogRate

on_one_loop = pytest.mark.asyncio(loop_factories=["uvloop"])  # the program chooses its own


@on_one_loop
async def test_it_serves_reloads_on_sighup_and_stops_on_sigterm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    file = tmp_path / "kafka-sidecar.yaml"
    file.touch()
    settings = config("127.0.0.1:1", admin={"listen": "127.0.0.1:0"})
    serving = asyncio.ensure_future(serve(settings, file, lambda find_more: settings, LogRate(100, time.monotonic)))
    await until(lambda: serving.done() or "serving" in caplog.messages)
    os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: "configuration applied" in caplog.messages)
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
    gc.unfreeze()
    own = [record.message for record in caplog.records if record.name == "kafka_sidecar"]
    assert [message for message in own if message != "loops over records not compiled"] == [
        "serving",
        "stopping",
        "stopped",
    ]


@on_one_loop
async def test_it_stops_once_its_clients_have_gone_if_that_is_configured(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    limits = {"exit_when_unused": "30ms"}
    settings = config("127.0.0.1:1", admin={"listen": "127.0.0.1:0"}, connections=limits)
    serving = asyncio.ensure_future(serve(settings, None, lambda find_more: settings, LogRate(100, time.monotonic)))
    await until(lambda: serving.done() or "serving" in caplog.messages)
    async with connected(int(settings.listen.rpartition(":")[2])):
        await asyncio.sleep(0.1)  # more than twice as long as what is configured
        assert not serving.done()
    await serving
    gc.unfreeze()
    (line,) = [record for record in caplog.records if record.message == "stopping"]
    assert line.__dict__["detail"] == "no client for 0.03 s (connections.exit_when_unused)"
