"""A running sidecar with plug-ins that sleep: who waits, and what an operator sees."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import json_lines
from support.fake_broker import FakeBroker
from support.in_process import connected
from support.produce_requests import batch, produce_request, results, stores
from support.sidecar_process import port_of, running

from kafka_sidecar.codec.apis import ApiKey

pytestmark = pytest.mark.program

POLICY = """\
import time

from kafka_sidecar.policies.contract import RecordValidationPolicy


class Sleeps(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.value.startswith(b"sleep"):
            time.sleep(float(record.value[5:]))
"""
SEND = """\
import time

from kafka_sidecar.interceptors.contract import ProducerInterceptor


class Sleeps(ProducerInterceptor):
    def on_send(self, record):
        if record.value.startswith(b"sleep"):
            time.sleep(float(record.value[5:]))
        return record
"""
FOR_POLICY = {
    "policies": {"own": {"type": "sleeping:Sleeps"}},
    "topics": [{"name": "orders", "policy": "own"}],
    "validation": {"timeout": "2s"},
}
FOR_SEND = {"interceptors": [{"type": "sleeping:Sleeps", "name": "own", "topics": ["orders"]}]}


def write(folder: Path, plug_in: str, settings: dict[str, Any]) -> Path:
    (folder / "sleeping.py").write_text(plug_in)
    for one in (*settings.get("policies", {}).values(), *settings.get("interceptors", ())):
        one["class_path"] = str(folder)
    config = folder / "sidecar.yaml"
    config.write_text(yaml.safe_dump(settings))
    return config


def request(value: str, topic: str = "orders") -> bytes:
    return produce_request(9, {topic: {0: batch(value)}})


def codes(response: bytes) -> list[int]:
    return [code for _, _, code, _ in results(9, response, 7)]


def lines(log: Path, message: str) -> list[dict[str, Any]]:
    return json_lines.read(log, message)


def get(url: str) -> int:
    with urllib.request.urlopen(url, timeout=10) as response:
        return int(response.status)


async def slowest(sidecar: Any, seconds: float) -> float:
    """The longest time that a probe takes meanwhile."""
    longest, until = 0.0, time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        for path in ("/livez", "/readyz"):
            assert await asyncio.to_thread(get, sidecar.admin + path) == 200
        longest = max(longest, time.monotonic() - began)
        await asyncio.sleep(0.05)
    return longest


async def test_a_new_policy_that_sleeps_keeps_its_own_connection_waiting_and_no_other(tmp_path: Path) -> None:
    config, log = write(tmp_path, POLICY, FOR_POLICY), tmp_path / "log"
    async with FakeBroker(1) as broker, running(broker, log, "--config", str(config)) as sidecar:
        broker.answers[ApiKey.PRODUCE] = stores
        async with connected(port_of(sidecar)) as slow, connected(port_of(sidecar)) as other:
            assert codes(await slow.ask(request("fast"))) == [0]
            began = time.monotonic()
            waiting = asyncio.ensure_future(slow.ask(request("sleep60")))
            probing = asyncio.ensure_future(slowest(sidecar, 2.5))
            asked = 0
            while time.monotonic() < began + 1.5:
                assert codes(await other.ask(request("fast"))) == [0]
                asked += 1
            assert codes(await waiting) == [7]  # REQUEST_TIMED_OUT
            assert time.monotonic() - began < 10
            assert asked > 10
            assert await probing < 1
        for _ in range(50):
            if stuck := lines(log, "thread stuck"):
                break
            await asyncio.sleep(0.1)
        assert (stuck[0]["policy"], stuck[0]["hook"], stuck[0]["topic"]) == ("own", "validate", "orders")
        assert any("sleeping.py" in frame for frame in stuck[0]["stack"])
        assert not lines(log, "event loop blocked")


async def test_many_that_sleep_leave_threads_for_others(tmp_path: Path) -> None:
    settings = {**FOR_POLICY, "validation": {"timeout": "20s"}, "threads": {"count": 1}}
    config, log = write(tmp_path, POLICY, settings), tmp_path / "log"
    async with FakeBroker(1) as broker, running(broker, log, "--config", str(config)) as sidecar:
        broker.answers[ApiKey.PRODUCE] = stores
        port = port_of(sidecar)
        async with connected(port) as one, connected(port) as two, connected(port) as three, connected(port) as other:
            waiting = [asyncio.ensure_future(slow.ask(request("sleep60"))) for slow in (one, two, three)]
            await asyncio.sleep(0.5)
            async with asyncio.timeout(8):
                assert codes(await other.ask(request("fast"))) == [0]
            assert not any(one.done() for one in waiting)
            for each in waiting:
                each.cancel()


@pytest.mark.parametrize(
    ("plug_in", "settings", "kind", "hook"),
    [(POLICY, FOR_POLICY, "policy", "validate"), (SEND, FOR_SEND, "interceptor", "on_send")],
)
async def test_a_later_call_that_blocks_the_loop_is_named_within_two_seconds(
    tmp_path: Path, plug_in: str, settings: dict[str, Any], kind: str, hook: str
) -> None:
    config, log = write(tmp_path, plug_in, settings), tmp_path / "log"
    async with FakeBroker(1) as broker, running(broker, log, "--config", str(config)) as sidecar:
        broker.answers[ApiKey.PRODUCE] = stores
        async with connected(port_of(sidecar)) as client:
            for _ in range(1001):
                assert codes(await client.ask(request("fast"))) == [0]
            waiting = asyncio.ensure_future(client.ask(request("sleep4")))
            await asyncio.sleep(2.3)
            blocked = lines(log, "event loop blocked")
            assert [(line[kind], line["hook"], line["topic"]) for line in blocked] == [("own", hook, "orders")]
            assert any("sleeping.py" in frame for frame in blocked[0]["stack"])
            await waiting
            await asyncio.sleep(1.5)
            assert lines(log, "event loop runs again")[0]["duration_s"] > 2
            # It is on probation again.
            waiting = asyncio.ensure_future(client.ask(request("sleep2")))
            assert await slowest(sidecar, 1.5) < 1
            await waiting
