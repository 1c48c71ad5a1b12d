"""The walk of a Produce in docs/design.md names the files of the proxy that a request enters between the sockets."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of, serving
from support.produce_requests import batch, produce_request, results, stores

from kafka_sidecar import proxy
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.relay import exchange_driver

PROXY = Path(proxy.__file__).resolve().parent
DESIGN = PROXY.parent / "docs/design.md"
MAX_FILES = 15  # that a reader opens to follow an inspected Produce
VERSION = 12
WITH_A_TURN = {"relay/memory_budget.py", "runtime/performer.py", "runtime/side.py"}
RELAYED = {"relay/acks.py", "relay/frames.py", "relay/session.py", "runtime/connection.py"}
INSPECTED = {
    "policies": {"stub": {"type": "support.policies:Stub"}},
    "topics": [{"name": "orders", "policy": "stub"}],
    "interceptors": [{"type": "support.interception:Adds", "topics": ["orders"]}],
}


@contextmanager
def tracing() -> Iterator[set[str]]:
    """The files of the proxy whose functions run."""
    found = set[str]()

    def trace(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename).resolve()
        if event == "call" and PROXY in path.parents:
            found.add(path.relative_to(PROXY).as_posix())

    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        yield found
    finally:
        sys.setprofile(before)


async def entered(**settings: Any) -> set[str]:
    """The files that each of three requests enters, on a connection on which one like them came before.

    What runs beside one of them, as once a second the sweep does, is none.
    """
    traces: list[set[str]] = []
    async with FakeBroker() as broker, serving(broker, **settings) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.PRODUCE] = stores
        frame = produce_request(VERSION, {"orders": {0: batch("good", codec=3)}})
        await client.ask(frame)
        for at in range(1, 4):
            with tracing() as found:
                response = await client.ask(frame)
            assert results(VERSION, response) == [("orders", 0, 0, at)]
            traces.append(found)
    return set.intersection(*traces)


def walk() -> set[str]:
    """The files that the section in the design names."""
    _, _, rest = DESIGN.read_text(encoding="utf-8").partition("\n## The walk of a Produce")
    return set(re.findall(r"`(\w+/[\w/]+\.py)`", rest.partition("\n## ")[0]))


async def test_an_inspected_produce_enters_the_files_of_its_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_driver, "MAX_TURN_S", 0.0)  # others always have a turn first
    found = await entered(**INSPECTED)
    assert found == walk()
    assert len(found) <= MAX_FILES


async def test_where_others_need_no_turn_it_enters_three_files_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_driver, "MAX_TURN_S", 1e9)
    assert await entered(**INSPECTED) == walk() - WITH_A_TURN


async def test_a_relayed_produce_enters_four_files() -> None:
    assert await entered() == RELAYED
