"""What the supervisor does, without processes."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Coroutine
from typing import Any

import pytest
from support.workers import FakeChild, Group, turns

from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.server.admin.page import Page
from kafka_sidecar.proxy.server.workers.channel import (
    Alive,
    Applied,
    BrokersChanged,
    Drain,
    HangUp,
    Invalid,
    PageRequest,
    PageResponse,
    Prepared,
    Serve,
    Serving,
)
from kafka_sidecar.proxy.server.workers.supervisor import (
    AFTER_DRAIN_S,
    CHECK_INTERVAL_S,
    FIRST_PAUSE_S,
    HUNG_S,
    MAX_PAUSE_S,
    STABLE_S,
    START_LIMIT_S,
    WorkerFailedError,
)


async def begun(work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
    task = asyncio.ensure_future(work)
    await turns()
    return task


async def test_no_worker_listens_before_all_are_prepared_and_the_first_has_found_no_mistake() -> None:
    group = Group(3)
    starting = await begun(group.supervisor.start())
    one, two, three = group.children
    one.tell(Prepared())
    three.tell(Prepared())
    await turns()
    assert [child.sent for child in group.children] == [[], [], []]
    two.tell(Prepared())
    await turns()
    assert [child.sent for child in group.children] == [[Serve()], [], []]
    one.tell(Serving())
    await turns()
    assert [child.sent for child in group.children] == [[Serve()], [Serve()], [Serve()]]
    two.tell(Serving())
    await turns()
    assert not starting.done()
    three.tell(Serving())
    await starting


async def test_each_worker_has_a_place_and_all_have_the_same_configuration() -> None:
    group = Group(2)
    await group.serve()
    places = [(child.start.config.worker.number, child.start.config.worker.count) for child in group.children]
    assert places == [(1, 2), (2, 2)]
    assert [child.start.config.nodes for child in group.children] == [group.config.nodes] * 2
    assert [child.start.is_replacement for child in group.children] == [False, False]


async def test_an_invalid_configuration_is_reported_once_and_ends_all_workers() -> None:
    group = Group(2)
    starting = await begun(group.supervisor.start())
    for child in group.children:
        child.tell(Invalid(("topics: no such policy", "another mistake")))
        child.die("exit code 2")
    with pytest.raises(ConfigError) as raised:
        await starting
    assert raised.value.lines == ("topics: no such policy", "another mistake")
    assert not any(child.is_running for child in group.children)


async def test_a_worker_that_ends_before_all_serve_ends_the_start() -> None:
    group = Group(2)
    starting = await begun(group.supervisor.start())
    group.child(1).tell(Prepared())
    group.child(2).die("exit code 1")
    with pytest.raises(WorkerFailedError, match="worker 2 ended before it served: exit code 1"):
        await starting
    assert not group.child(1).is_running


async def test_a_worker_that_ends_is_started_again_and_the_others_are_not_touched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = Group(2)
    await group.serve()
    ended: list[int] = []
    group.supervisor.on_end = ended.append
    other = group.child(2)
    group.child(1).die("killed by SIGKILL")
    await turns()
    assert (ended, group.supervisor.restarts) == ([1], {1: 1, 2: 0})
    (line,) = [record for record in caplog.records if record.message == "worker ended, it is started again"]
    assert (vars(line)["worker"], vars(line)["detail"], vars(line)["pause_s"]) == (
        1,
        "killed by SIGKILL",
        FIRST_PAUSE_S,
    )
    group.pause.end(FIRST_PAUSE_S)
    await turns()
    new = group.child(1)
    assert new.start.is_replacement
    new.tell(Prepared())
    assert new.sent == [Serve()]
    new.tell(Serving())
    assert [worker.is_serving for worker in group.supervisor.workers] == [True, True]
    assert group.child(2) is other
    assert other.sent == []


async def test_the_pauses_grow_while_a_worker_ends_again_and_again_and_are_short_after_it_has_served() -> None:
    group = Group(2)
    await group.serve()
    seen: list[float] = []
    for _ in range(12):
        group.child(1).die()
        await turns()
        (pause_s,) = [length for length in group.pause.lengths if length != CHECK_INTERVAL_S]
        seen.append(pause_s)
        group.pause.end(pause_s)
        await turns()
    assert seen[:4] == [0.1, 0.2, 0.4, 0.8]
    assert seen[-1] == MAX_PAUSE_S
    group.child(1).tell(Serving())
    group.now += STABLE_S
    group.child(1).die()
    await turns()
    assert FIRST_PAUSE_S in group.pause.lengths


async def test_a_worker_that_cannot_be_started_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    group = Group(2)
    await group.serve()
    group.launch_error = OSError(errno.ENOMEM, "Cannot allocate memory")
    group.child(1).die()
    for pause_s in (0.1, 0.2):
        await turns()
        group.pause.end(pause_s)
    await turns()
    details = [vars(record)["detail"] for record in caplog.records if record.levelname == "ERROR"]
    assert details == ["exit code 0", *["it cannot be started: Cannot allocate memory"] * 2]
    group.launch_error = None
    group.pause.end(0.4)
    await turns()
    assert group.child(1).is_running


async def test_a_new_worker_gets_what_was_reloaded_since_and_the_brokers_of_the_one_before() -> None:
    group = Group(2)
    await group.serve()
    one, two = group.children
    reloaded = two.start.config.model_copy(
        update={"limits": two.start.config.limits.model_copy(update={"max_records": 7})}
    )
    two.tell(Applied(reloaded))
    two.tell(BrokersChanged(((1, "kafka-1", 9092),)))
    one.die()
    await turns()
    group.pause.end(FIRST_PAUSE_S)
    await turns()
    start = group.child(1).start
    assert start.config.limits.max_records == 7
    assert (start.config.worker.number, start.brokers) == (1, ((1, "kafka-1", 9092),))


async def test_a_reload_goes_to_all_that_serve() -> None:
    group = Group(3)
    await group.serve()
    group.child(3).die()
    await turns()
    group.pause.end(FIRST_PAUSE_S)
    await turns()
    group.supervisor.hang_up()
    assert [group.child(number).sent for number in (1, 2, 3)] == [[HangUp()], [HangUp()], []]


async def drained(group: Group, hurry: bool = False) -> asyncio.Future[None]:
    return await begun(group.supervisor.drain(hurry))


async def test_a_drain_goes_to_all_and_no_worker_is_started_again() -> None:
    group = Group(2)
    await group.serve()
    draining = await drained(group)
    assert [child.sent for child in group.children] == [[Drain()], [Drain()]]
    group.child(1).die()
    await turns()
    assert not draining.done()
    group.child(2).die()
    await draining
    assert (len(group.children), group.supervisor.restarts.total()) == (2, 0)


async def test_a_second_signal_hurries_all() -> None:
    group = Group(2)
    await group.serve()
    draining = await drained(group)
    hurrying = await drained(group, hurry=True)
    assert [child.sent for child in group.children] == [[Drain(), Drain(hurry=True)]] * 2
    for child in group.children:
        child.die()
    await asyncio.gather(draining, hurrying)


async def test_a_worker_that_is_not_there_yet_is_not_waited_for() -> None:
    group = Group(3)
    await group.serve()
    group.child(1).die()
    group.child(2).die()
    await turns()
    group.pause.end(FIRST_PAUSE_S)
    await turns()
    group.child(2).die()
    await turns()
    draining = await drained(group)  # 1 is starting, 2 is waiting to be started
    assert not group.child(1).is_running
    group.child(3).die()
    await draining


async def test_a_worker_that_does_not_end_in_time_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(2, connections={"drain_timeout": "0s"})
    await group.serve()
    monkeypatch.setattr("kafka_sidecar.proxy.server.workers.supervisor.AFTER_DRAIN_S", 0.0)
    group.child(1).die()
    await group.supervisor.drain()
    assert not any(child.is_running for child in group.children)
    assert AFTER_DRAIN_S > 0


async def check(group: Group, after_s: float) -> None:
    group.now += after_s
    group.pause.end(CHECK_INTERVAL_S)
    await turns()


async def test_a_worker_without_a_sign_of_life_is_killed() -> None:
    group = Group(2)
    await group.serve()
    one, two = group.children
    for _ in range(int(HUNG_S / CHECK_INTERVAL_S)):
        await check(group, CHECK_INTERVAL_S)
        two.tell(Alive())
    assert one.is_running
    await check(group, CHECK_INTERVAL_S)
    assert (one.is_running, two.is_running) == (False, True)


async def test_a_supervisor_that_was_itself_stopped_kills_no_worker() -> None:
    group = Group(2)
    await group.serve()
    await check(group, 10 * HUNG_S)
    assert all(child.is_running for child in group.children)


async def test_a_worker_that_never_serves_is_killed() -> None:
    group = Group(2)
    await group.serve()
    group.child(1).die()
    await turns()
    group.pause.end(FIRST_PAUSE_S)
    await turns()
    starting = group.child(1)
    for _ in range(int(START_LIMIT_S / CHECK_INTERVAL_S)):
        await check(group, CHECK_INTERVAL_S)
        group.child(2).tell(Alive())
    assert starting.is_running
    await check(group, CHECK_INTERVAL_S)
    assert not starting.is_running


async def page(group: Group, number: int, target: str) -> asyncio.Future[Page | None]:
    return await begun(group.supervisor.page(group.supervisor.workers[number - 1], target))


async def test_pages_come_in_the_order_of_their_requests() -> None:
    group = Group(2)
    await group.serve()
    first, second = await page(group, 1, "/a"), await page(group, 1, "/b")
    assert group.child(1).sent == [PageRequest("/a"), PageRequest("/b")]
    for body in (b"a", b"b"):
        group.child(1).tell(PageResponse(Page(200, "text/plain", body)))
    pages = [await first, await second]
    assert [one.body for one in pages if one is not None] == [b"a", b"b"]


async def test_a_worker_that_ends_or_does_not_serve_has_no_page() -> None:
    group = Group(2)
    await group.serve()
    waiting = await page(group, 1, "/a")
    group.child(1).die()
    await turns()
    assert await waiting is None
    assert await (await page(group, 1, "/a")) is None


async def test_a_late_page_is_not_taken_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(2)
    await group.serve()
    child: FakeChild = group.child(1)
    monkeypatch.setattr("kafka_sidecar.proxy.server.workers.supervisor.PAGE_LIMIT_S", 0.0)
    assert await group.supervisor.page(group.supervisor.workers[0], "/late") is None
    monkeypatch.setattr("kafka_sidecar.proxy.server.workers.supervisor.PAGE_LIMIT_S", 5.0)
    waiting = await page(group, 1, "/next")
    for body in (b"late", b"next"):
        child.tell(PageResponse(Page(200, "text/plain", body)))
    found = await waiting
    assert found is not None
    assert found.body == b"next"


async def test_workers_and_their_restarts_are_counted() -> None:
    group = Group(3)
    await group.serve()
    group.child(2).die()
    await turns()
    assert {family.name: family.samples for family in group.supervisor.families()} == {
        "workers": {(): 3},
        "workers_serving": {(): 2},
        "worker_restarts": {("1",): 0, ("2",): 1, ("3",): 0},
    }
