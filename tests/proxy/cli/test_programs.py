"""The commands before a sidecar with two workers, a token and a client with a hostile name. Real processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
import yaml
from harness.ports import free_ports
from harness.sidecar import COMMAND, Sidecar
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import connected
from support.sidecar_process import port_of, running

from kafka_sidecar.codec.apis import ApiKey

pytestmark = pytest.mark.program

on_one_loop = pytest.mark.asyncio(loop_factories=["uvloop"])  # the program chooses its own
HOSTILE = b"evil\x1b[31m\nname"


async def command(sidecar: Sidecar, *words: str) -> tuple[int, str]:
    """Exit code and output."""

    def run() -> tuple[int, str]:
        line = [str(COMMAND), *words, "--admin", sidecar.admin]
        made = subprocess.run(line, capture_output=True, text=True, timeout=30, check=False)
        return made.returncode, made.stdout + made.stderr

    return await asyncio.to_thread(run)


@on_one_loop
async def test_workers_are_the_sum_and_each_and_a_token_opens_the_pages(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef0123456789abcdef")
    path = tmp_path / "sidecar.yaml"
    path.write_text(yaml.safe_dump({"workers": 2, "nodes": {"ports": 20}, "admin": {"token_file": "token"}}))
    token = ("--token-file", str(tmp_path / "token"))
    async with FakeBroker() as broker, running(broker, tmp_path / "log", "--config", str(path)) as sidecar:
        async with connected(port_of(sidecar)) as client:
            await client.ask(request(ApiKey.HEARTBEAT, 3, 7, client_id=HOSTILE))
            exit_code, output = await command(sidecar, "status", *token)
            assert exit_code == 0, output
            assert output.splitlines()[0].endswith(", 2 workers")
            assert {line.split(",")[0].split()[0] for line in output.splitlines() if line.startswith("worker ")}
            assert "worker 1       pid " in output
            assert "worker 2       pid " in output
            exit_code, output = await command(sidecar, "connections", *token)
            assert (exit_code, output.splitlines()[0].split()[0]) == (0, "worker")
            assert "evil\\x1b[31m\\nname" in output
            assert "1 shown of 1 open" in output
        exit_code, output = await command(sidecar, "config", "show", "--running", "--given", *token)
        assert exit_code == 0, output
        assert output.startswith("# generation 1, last reload applied\n")
        loaded = yaml.safe_load(output)
        assert (loaded["workers"], loaded["nodes"]) == (2, {"ports": 20})
        assert f"# {path}:" in output
        assert "# flag --listen" in output
        exit_code, output = await command(sidecar, "rejections", *token)
        assert (exit_code, output) == (0, "nothing was rejected or denied\n")
        exit_code, output = await command(sidecar, "status")
        assert (exit_code, "--token-file" in output) == (1, True)


@on_one_loop
async def test_a_sidecar_without_brokers_is_not_ready(tmp_path: Path) -> None:
    down = FakeBroker()
    down.port = free_ports(1)[0]
    sidecar = await asyncio.to_thread(Sidecar, down.address, tmp_path / "log", ())
    try:
        await asyncio.to_thread(
            sidecar.program.wait_for, lambda: '"serving"' in sidecar.program.output(), "serving", 30
        )
        exit_code, output = await command(sidecar, "status")
        assert exit_code == 3, output
        assert output.startswith("NOT READY: ")
        assert "!! not ready: no broker has responded yet" in output.splitlines()[1]
        found = json.loads((await command(sidecar, "status", "--json"))[1])
        assert found["ready"] is False
    finally:
        sidecar.program.kill()
