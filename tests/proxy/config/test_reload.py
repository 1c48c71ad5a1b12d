"""Reload of the configuration file: when it changes and on SIGHUP, as a whole or not at all."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness.ports import free_ports
from harness.processes import Program
from harness.sidecar import COMMAND
from support.fake_broker import FakeBroker
from support.in_process import config, connected, port_of, serving, until
from support.policies import Stub
from support.produce_requests import batch, produce_request, results, stores

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config import reload as reload_module
from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.config.mistakes import Mistake
from kafka_sidecar.proxy.config.reload import Reload
from kafka_sidecar.proxy.runtime.tasks import spawn, stop

APPLIED = "configuration applied"
REJECTED = "configuration rejected, the previous one stays applied"
MISSING = "configuration file missing, it stays applied"
RESTART = "changed settings need a restart"

REPORTS: list[Sequence[str] | None] = []  # of one test
STATE_OF = reload_module.state_of


class Polls:
    """Counts how often the state of the file was read."""

    def __init__(self) -> None:
        self.count = 0

    def poll(self, path: Path) -> Any:
        self.count += 1
        return STATE_OF(path)

    async def several(self) -> None:
        """Wait until the present state was read, and read again."""
        before = self.count
        await until(lambda: self.count >= before + 3)


@pytest.fixture(autouse=True)
def polls(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Polls:
    polls = Polls()
    REPORTS.clear()
    monkeypatch.setattr(reload_module, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(reload_module, "state_of", polls.poll)
    caplog.set_level(logging.INFO, reload_module.__name__)
    return polls


def written(path: Path, **settings: Any) -> None:
    """Write the file as careful programs do: a new one beside it, then replace."""
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump({"bootstrap_servers": "a:1", **settings}))
    new.replace(path)


@asynccontextmanager
async def watched(path: Path, apply: Callable[[Config], None]) -> AsyncIterator[Reload]:
    running = load(path, {}, {})
    reload = Reload(path, running, partial(load, path, {}, {}), apply, REPORTS.append)
    task = spawn(reload.watch(), "watch the configuration")
    try:
        yield reload
    finally:
        await stop(task)


def orders(policy: str = "stub") -> dict[str, Any]:
    return {"topics": [{"name": "orders", "policy": policy}]}


async def test_only_a_changed_file_is_read(tmp_path: Path, polls: Polls) -> None:
    path, applied = tmp_path / "sidecar.yaml", list[Config]()
    written(path)
    async with watched(path, applied.append):
        await polls.several()
        assert applied == []
        written(path, **orders("json"))
        await until(lambda: applied)
        await polls.several()
    assert [one.topics[0].policy for one in applied] == ["json"]


async def test_a_requested_reload_reads_the_file_once_even_if_it_seems_unchanged(tmp_path: Path, polls: Polls) -> None:
    path, applied = tmp_path / "sidecar.yaml", list[Config]()
    written(path)
    async with watched(path, applied.append) as reload:
        reload.request()
        await until(lambda: len(applied) == 1)
        written(path, **orders())
        reload.request()
        await until(lambda: len(applied) == 2)
        await polls.several()
    assert len(applied) == 2


async def test_a_replaced_link_is_a_change_as_kubernetes_makes_them(tmp_path: Path) -> None:
    path, applied = tmp_path / "sidecar.yaml", list[Config]()
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        written(tmp_path / version / "sidecar.yaml", **orders(version))
        os.utime(tmp_path / version / "sidecar.yaml", (1, 1))
    (tmp_path / "..data").symlink_to("one")
    path.symlink_to(Path("..data", "sidecar.yaml"))
    async with watched(path, applied.append):
        (tmp_path / "..new").symlink_to("two")
        (tmp_path / "..new").replace(tmp_path / "..data")
        await until(lambda: applied)
    assert applied[-1].topics[0].policy == "two"


@pytest.mark.parametrize("wrong", ["topics: [", "listne: a:1", "- a"])
async def test_an_invalid_file_is_rejected_and_the_next_one_is_applied(
    wrong: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, applied = tmp_path / "sidecar.yaml", list[Config]()
    written(path)
    async with watched(path, applied.append):
        path.write_text(wrong)
        await until(lambda: REJECTED in caplog.messages)
        assert str(path) in vars(caplog.records[-1])["detail"]
        assert applied == []
        written(path, **orders())
        await until(lambda: applied)
    assert caplog.messages[-1] == APPLIED
    assert REPORTS == [None, []]


async def test_a_file_that_the_configuration_was_loaded_from_is_a_change_too(tmp_path: Path, polls: Polls) -> None:
    path, schema, applied = tmp_path / "sidecar.yaml", tmp_path / "order.avsc", list[Config]()
    written(path)
    schema.write_text("1")
    reload = Reload(
        path, load(path, {}, {}), partial(load, path, {}, {}), applied.append, REPORTS.append, lambda: [schema]
    )
    task = spawn(reload.watch(), "watch the configuration")
    try:
        await polls.several()
        assert applied == []
        schema.write_text("22")
        await until(lambda: len(applied) == 1)
        await polls.several()
        assert len(applied) == 1
        schema.unlink()
        await until(lambda: len(applied) == 2)
    finally:
        await stop(task)


async def test_a_file_is_read_and_prepared_in_a_thread_while_clients_are_served(tmp_path: Path) -> None:
    path, done = tmp_path / "sidecar.yaml", list[tuple[str, bool]]()
    served, loop = threading.Event(), asyncio.get_running_loop()
    written(path)

    def note(what: str) -> None:
        done.append((what, threading.current_thread() is threading.main_thread()))

    def prepare(config: Config) -> None:
        loop.call_soon_threadsafe(served.set)  # only a loop that turns does this
        assert served.wait(10)
        note(f"prepare {config.topics[0].name}")

    reload = Reload(
        path, load(path, {}, {}), partial(load, path, {}, {}), lambda config: note("apply"), REPORTS.append,
        prepare=prepare,
    )  # fmt: skip
    written(path, **orders())
    reload.request()
    task = spawn(reload.watch(), "watch the configuration")
    try:
        await until(lambda: REPORTS)
    finally:
        await stop(task)
    assert done == [("prepare orders", False), ("apply", True)]


async def test_plug_ins_of_an_invalid_file_are_loaded_in_the_thread_of_the_loop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, looked, applied = tmp_path / "sidecar.yaml", list[bool](), list[Config]()
    written(path)

    def find_more(config: Config) -> Iterable[Mistake]:
        looked.append(threading.current_thread() is threading.main_thread())
        yield Mistake(("policies", "stub"), "cannot be imported")

    reload = Reload(
        path, load(path, {}, {}), partial(load, path, {}, {}), applied.append, REPORTS.append, find_more=find_more
    )
    written(path, listne="a:1", policies={"stub": {}})
    reload.request()
    task = spawn(reload.watch(), "watch the configuration")
    try:
        await until(lambda: REJECTED in caplog.messages)
    finally:
        await stop(task)
    assert (looked, applied, REPORTS) == ([True], [], [None])
    assert "cannot be imported" in vars(caplog.records[-1])["detail"]


def test_nothing_but_single_modules_is_imported_when_a_prepared_configuration_is_applied(tmp_path: Path) -> None:
    every = {
        "authorization": {"default": "allow", "rules": [{"principals": ["*"], "operations": ["all"], "topics": ["a"]}]},
        "dead_letters": {"create": {}},
        "interceptors": [{"type": "add_header", "headers": {"a": "b"}}, "latency"],
        "large_messages": {"topics": [{"name": "a"}]},
        "policies": {"dated": {"type": "timestamp"}},
        "producers": [{"topics": ["*"]}],
        "rate_limits": [{"name": "all", "requests": 100, "action": "throttle"}],
        "topic_guards": [{"delete": "deny"}],
        "topics": [{"name": "a", "policy": "json, dated", "dead_letters": "dlq", "consume": "hide"}],
    }
    written(tmp_path / "before")
    written(tmp_path / "after", **every)
    code = """
