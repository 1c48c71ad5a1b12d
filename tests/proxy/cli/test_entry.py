"""The first moments of the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness.sidecar import COMMAND, Sidecar

from kafka_sidecar.pipeline.cli import app as pipeline
from kafka_sidecar.proxy.cli import entry, run
from kafka_sidecar.proxy.cli import main as all_commands
from kafka_sidecar.proxy.cli.main import JOBS


def has_signal(pid: int, mask: str, number: signal.Signals) -> bool:
    """Whether a process has a signal in its mask SigBlk, blocked, or SigCgt, caught."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status[mask], 16) & 1 << (number - 1))


def blocks_hup(pid: int) -> bool:
    return has_signal(pid, "SigBlk", signal.SIGHUP)


@pytest.mark.program
def test_sighup_before_the_program_is_ready_does_not_kill_it(tmp_path: Path) -> None:
    sidecar = Sidecar("127.0.0.1:1", tmp_path / "log")
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
    monkeypatch.setattr(run if is_blocked else all_commands, "main", lambda: ran.append(True))
    monkeypatch.setattr(sys, "argv", ["kafka-sidecar", command])
    on_term = signal.getsignal(signal.SIGTERM)
    try:
        entry.main()
        assert (signal.getsignal(signal.SIGTERM) is not on_term) == is_blocked
        assert (signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, ())) == is_blocked
    finally:
        signal.signal(signal.SIGTERM, on_term)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    assert ran == [True]


@pytest.mark.program
def test_sigterm_during_the_imports_ends_it_with_success(tmp_path: Path) -> None:
    sidecar = Sidecar("127.0.0.1:1", tmp_path / "log")
    try:
        sidecar.program.wait_for(lambda: has_signal(sidecar.program.pid, "SigCgt", signal.SIGTERM), "handling SIGTERM")
        assert (sidecar.stop(), sidecar.program.output()) == (0, "")
    finally:
        sidecar.program.kill()


@pytest.mark.program
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["pipeline", "re"], ["reconcile", "replay-policy", "report"]),
        (["pipeline", ""], list(JOBS)),
        (["run", "--log-level", ""], ["debug", "info", "warning", "error"]),
    ],
)
def test_the_shell_completes_jobs_and_levels(words: list[str], offered: list[str]) -> None:
    typed = {"COMP_WORDS": " ".join(["kafka-sidecar", *words]), "COMP_CWORD": str(len(words))}
    environment = {**os.environ, **typed, "_KAFKA_SIDECAR_COMPLETE": "complete_bash"}
    done = subprocess.run([COMMAND], env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == offered


def test_the_jobs_are_those_of_the_pipeline() -> None:
    names = [one.name or (one.callback.__name__ if one.callback else "") for one in pipeline.registered_commands]
    names += [one.name or "" for one in pipeline.registered_groups]
    assert sorted(names) == sorted(JOBS)
