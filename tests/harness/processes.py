"""Programs that the tests start: their logs, the wait until they are ready, and their certain end."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import signal
import subprocess
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from harness import json_lines

POLL_S = 0.03


def _keep_the_spawning_thread() -> ThreadPoolExecutor:
    # The kernel ends the children when the *thread* that forked them ends, so all are forked by one that stays.
    return ThreadPoolExecutor(1, thread_name_prefix="spawner")


_spawner = _keep_the_spawning_thread()
_running: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()


def spawn(
    command: Sequence[str | Path], stdin: int, stdout: IO[bytes] | int, stderr: IO[bytes] | int
) -> subprocess.Popen[bytes]:
    """Starts a program that dies with the test run, however that ends."""
    guard = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    started = _spawner.submit(
        subprocess.Popen, [*guard, *map(str, command)], stdin=stdin, stdout=stdout, stderr=stderr
    ).result()
    _running.add(started)
    return started


class ProgramError(Exception):
    """A program ended or stayed silent when it should have been ready; the message carries the end of its log."""


class Program:
    """One started program whose output goes to a log file; a file that exists is continued."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self.log = log
        self.log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self.popen = spawn(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def is_running(self) -> bool:
        return self.popen.poll() is None

    def output(self) -> str:
        """What it has written since it was started."""
        return self._written().decode(errors="replace")

    def lines(self, message: str | None = None) -> list[dict[str, Any]]:
        """The whole JSON lines of it; with ``message`` those that say so."""
        return json_lines.objects(self._written(), message)

    def _written(self) -> bytes:
        with self.log.open("rb") as file:
            file.seek(self.log_start)
            return file.read()

    def wait_for(self, is_ready: Callable[[], bool], what: str, limit_s: float = 60) -> None:
        """Returns when ``is_ready()``; raises ProgramError when the program ends first or ``limit_s`` has passed."""
        deadline = time.monotonic() + limit_s
        while not is_ready():
            if not self.is_running:
                raise ProgramError(f"ended with {self.popen.returncode} before {what}:\n{self._tail()}")
            if time.monotonic() > deadline:
                raise ProgramError(f"not {what} after {limit_s:g} s:\n{self._tail()}")
            time.sleep(POLL_S)

    def send_signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        self.popen.kill()
        self.popen.wait()

    def stop(self, limit_s: float = 60) -> int:
        """Asks it to end (SIGTERM), insists after ``limit_s``; returns the exit code."""
        self.popen.send_signal(signal.SIGCONT)
        self.popen.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.popen.wait(limit_s)
        self.kill()
        return self.popen.returncode

    def _tail(self) -> str:
        return self.output()[-4000:]


@atexit.register
def _end_all() -> None:
    for program in list(_running):
        if program.poll() is None:
            program.kill()
            program.wait()
