"""Log levels that are changed while the sidecar runs, for a limited time."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from support.admin import command, get, get_json, pages
from support.in_process import until

from kafka_sidecar.proxy.server.admin.log_levels import LevelError, LogLevels
from kafka_sidecar.proxy.telemetry.log_limiter import QUOTING

NODES = "kafka_sidecar.proxy.nodes.addresses"


@pytest.fixture(autouse=True)
def _levels_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(), logging.getLogger(NODES)]
    levels = [one.level for one in loggers]
    yield
    for one, level in zip(loggers, levels, strict=True):
        one.setLevel(level)


async def change(**query: str) -> dict[str, Any]:
    return LogLevels().change(query)


async def test_a_logger_has_the_new_level_until_its_time_is_over() -> None:
    levels = LogLevels()
    shown = levels.change({"level": "debug", "logger": NODES, "for": "10ms"})
    assert logging.getLogger(NODES).level == logging.DEBUG
    assert (shown["loggers"][NODES]["level"], shown["loggers"][NODES]["then"]) == ("debug", "default")
    await until(lambda: not levels.show()["loggers"])
    assert logging.getLogger(NODES).level == logging.NOTSET


async def test_changing_a_level_again_begins_a_new_time_and_default_ends_it() -> None:
    levels = LogLevels()
    before = logging.getLogger().level
    levels.change({"level": "debug", "for": "10ms"})
    levels.change({"level": "error", "for": "1h"})
    await asyncio.sleep(0.02)
    assert logging.getLogger().level == logging.ERROR
    assert levels.change({"level": "default"})["loggers"] == {}
    assert logging.getLogger().level == before


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({}, "level: write debug"), ({"level": "trace"}, "level: write debug"),
        ({"level": "debug", "logger": "no.such.logger"}, "is none"),
        ({"level": "debug", "logger": QUOTING.name}, "is none"),
        ({"level": "debug", "for": "forever"}, "for: write"), ({"level": "debug", "for": "25h"}, "up to 24h"),
        ({"level": "debug", "minutes": "3"}, "minutes: is no parameter"),
    ],
)  # fmt: skip
async def test_a_wrong_request_changes_nothing_and_says_what_to_write(query: dict[str, str], why: str) -> None:
    before = logging.getLogger().level
    with pytest.raises(LevelError, match=why):
        LogLevels().change(query)
    assert logging.getLogger().level == before


async def test_the_admin_port_shows_and_changes_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with pages("127.0.0.1:1") as (_, port):
        status, _, body = await get(port, f"/log-level?level=debug&logger={NODES}&for=1h", "PUT")
        assert (status, list(json.loads(body)["loggers"])) == (200, [NODES])
        assert await get_json(port, "/log-level") == json.loads(body)
        assert logging.getLogger(NODES).level == logging.DEBUG
        assert [vars(one)["detail"] for one in caplog.records if one.message == "log level changed"] == [
            f"{NODES}: debug for 3600 s"
        ]
        status, _, body = await get(port, "/log-level?level=loud", "PUT")
        assert (status, "level: write" in json.loads(body)["error"]) == (400, True)


async def test_no_web_page_can_change_a_level() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        before = logging.getLogger().level
        for method, head in [("PUT", "Origin: http://attacker\r\n"), ("POST", ""), ("OPTIONS", "")]:
            assert (await get(port, "/log-level?level=debug", method, head))[0] == 405
        assert (await get(port, "/livez", "PUT"))[0] == 405
        assert logging.getLogger().level == before


async def test_the_command_shows_and_changes_levels() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        printed = await command(port, "log-level", "debug", "--logger", NODES, "--for", "5m")
        assert printed.exit_code == 0, printed.output
        assert f"{NODES}: debug until 20" in printed.output
        assert printed.output.rstrip().endswith("then default")
        assert (await command(port, "log-level")).output == printed.output
        assert NODES in json.loads((await command(port, "log-level", "--json")).output)["loggers"]
        wrong = await command(port, "log-level", "loud")
        assert (wrong.exit_code, "level: write debug" in wrong.output) == (1, True)


@pytest.mark.parametrize("logger", ["root", "kafka_sidecar.proxy.server.admin.log_levels"])
async def test_a_level_that_is_raised_leaves_a_line(logger: str, caplog: pytest.LogCaptureFixture) -> None:
    levels = LogLevels()
    levels.change({"level": "error", "logger": logger, "for": "24h"})
    (line,) = [one for one in caplog.records if one.getMessage() == "log level changed"]
    assert (line.levelno, vars(line)["detail"]) == (logging.WARNING, f"{logger}: error for 86400 s")
    levels.change({"level": "default", "logger": logger})
    assert caplog.messages == ["log level changed"] * 2, "lowered again: written after the change"
