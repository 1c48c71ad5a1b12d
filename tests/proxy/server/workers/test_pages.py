"""The pages of all workers as one, without processes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.in_process import config
from support.workers import Group, turns

from kafka_sidecar.proxy.server.admin.live import live as live_module
from kafka_sidecar.proxy.server.admin.page import Page, Stream, json_page
from kafka_sidecar.proxy.server.admin.pages import Admin
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.server.workers.channel import (
    PageRequest,
    PageResponse,
    Prepared,
    SampleRequest,
    Serve,
    Serving,
)
from kafka_sidecar.proxy.server.workers.pages import LOG_LEVEL, ChangedLevels, WorkerPages
from kafka_sidecar.proxy.server.workers.supervisor import FIRST_PAUSE_S
from kafka_sidecar.proxy.telemetry.log_limiter import LogRate
from kafka_sidecar.proxy.telemetry.metrics import Metrics

Pages = Mapping[int, Page]  # by the number of the worker


@pytest.fixture
async def group() -> Group:
    group = Group(2)
    await group.serve()
    return group


@pytest.fixture
def pages(group: Group) -> WorkerPages:
    return WorkerPages(group.supervisor, LogRate(1, time.monotonic))


async def page(group: Group, pages: WorkerPages, target: str, answers: Pages) -> Page:
    """A page, for which the workers have these."""
    found = pages.page(target)
    assert not isinstance(found, Page | Stream)
    waiting = asyncio.ensure_future(_awaited(found))
    await turns()
    for number, one in answers.items():
        child = group.child(number)
        assert child.sent == [PageRequest(target)]
        child.sent.clear()
        child.tell(PageResponse(one))
    return await waiting


async def _awaited(found: Awaitable[Page]) -> Page:
    return await found


def value(page: Page) -> Any:
    return json.loads(page.body)


READY, UNREADY = json_page(200, {"ready": True}), json_page(503, {"ready": False})


async def ready(group: Group, pages: WorkerPages, answers: Pages) -> tuple[int, Any]:
    found = await page(group, pages, "/readyz?verbose", answers)
    assert (found.status == 200) == value(found)["ready"]
    return found.status, value(found)["workers"]


async def test_it_is_ready_once_all_workers_have_been(group: Group, pages: WorkerPages) -> None:
    assert (await ready(group, pages, {1: READY, 2: UNREADY}))[0] == 503
    assert (await ready(group, pages, {1: READY, 2: READY})) == (200, {"1": value(READY), "2": value(READY)})


async def test_a_worker_that_is_started_again_does_not_count_until_it_is_ready(
    group: Group, pages: WorkerPages
) -> None:
    await ready(group, pages, {1: READY, 2: READY})
    group.child(2).die()
    await turns()
    assert await ready(group, pages, {1: READY}) == (
        200,
        {"1": value(READY), "2": {"ready": False, "listening": False}},
    )
    group.supervisor.workers[1].is_serving = True  # it serves again, and has not reached the cluster yet
    group.pause.end(0.1)
    await turns()
    group.supervisor.workers[1].is_serving = True
    assert (await ready(group, pages, {1: READY, 2: UNREADY}))[0] == 200
    assert (await ready(group, pages, {1: READY, 2: READY}))[0] == 200
    assert (await ready(group, pages, {1: READY, 2: UNREADY}))[0] == 503


async def test_without_a_worker_that_serves_it_is_not_ready(group: Group, pages: WorkerPages) -> None:
    await ready(group, pages, {1: READY, 2: READY})
    for child in list(group.children):
        child.die()
    await turns()
    assert (await ready(group, pages, {}))[0] == 503


async def test_it_is_not_ready_while_it_drains(group: Group, pages: WorkerPages) -> None:
    await ready(group, pages, {1: READY, 2: READY})
    group.supervisor.is_draining = True
    assert (await ready(group, pages, {1: READY, 2: READY}))[0] == 503


def test_it_is_alive_whatever_its_workers_do(group: Group, pages: WorkerPages) -> None:
    assert pages.page("/livez", host="127.0.0.1:9190") == json_page(200, {"live": True})


async def test_rejections_of_all_are_listed_newest_first(group: Group, pages: WorkerPages) -> None:
    batches = [{"timestamp": f"2026-11-22T21:00:00.{number:03}Z", "topic": str(number)} for number in range(150)]
    odd, even = ({"rejections": batches[first::2][::-1]} for first in (1, 0))
    found = await page(group, pages, "/rejections", {1: json_page(200, odd), 2: json_page(200, even)})
    assert [one["topic"] for one in value(found)["rejections"]] == [str(number) for number in range(149, 49, -1)]


async def test_open_connections_of_all_are_listed_newest_first_and_counted(group: Group, pages: WorkerPages) -> None:
    ours = {"open": 300, "connections": [{"session": 3, "duration_s": 1.0}, {"session": 1, "duration_s": 9.5}]}
    theirs = {"open": 7, "connections": [{"session": 4, "duration_s": 5.0}]}
    answers = {1: json_page(200, ours), 2: json_page(200, theirs)}
    found = value(await page(group, pages, "/connections?client_id=x", answers))
    assert (found["open"], [one["session"] for one in found["connections"]]) == (307, [3, 4, 1])


async def test_producers_of_all_are_listed_those_that_have_sent_last_first(group: Group, pages: WorkerPages) -> None:
    ours = {"known": 2, "forgotten": 1, "producers": [{"topic": "b", "at": "2026-11-22T21:00:02Z"}]}
    theirs = {"known": 1, "forgotten": 0, "producers": [{"topic": "a", "at": "2026-11-22T21:00:03Z"}]}
    found = value(await page(group, pages, "/producers", {1: json_page(200, ours), 2: json_page(200, theirs)}))
    assert (found["known"], found["forgotten"]) == (3, 1)
    assert [one["topic"] for one in found["producers"]] == ["a", "b"]


async def test_a_page_that_is_the_same_everywhere_is_that_page(group: Group, pages: WorkerPages) -> None:
    same = json_page(200, {"topics": []})
    assert await page(group, pages, "/topics", {1: same, 2: same}) == same


async def test_a_page_that_one_worker_alone_knows_is_its_page(group: Group, pages: WorkerPages) -> None:
    known = json_page(200, {"id": "a-1"})
    unknown = json_page(404, {"error": "unknown"})
    assert await page(group, pages, "/rejections/a-1", {1: unknown, 2: known}) == known


async def test_pages_that_differ_are_shown_by_worker(group: Group, pages: WorkerPages) -> None:
    found = await page(group, pages, "/x", {1: json_page(200, {"a": 1}), 2: json_page(200, {"a": 2})})
    assert value(found) == {"workers": {"1": {"a": 1}, "2": {"a": 2}}}


async def test_a_page_that_no_worker_can_give_is_unavailable(group: Group, pages: WorkerPages) -> None:
    for child in list(group.children):
        child.die()
    await turns()
    assert (await page(group, pages, "/topics", {})).status == 503


def test_a_page_that_another_host_requests_is_forbidden(group: Group, pages: WorkerPages) -> None:
    found = pages.page("/livez", host="attacker.example.com")
    assert isinstance(found, Page)
    assert found.status == 403


COUNTED = Page(
    200,
    "text/plain",
    b"# HELP kafka_sidecar_connections_total Accepted\n# TYPE kafka_sidecar_connections_total counter\n"
    b'kafka_sidecar_connections_total{listener="node"} 3.0\n',
)


def samples(page: Page) -> dict[str, float]:
    families = text_string_to_metric_families(page.body.decode())
    return {sample.name: sample.value for family in families for sample in family.samples}


async def test_metrics_are_added_up_with_those_of_the_supervisor(group: Group, pages: WorkerPages) -> None:
    assert pages.wait_s("/metrics") == 0.0
    found = samples(await page(group, pages, "/metrics", {1: COUNTED, 2: COUNTED}))
    assert found["kafka_sidecar_connections_total"] == 6.0
    assert (found["kafka_sidecar_workers"], found["kafka_sidecar_workers_serving"]) == (2.0, 2.0)
    assert found["kafka_sidecar_suppressed_log_lines_total"] == 0.0
    assert found["process_resident_memory_bytes"] > 0


async def test_a_worker_that_has_died_stays_in_the_totals(group: Group, pages: WorkerPages) -> None:
    await page(group, pages, "/metrics", {1: COUNTED, 2: COUNTED})
    group.child(2).die()
    await turns()
    found = samples(await page(group, pages, "/metrics", {1: COUNTED}))
    assert found["kafka_sidecar_connections_total"] == 6.0
    assert found["kafka_sidecar_workers_serving"] == 1.0
    assert found["kafka_sidecar_worker_restarts_total"] == 1.0 or found["kafka_sidecar_workers"] == 2.0


async def test_metrics_are_rendered_once_for_all_that_wait(group: Group, pages: WorkerPages) -> None:
    asked_at = time.monotonic()
    rendered = await page(group, pages, "/metrics", {1: COUNTED, 2: COUNTED})
    assert 0.0 < pages.wait_s("/metrics") <= 1.0
    assert pages.wait_s("/livez") == 0.0
    assert pages.page("/metrics", asked_at=asked_at) is rendered


def test_a_change_is_repeated_for_the_time_that_is_left_and_then_no_more() -> None:
    now = 100.0
    levels = ChangedLevels(lambda: now)
    levels.remember(f"{LOG_LEVEL}?level=debug&logger=a.b&for=10m")
    levels.remember(f"{LOG_LEVEL}?level=error")
    now += 60
    first, second = [dict(parse_qsl(target.removeprefix(f"{LOG_LEVEL}?"))) for target in levels.requests()]
    assert first == {"level": "debug", "logger": "a.b", "for": "540001ms"}
    assert (second["level"], second["logger"]) == ("error", "root")
    now += 541
    assert list(levels.requests()) == []


def test_a_level_that_is_the_configured_one_again_is_not_repeated() -> None:
    levels = ChangedLevels()
    levels.remember(f"{LOG_LEVEL}?level=debug")
    levels.remember(f"{LOG_LEVEL}?level=default")
    assert list(levels.requests()) == []


async def test_a_worker_that_is_started_again_gets_the_level_that_all_accepted() -> None:
    group = Group(1)
    await group.serve()
    pages = WorkerPages(group.supervisor, LogRate(0, lambda: 0.0))
    for target, status in ((f"{LOG_LEVEL}?level=debug&for=1h", 200), (f"{LOG_LEVEL}?level=loud", 400)):
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
    assert request.target.startswith(f"{LOG_LEVEL}?level=debug&logger=root&for=")


async def test_a_snapshot_is_the_sum_of_the_workers_with_each_beside_it(
    group: Group, pages: WorkerPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "FIRST_INTERVAL_S", 0.0)
    servers = {number: Server(config("127.0.0.1:1"), Metrics()) for number in (1, 2)}
    for number, server in servers.items():
        server.metrics.api(3, "Metadata").requests = 10 * number
    found = pages.page("/snapshot?with=topics")
    assert not isinstance(found, Page | Stream)
    waiting = asyncio.ensure_future(_awaited(found))
    while not waiting.done():
        await asyncio.sleep(0.001)
        for number in (1, 2):
            for wanted in (frozenset({"state"}), frozenset({"topics"})):
                while SampleRequest(wanted) in group.child(number).sent:
                    group.child(number).sent.clear()
                    group.child(number).tell(PageResponse(await Admin(servers[number]).sample(wanted)))
    snapshot = value(await waiting)
    requests = next(one for one in snapshot["metrics"]["engine"] if one["name"] == "client_to_proxy_request")
    assert requests["rows"] == [{"of": ["Metadata"], "value": 30, "rate": 0.0}]
    assert [one["worker"] for one in snapshot["workers"]] == [1, 2, None]
    assert snapshot["topics"] == {"known": 0, "rows": []}
    assert next(one for one in snapshot["metrics"]["engine"] if one["name"] == "workers")["rows"][0]["value"] == 2


async def test_the_page_of_workers_is_the_supervisor_s(pages: WorkerPages) -> None:
    page = pages.page("/")
    assert isinstance(page, Page)
    assert page.content_type.startswith("text/html")
