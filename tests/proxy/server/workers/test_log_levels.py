"""Log levels for workers that are started again."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

from support.workers import Group, turns

from kafka_sidecar.proxy.server.admin.page import json_page
from kafka_sidecar.proxy.server.workers.log_levels import PATH, ChangedLevels
from kafka_sidecar.proxy.server.workers.messages import PageRequest, PageResponse, Prepared, Serve, Serving
from kafka_sidecar.proxy.server.workers.pages import WorkerPages
from kafka_sidecar.proxy.server.workers.supervisor import FIRST_PAUSE_S
from kafka_sidecar.proxy.telemetry.log_rate import LogRate


def test_a_change_is_repeated_for_the_time_that_is_left_and_then_no_more() -> None:
    now = 100.0
    levels = ChangedLevels(lambda: now)
    levels.remember(f"{PATH}?level=debug&logger=a.b&for=10m")
    levels.remember(f"{PATH}?level=error")
    now += 60
    first, second = [dict(parse_qsl(target.removeprefix(f"{PATH}?"))) for target in levels.requests()]
    assert first == {"level": "debug", "logger": "a.b", "for": "540001ms"}
    assert (second["level"], second["logger"]) == ("error", "root")
    now += 541
    assert list(levels.requests()) == []


def test_a_level_that_is_the_configured_one_again_is_not_repeated() -> None:
    levels = ChangedLevels()
    levels.remember(f"{PATH}?level=debug")
    levels.remember(f"{PATH}?level=default")
    assert list(levels.requests()) == []


async def test_a_worker_that_is_started_again_gets_the_level_that_all_accepted() -> None:
    group = Group(1)
    await group.serve()
    pages = WorkerPages(group.supervisor, LogRate(0, lambda: 0.0))
    for target, status in ((f"{PATH}?level=debug&for=1h", 200), (f"{PATH}?level=loud", 400)):
        changing = pages.page(target)
        await_page = asyncio.ensure_future(changing)  # type: ignore[arg-type]
        await turns()
        group.child(1).tell(PageResponse(json_page(status, {})))
        assert (await await_page).status == status
    group.child(1).die()
    await turns()
    group.pause.end(FIRST_PAUSE_S)
    await turns()
    new = group.child(1)
    new.tell(Prepared())
    new.tell(Serving())
    await turns()
    serve, request = new.sent
    assert (serve, isinstance(request, PageRequest)) == (Serve(), True)
    assert isinstance(request, PageRequest)
    assert request.target.startswith(f"{PATH}?level=debug&logger=root&for=")
