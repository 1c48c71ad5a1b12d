"""Whole sidecars of two workers, in front of a broker that the test plays."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from harness.ports import free_ports
from harness.sidecar import COMMAND, NODE_PORTS, Sidecar
from support import oracle
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import Client, connected, until, until_refused
from support.produce_requests import batch, produce_request, results
from support.sidecar_process import port_of
from support.sidecar_process import running as running_sidecar

from kafka_sidecar.codec.apis import ApiKey

pytestmark = pytest.mark.program

on_one_loop = pytest.mark.asyncio(loop_factories=["uvloop"])  # the program chooses its own
HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)
METADATA = oracle.request_frame(oracle.request(ApiKey.METADATA, 12), 1)


@pytest.fixture(autouse=True)
def two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SIDECAR__WORKERS", "2")
    monkeypatch.setenv("KAFKA_SIDECAR__NODES__PORTS", str(NODE_PORTS))


def lines(sidecar: Sidecar, message: str) -> list[dict[str, Any]]:
    return sidecar.program.lines(message)


def pids(sidecar: Sidecar) -> dict[int, int]:
    """The present process of each worker."""
    return {line["worker"]: line["pid"] for line in lines(sidecar, "worker serving")}


async def page(sidecar: Sidecar, path: str) -> Any:
    async with connected(int(sidecar.admin.rpartition(":")[2])) as client:
        client.send(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        body = (await client.rest()).partition(b"\r\n\r\n")[2]
    return json.loads(body) if body.startswith(b"{") else body.decode()


def node_port(sidecar: Sidecar, worker: int) -> int:
    """Where a worker serves node 1."""
    return port_of(sidecar) + 1 + (worker - 1) * NODE_PORTS + 1


@asynccontextmanager
async def running(broker: FakeBroker, log: Path, *flags: str) -> AsyncIterator[Sidecar]:
    """A sidecar whose workers both have a listener for the broker."""
    async with running_sidecar(broker, log, *flags) as sidecar:
        await until(lambda: len(lines(sidecar, "broker listener opened")) == 2)
        yield sidecar


async def ended(sidecar: Sidecar, limit_s: float = 10) -> int:
    return await asyncio.to_thread(sidecar.program.popen.wait, limit_s)


@on_one_loop
async def test_the_bootstrap_port_leads_to_all_workers_and_each_names_its_own_ports(tmp_path: Path) -> None:
    async with FakeBroker() as broker, running(broker, tmp_path / "log") as sidecar:
        seen = Counter[int]()
        for _ in range(40):
            async with connected(port_of(sidecar)) as client:
                (named,) = oracle.read_response(ApiKey.METADATA, 12, await client.ask(METADATA))[1].brokers
                seen[named.port] += 1
        assert set(seen) == {node_port(sidecar, worker) for worker in (1, 2)}
        for worker in (1, 2):
            async with connected(node_port(sidecar, worker)) as client:
                assert (await client.ask(HEARTBEAT))[8:] == b"node 1"
        metrics = await page(sidecar, "/metrics")
    assert 'kafka_sidecar_connections_total{listener="bootstrap"} 40.0\n' in metrics
    assert 'kafka_sidecar_connections_total{listener="node"} 2.0\n' in metrics
    assert "kafka_sidecar_workers_serving 2.0\n" in metrics


@on_one_loop
async def test_a_worker_that_is_killed_is_started_again_at_its_ports_and_the_other_serves_on(tmp_path: Path) -> None:
    async with FakeBroker() as broker, running(broker, tmp_path / "log") as sidecar:
        async with connected(node_port(sidecar, 2)) as other, connected(node_port(sidecar, 1)) as own:
            await own.ask(HEARTBEAT)
            os.kill(pids(sidecar)[1], signal.SIGKILL)
            assert await own.rest() == b""
            await other.ask(HEARTBEAT)
            await until(lambda: len(lines(sidecar, "worker serving")) == 3)
            await other.ask(HEARTBEAT)
            async with connected(node_port(sidecar, 1)) as again:
                assert (await again.ask(HEARTBEAT))[8:] == b"node 1"
        (line,) = lines(sidecar, "worker ended, it is started again")
        assert (line["worker"], line["detail"]) == (1, "killed by SIGKILL")
        assert 'kafka_sidecar_worker_restarts_total{worker="1"} 1.0\n' in await page(sidecar, "/metrics")
        assert (await page(sidecar, "/readyz"))["ready"]


@on_one_loop
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_all_workers(number: signal.Signals, tmp_path: Path) -> None:
    async with FakeBroker() as broker, running(broker, tmp_path / "log") as sidecar:
        clients = [await Client.connect(node_port(sidecar, worker)) for worker in (1, 2)]
        for client in clients:
            await client.ask(HEARTBEAT)
        sidecar.program.send_signal(number)
        # Not by connecting: a worker that drains later than the other one would count that connection, too.
        await until(lambda: len(lines(sidecar, "draining")) == 2)
        await until_refused(port_of(sidecar))
        assert not (await page(sidecar, "/readyz"))["ready"]
        for client in clients:
            await client.ask(HEARTBEAT)
            client.close()
        assert await ended(sidecar) == 0
        drains = [(line["worker"], line["connections"]) for line in lines(sidecar, "draining")]
        assert sorted(drains) == [(1, 1), (2, 1)]
        assert [line.get("worker") for line in lines(sidecar, "stopped")][-1] is None
        assert {line["level"] for line in lines(sidecar, "connection ended")} == {"info"}


@on_one_loop
async def test_a_second_signal_ends_the_drain_of_all(tmp_path: Path) -> None:
    async with FakeBroker() as broker, running(broker, tmp_path / "log") as sidecar:
        clients = [await Client.connect(node_port(sidecar, worker)) for worker in (1, 2)]
        for client in clients:
            await client.ask(HEARTBEAT)
        sidecar.program.send_signal(signal.SIGTERM)
        await until(lambda: len(lines(sidecar, "draining")) == 2)
        sidecar.program.send_signal(signal.SIGTERM)
        for client in clients:
            assert await client.rest() == b""
            client.close()
        assert await ended(sidecar) == 0


@on_one_loop
async def test_workers_drain_and_end_if_the_supervisor_is_killed(tmp_path: Path) -> None:
    async with FakeBroker() as broker, running(broker, tmp_path / "log") as sidecar:
        async with connected(node_port(sidecar, 1)) as client:
            await client.ask(HEARTBEAT)
            sidecar.program.kill()
            await until(lambda: len(lines(sidecar, "draining")) == 2)
            await client.ask(HEARTBEAT)
        await until(lambda: len(lines(sidecar, "stopped")) == 2)


POLICY = "topics: [{name: orders, policy: json}]\n"


async def produced(sidecar: Sidecar, worker: int) -> int:
    """The error code of a record that is not JSON."""
    async with connected(node_port(sidecar, worker)) as client:
        response = await client.ask(produce_request(9, {"orders": {0: batch("not JSON")}}))
    ((_, _, error_code, _),) = results(9, response)
    return error_code


@on_one_loop
async def test_a_reload_reaches_all_workers_and_rejections_of_all_are_listed(tmp_path: Path) -> None:
    file = tmp_path / "kafka-sidecar.yaml"
    file.write_text("topics: []\n")
    async with FakeBroker() as broker, running(broker, tmp_path / "log", "--config", str(file)) as sidecar:
        file.write_text(POLICY)
        sidecar.program.send_signal(signal.SIGHUP)
        await until(lambda: len(lines(sidecar, "configuration applied")) >= 2)
        assert {line["worker"] for line in lines(sidecar, "configuration applied")} == {1, 2}
        assert [await produced(sidecar, worker) for worker in (1, 2)] == [87, 87]
        assert [one["topic"] for one in (await page(sidecar, "/rejections"))["rejections"]] == ["orders", "orders"]
        os.kill(pids(sidecar)[2], signal.SIGKILL)
        file.write_text("topics: 7\n")  # the worker that is started again has what applies
        await until(lambda: len(lines(sidecar, "worker serving")) == 3)
        assert await produced(sidecar, 2) == 87
        assert "kafka_sidecar_config_last_reload_successful 0.0" in await page(sidecar, "/metrics")


def run_to_exit(*flags: str, **environment: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a run that ends by itself."""
    run = subprocess.run(
        [COMMAND, "run", "--admin", "127.0.0.1:0", *flags],
        capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL, env={**os.environ, **environment},
    )  # fmt: skip
    return run.returncode, run.stdout, run.stderr


