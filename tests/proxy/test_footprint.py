"""The memory and descriptors of a running sidecar, measured from outside."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.sidecar import Sidecar
from support import oracle
from support.dialogue import request
from support.fake_broker import FakeBroker, fixed
from support.in_process import Client, until
from support.sidecar_process import port_of, running

from kafka_sidecar.codec.apis import ApiKey

pytestmark = pytest.mark.program

on_one_loop = pytest.mark.asyncio(loop_factories=["uvloop"])  # the program chooses its own
MB = 1 << 20
HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7, bytes(1000))
METADATA = oracle.request_frame(oracle.request(ApiKey.METADATA, 12), 8)
# Its records pass as they are; its last bytes are rewritten.
FETCH = oracle.request_frame(oracle.request(ApiKey.FETCH, 17), 9)
FETCHED = oracle.response_frame(
    oracle.response(
        ApiKey.FETCH,
        17,
        responses=[{"partitions": [{"records": bytes(50 * MB)}]}],
        node_endpoints=[{"node_id": 1, "host": "broker-1.internal", "port": 9092}],
    ),
    9,
)


def resident(sidecar: Sidecar) -> int:
    """Bytes of memory that the process has now."""
    lines = Path(f"/proc/{sidecar.program.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


def descriptors(sidecar: Sidecar) -> int:
    return len(list(Path(f"/proc/{sidecar.program.pid}/fd").iterdir()))


def metric(sidecar: Sidecar, name: str) -> float:
    with urllib.request.urlopen(f"{sidecar.admin}/metrics", timeout=5) as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"kafka_sidecar_{name}"))


async def settled(figure: Callable[[Sidecar], int], sidecar: Sidecar) -> int:
    """A figure once it no longer changes."""
    seen = [figure(sidecar)]
    while len(seen) < 4 or len(set(seen[-4:])) > 1:
        await asyncio.sleep(0.05)
        seen.append(figure(sidecar))
    return seen[-1]


@on_one_loop
async def test_a_client_that_does_not_read_makes_the_sidecar_hold_a_window_and_not_the_response(tmp_path: Path) -> None:
    async with FakeBroker() as broker, running(broker, tmp_path / "log", "--log-level", "warning") as sidecar:
        broker.answers[ApiKey.FETCH] = fixed(FETCHED)
        before = await settled(resident, sidecar)
        clients = [await Client.connect(port_of(sidecar)) for _ in range(2)]
        for client in clients:
            client.pause()
            client.send(FETCH)
        await until(lambda: sum(asked.key == ApiKey.FETCH for asked in broker.requests) == 2)
        assert await settled(resident, sidecar) - before < 5 * MB
        for client in clients:
            client.resume()
            got = await client.frame()
            assert (len(got), b"broker-1.internal" in got[-200:]) == (len(FETCHED), False)
            client.close()
        assert await settled(resident, sidecar) - before < 5 * MB


CROWD = 200  # clients
# The heap grows with the first crowds, at another pace on each machine, and then no more. In these many crowds after
# that, a leak of half a kilobyte a connection would be twice what is allowed.
QUIET_CROWDS, QUIET_GROWTH = 8, 400 << 10
MAX_CROWDS = 60


async def crowd(port: int, broker: FakeBroker) -> None:
    """Many clients at once, each with some load; then all of them are gone, half of them rudely."""
    clients = await asyncio.gather(*(Client.connect(port) for _ in range(CROWD)))

    async def talk(client: Client) -> None:
        for asked in (METADATA, HEARTBEAT * 5, HEARTBEAT):
            client.send(asked)
            for _ in range(asked.count(HEARTBEAT) or 1):
                await client.frame()

    await asyncio.gather(*map(talk, clients))
    for number, client in enumerate(clients):
        (client.abort if number % 2 else client.close)()
    await until(lambda: broker.open == 0)


@on_one_loop
async def test_thousands_of_connections_leave_no_descriptor_no_session_and_no_memory(tmp_path: Path) -> None:
    async with FakeBroker() as broker, running(broker, tmp_path / "log", "--log-level", "warning") as sidecar:
        await asyncio.to_thread(metric, sidecar, "nodes")
        before = await settled(descriptors, sidecar)
        sizes = list[int]()
        while len(sizes) <= QUIET_CROWDS or sizes[-1] - sizes[-1 - QUIET_CROWDS] > QUIET_GROWTH:
            assert len(sizes) < MAX_CROWDS, f"resident bytes after each crowd: {sizes}"
            await crowd(port_of(sidecar), broker)
            sizes.append(await settled(resident, sidecar))
        assert await settled(descriptors, sidecar) == before
        assert await asyncio.to_thread(metric, sidecar, "active_connections") == 0
        assert await asyncio.to_thread(metric, sidecar, "connections_total") == CROWD * len(sizes)
        assert await asyncio.to_thread(metric, sidecar, "disconnects_total") == CROWD * len(sizes)
        assert sidecar.program.output() == ""
