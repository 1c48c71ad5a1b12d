"""The program: start, errors at start, log lines, drain. Real processes."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from harness.ports import free_ports
from harness.sidecar import COMMAND, Sidecar
from support import oracle
from support.dialogue import request
from support.fake_broker import FakeBroker, after, named
from support.in_process import Client, connected, until
from support.sidecar_process import port_of, running

from kafka_sidecar import __version__
from kafka_sidecar.codec import compiled
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.telemetry.logs import KEYS

pytestmark = pytest.mark.program

on_one_loop = pytest.mark.asyncio(loop_factories=["uvloop"])  # the program chooses its own
HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)


def lines(sidecar: Sidecar) -> list[dict[str, object]]:
    return sidecar.program.lines()


async def ended(sidecar: Sidecar, limit_s: float = 5) -> int:
    return await asyncio.to_thread(sidecar.program.popen.wait, limit_s)


def run_to_exit(*arguments: str) -> tuple[int, str]:
    """Exit code and stderr of a run that ends by itself."""
    run = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    return run.returncode, run.stderr


@on_one_loop
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_open_connections_and_exits_with_0(sign: signal.Signals, tmp_path: Path) -> None:
    async with FakeBroker() as broker, running(broker, tmp_path / "log") as sidecar:
        broker.answers[ApiKey.HEARTBEAT] = after(0.05, named)
        async with connected(port_of(sidecar)) as client:
            await client.ask(HEARTBEAT)
            sidecar.program.send_signal(sign)
            assert (await client.ask(HEARTBEAT))[8:] == b"node 1"
            with pytest.raises(ConnectionRefusedError):
                await Client.connect(port_of(sidecar))
            assert sidecar.program.is_running
        assert await ended(sidecar) == 0
        output = lines(sidecar)
    assert [line["message"] for line in output][-4:] == ["stopping", "draining", "connection ended", "stopped"]
    assert all({"timestamp", "level", "logger", "message"} <= line.keys() for line in output)
    assert all(line.keys() - KEYS <= {"timestamp", "level", "logger", "message", "traceback"} for line in output)
    assert {line["level"] for line in output} == {"info"}


@on_one_loop
async def test_a_second_signal_ends_the_drain(tmp_path: Path) -> None:
    async with FakeBroker() as broker, running(broker, tmp_path / "log") as sidecar:
        async with connected(port_of(sidecar)) as client:
            await client.ask(HEARTBEAT)
            sidecar.program.send_signal(signal.SIGTERM)
            await until(lambda: '"draining"' in sidecar.program.output())
            assert sidecar.program.is_running
            sidecar.program.send_signal(signal.SIGTERM)
            assert await client.rest() == b""
        assert await ended(sidecar) == 0
        (end,) = [line for line in lines(sidecar) if line["message"] == "connection ended"]
        assert (end["cause"], end["client_id"], end["requests"]) == ("drain", "app", 1)


@on_one_loop
async def test_a_client_with_a_nodes_port_reaches_the_node_right_after_a_crash(tmp_path: Path) -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as two, running(one, tmp_path / "log") as sidecar:
        one.cluster = [one, two]
        async with connected(port_of(sidecar)) as client:
            await client.ask(oracle.request_frame(oracle.request(ApiKey.METADATA, 12), 1))
        await asyncio.to_thread(sidecar.restart)
        for _ in range(100):
            try:
                async with connected(port_of(sidecar) + 1 + 2) as client:
                    assert (await client.ask(HEARTBEAT))[8:] == b"node 2"
                    return
            except ConnectionRefusedError:
                await asyncio.sleep(0.02)
        raise AssertionError("node 2 has no listener")


@on_one_loop
async def test_an_unreachable_cluster_does_not_end_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SIDECAR__CLUSTER__REFRESH", "100ms")
    monkeypatch.setenv("KAFKA_SIDECAR__CONNECTIONS__BROKER_WAIT", "100ms")
    broker = await FakeBroker().start()
    await broker.stop()
    sidecar = await asyncio.to_thread(Sidecar, broker.address, tmp_path / "log")
    try:
        await asyncio.to_thread(sidecar.program.wait_for, lambda: "serving" in sidecar.program.output(), "serving")
        async with connected(port_of(sidecar)) as client:
            client.send(HEARTBEAT)
            assert await client.rest() == b""
        async with broker:
            await asyncio.to_thread(sidecar.wait)
        assert sidecar.program.is_running
    finally:
        sidecar.program.kill()


def test_a_port_in_use_is_one_line_and_exit_code_2() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = "{}:{}".format(*other.getsockname())
        free = f"127.0.0.1:{free_ports(1)[0]}"
        why = f"{taken} cannot be bound: Address already in use; choose another\n"
        flags = ["run", "--bootstrap-servers", "127.0.0.1:1", "--log-level", "error"]
        assert run_to_exit(*flags, "--listen", taken, "--admin", free) == (2, f"kafka-sidecar: listen: {why}")
        assert run_to_exit(*flags, "--listen", free, "--admin", taken) == (2, f"kafka-sidecar: admin.listen: {why}")


def test_a_missing_setting_is_one_line_and_exit_code_2() -> None:
    code, output = run_to_exit("run", "--listen", "127.0.0.1:19092")
    assert (code, output.count("\n")) == (2, 1)
    assert "bootstrap_servers: is missing: set it in the file, with --bootstrap-servers" in output


def test_the_version_is_printed() -> None:
    run = subprocess.run([COMMAND, "version"], capture_output=True, text=True, timeout=20)
    assert (run.returncode, run.stdout) == (0, f"kafka-sidecar {__version__} ({compiled.in_use()})\n")


@pytest.mark.parametrize("program", [[COMMAND], [sys.executable, "-m", "kafka_sidecar"]], ids=["command", "module"])
def test_the_version_is_an_option_too(program: list[str]) -> None:
    run = subprocess.run([*program, "--version"], capture_output=True, text=True, timeout=20)
    assert (run.returncode, run.stdout) == (0, f"kafka-sidecar {__version__} ({compiled.in_use()})\n")


def test_output_that_cannot_be_written_is_one_line() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        command = [sys.executable, "-m", "kafka_sidecar", "config", "schema"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (
        1,
        "kafka-sidecar: standard output cannot be written: No space left on device\n",
    )