def test_an_invalid_configuration_exits_with_2_once(tmp_path: Path) -> None:
    file = tmp_path / "kafka-sidecar.yaml"
    file.write_text(
        f"listen: 127.0.0.1:{free_ports(1 + 2 * NODE_PORTS)[0]}\npolicies: {{a: {{type: json, nesting: 7}}}}\n"
    )
    code, output, mistakes = run_to_exit("--config", str(file), "--bootstrap-servers", "127.0.0.1:1")
    assert code == 2
    assert mistakes.count("nesting") == len(mistakes.splitlines()) == 1
    assert "worker serving" not in output


def test_a_port_in_use_exits_with_2_once_even_if_it_would_be_shared() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        port = free_ports(1 + 2 * NODE_PORTS)[0]
        other.bind(("127.0.0.1", port))
        other.listen()
        code, _, mistakes = run_to_exit("--listen", f"127.0.0.1:{port}", "--bootstrap-servers", "127.0.0.1:1")
    assert code == 2
    assert (
        mistakes == f"kafka-sidecar: listen: 127.0.0.1:{port} cannot be bound: Address already in use; choose another\n"
    )


def test_what_only_a_start_finds_out_exits_with_2_once() -> None:
    port = free_ports(1 + 2 * NODE_PORTS)[0]
    name = socket.gethostname()
    code, _, mistakes = run_to_exit("--listen", f"0.0.0.0:{port}", "--bootstrap-servers", f"{name}:{port + 12}",
                                    "--advertised-host", name)  # fmt: skip
    assert code == 2
    assert len(mistakes.splitlines()) == 1
    assert "is this sidecar itself" in mistakes


def test_a_worker_that_cannot_start_ends_the_sidecar_with_1(tmp_path: Path) -> None:
    (tmp_path / "uvloop.py").write_text(
        "import sys\nif sys.argv[0].endswith('__main__.py'): sys.exit(7)\nraise ImportError\n"
    )
    port = free_ports(1 + 2 * NODE_PORTS)[0]
    flags = ("--listen", f"127.0.0.1:{port}", "--bootstrap-servers", "127.0.0.1:1")
    code, output, _ = run_to_exit(*flags, PYTHONPATH=str(tmp_path))
    assert code == 1
    assert "ended before it served: exit code 7" in output