import asyncio, sys
from pathlib import Path
from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.metrics import Metrics

async def run(before, after):
    config, new = (load(Path(one), {}, {}) for one in (before, after))
    server = Server(config, Metrics())
    server.apply(config)
    for step in (server.features.prepare, server.apply):
        known = set(sys.modules)
        step(new)
        print(len([name for name in sys.modules.keys() - known if name.startswith("kafka_sidecar")]))

asyncio.run(run(*sys.argv[1:]))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "before"), str(tmp_path / "after")]
    counts = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.split()
    prepared, applied = map(int, counts)
    assert prepared > 100
    assert applied <= 3


async def test_a_missing_file_is_logged_once_and_the_configuration_stays(
    tmp_path: Path, polls: Polls, caplog: pytest.LogCaptureFixture
) -> None:
    path, applied = tmp_path / "sidecar.yaml", list[Config]()
    written(path)
    async with watched(path, applied.append):
        path.unlink()
        await until(lambda: MISSING in caplog.messages)
        await polls.several()
        assert (caplog.messages.count(MISSING), applied, REPORTS) == (1, [], [])
        written(path, **orders())
        await until(lambda: applied)
    assert REPORTS == [[]]


async def test_a_file_that_is_missing_for_a_moment_is_not_a_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, polls: Polls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload_module, "MISSING_POLLS", 1_000_000)  # a moment is shorter than that
    path, applied = tmp_path / "sidecar.yaml", list[Config]()
    written(path)
    async with watched(path, applied.append):
        path.unlink()
        await polls.several()
        assert caplog.messages == []
        written(path, **orders())
        await until(lambda: applied)


