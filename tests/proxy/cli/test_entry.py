"""The first moments of the program."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from harness.ports import free_ports
from harness.sidecar import Sidecar

from kafka_sidecar.proxy.cli import entry
from kafka_sidecar.proxy.cli import main as main_module

HUP = 1 << (signal.SIGHUP - 1)


def blocks_hup(pid: int) -> bool:
    """Whether a process keeps SIGHUP for later."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigBlk"], 16) & HUP)


@pytest.mark.program
def test_sighup_before_the_program_is_ready_does_not_kill_it(tmp_path: Path) -> None:
    sidecar = Sidecar(f"127.0.0.1:{free_ports(1)[0]}", tmp_path / "log")
    try:
        sidecar.program.wait_for(lambda: blocks_hup(sidecar.program.popen.pid), "blocking SIGHUP")
        assert "serving" not in sidecar.program.output()
        sidecar.program.send_signal(signal.SIGHUP)
        sidecar.program.wait_for(lambda: "serving" in sidecar.program.output(), "serving")
        sidecar.program.wait_for(lambda: not blocks_hup(sidecar.program.popen.pid), "handling SIGHUP")
        sidecar.program.send_signal(signal.SIGHUP)
        assert sidecar.program.is_running
    finally:
        sidecar.program.kill()


@pytest.mark.parametrize(("command", "is_blocked"), [("run", True), ("validate", False)])
def test_only_a_sidecar_that_runs_keeps_sighup_for_later(
    command: str, is_blocked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[bool] = []
    monkeypatch.setattr(main_module, "main", lambda: ran.append(True))
    monkeypatch.setattr(sys, "argv", ["kafka-sidecar", command])
    try:
        entry.main()
        assert (signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, ())) == is_blocked
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    assert ran == [True]