async def test_invalid_rules_are_rejected(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def apply(config: Config) -> None:
        raise config.error([Mistake(("topics", 0, "policy"), "unknown policy 'stub'")])

    path = tmp_path / "sidecar.yaml"
    written(path)
    async with watched(path, apply) as reload:
        reload.request()
        await until(lambda: REJECTED in caplog.messages)
    assert vars(caplog.records[-1])["detail"] == f"{path}: topics (entry 1).policy: unknown policy 'stub'"


async def test_a_bug_in_a_reload_does_not_end_the_polling(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    faults: list[Exception] = [RuntimeError("a bug")]

    def apply(config: Config) -> None:
        if faults:
            raise faults.pop()

    path = tmp_path / "sidecar.yaml"
    written(path)
    async with watched(path, apply) as reload:
        reload.request()
        await until(lambda: not faults)
        reload.request()
        await until(lambda: APPLIED in caplog.messages)


async def test_settings_that_need_a_restart_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, applied = tmp_path / "sidecar.yaml", list[Config]()
    written(path)
    async with watched(path, applied.append):
        written(path, **orders(), listen="127.0.0.1:29092", log={"level": "debug"}, validation={"max_batch": "1MiB"})
        await until(lambda: APPLIED in caplog.messages)
    named = [vars(record)["settings"] for record in caplog.records if record.message == RESTART]
    assert named == REPORTS == [["listen", "log"]]


async def test_settings_of_the_pipeline_need_no_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, applied = tmp_path / "sidecar.yaml", list[Config]()
    written(path)
    async with watched(path, applied.append):
        written(path, pipeline={"reconcile": {"path": "elsewhere"}})
        await until(lambda: APPLIED in caplog.messages)
    assert (RESTART in caplog.messages, REPORTS) == (False, [[]])


async def test_topic_configs_added_to_the_file_delay_no_produce_before_the_restart() -> None:
    async with FakeBroker() as broker, serving(broker) as server:
        broker.answers[ApiKey.PRODUCE] = stores
        server.apply(config(broker, topic_configs={"topic": "kept"}))
        async with connected(port_of(server)) as client:
            client.send(produce_request(9, {"orders": {0: batch("good")}}, correlation_id=1))
            async with asyncio.timeout(5):
                assert [code for _, _, code, _ in results(9, await client.frame(), 1)] == [0]


async def test_a_waiting_request_is_validated_by_the_rules_under_which_it_began() -> None:
    settings = {"policies": {"stub": {"type": "support.policies:Stub"}}, **orders()}
    new: dict[str, Any] = {
        "policies": {"stub": {"type": "support.policies:Stub", "refused": "worse"}},
        **orders(),
    }
    async with FakeBroker() as broker, serving(broker, **settings) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.PRODUCE] = stores
        old = Stub.opened[-1]
        old.gate.clear()
        client.send(produce_request(9, {"orders": {0: batch("ask a", "bad"), 1: batch("worse")}}, correlation_id=1))
        await until(lambda: old.asked)
        server.apply(config(broker, **new))
        client.send(produce_request(9, {"orders": {0: batch("bad"), 1: batch("worse")}}, correlation_id=2))
        gc.collect()
        assert old.closed == 0
        old.gate.set()
        assert results(9, await client.frame(), 1) == [("orders", 0, 87, -1), ("orders", 1, 0, 0)]
        assert results(9, await client.frame(), 2) == [("orders", 0, 0, 1), ("orders", 1, 87, -1)]
        gc.collect()
        assert (old.closed, Stub.opened[-1].closed) == (1, 0)
        assert server.metrics.connections == {"bootstrap": 1}


async def test_many_reloads_under_load_drop_no_connection_and_validate_each_request_by_one_version() -> None:
    def version(word: str) -> dict[str, Any]:
        return {"policies": {"stub": {"type": "support.policies:Stub", "refused": word}}, **orders()}

    both = {"orders": {0: batch("odd"), 1: batch("even")}}
    async with FakeBroker() as broker, serving(broker, **version("odd")) as server:
        broker.answers[ApiKey.PRODUCE] = stores
        async with connected(port_of(server)) as client:
            for number in range(20):
                client.send(
                    produce_request(9, both, correlation_id=2 * number)
                    + produce_request(9, both, correlation_id=2 * number + 1)
                )
                await asyncio.sleep(0)
                server.apply(config(broker, **version(("odd", "even")[number % 2])))
            for number in range(40):
                codes = sorted(code for _, _, code, _ in results(9, await client.frame(), number))
                assert codes == [0, 87]
        assert sum(server.metrics.connections.values()) == 1


@pytest.mark.program
def test_a_running_sidecar_reloads_its_file_on_sighup_and_continues_serving(tmp_path: Path) -> None:
    path, (listen, admin) = tmp_path / "sidecar.yaml", free_ports(2)
    settings = {"listen": f"127.0.0.1:{listen}", "admin": {"listen": f"127.0.0.1:{admin}"}, "nodes": {"ports": 1}}
    written(path, **settings)
    program = Program([COMMAND, "run", "--config", path], tmp_path / "log")
    try:
        program.wait_for(lambda: '"serving"' in program.output(), "serving")
        written(path, **settings, topics=[{"name": "orders", "policy": "require_header:id"}])
        os.kill(program.pid, signal.SIGHUP)
        program.wait_for(lambda: APPLIED in program.output(), "the new file")
        path.write_text("topics: [")
        program.wait_for(lambda: REJECTED in program.output(), "the rejection")
        assert program.is_running
    finally:
        program.kill()


@pytest.mark.program
def test_a_running_sidecar_reads_a_schema_again_once_its_file_has_changed(tmp_path: Path) -> None:
    path, schema, (listen, admin) = tmp_path / "sidecar.yaml", tmp_path / "order.avsc", free_ports(2)
    schema.write_text('"int"')
    settings = {"listen": f"127.0.0.1:{listen}", "admin": {"listen": f"127.0.0.1:{admin}"}, "nodes": {"ports": 1}}
    written(path, **settings, policies={"order": {"type": "avro", "file": "order.avsc"}}, **orders("order"))
    program = Program([COMMAND, "run", "--config", path], tmp_path / "log")
    try:
        program.wait_for(lambda: '"serving"' in program.output(), "serving")
        schema.write_text('"nothing"')
        program.wait_for(lambda: REJECTED in program.output(), "the rejection")
        assert "order.avsc: $: 'nothing' is not a type" in program.output()
        assert APPLIED not in program.output()
        schema.write_text('"string"')
        program.wait_for(lambda: APPLIED in program.output(), "the new schema")
    finally:
        program.kill()


@pytest.mark.program
def test_without_a_file_sighup_does_not_end_the_sidecar(tmp_path: Path) -> None:
    (listen, admin) = free_ports(2)
    addresses = ["--listen", f"127.0.0.1:{listen}", "--admin", f"127.0.0.1:{admin}"]
    program = Program([COMMAND, "run", "--bootstrap-servers", "127.0.0.1:1", *addresses], tmp_path / "log")
    try:
        program.wait_for(lambda: '"serving"' in program.output(), "serving")
        os.kill(program.pid, signal.SIGHUP)
        assert program.stop() == 0
    finally:
        program.kill()
