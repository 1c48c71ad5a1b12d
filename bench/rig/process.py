"""A started program: its CPU time in nanoseconds, its memory, its end. Linux only: it reads /proc."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Final

TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
PROC: Final = Path("/proc")


class Process:
    """A program, its threads and its children."""

    def __init__(self, command: list[str], log: Path, core: int | None) -> None:
        """Start ``command``, on one core if given; its output goes to ``log``."""

        def pin() -> None:
            if core is not None:
                os.sched_setaffinity(0, {core})

        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=pin
            )
        self.pid = self._popen.pid

    def alive(self) -> bool:
        return self._popen.poll() is None

    def stop(self, limit_s: float = 10) -> None:
        if self.alive():
            self._popen.terminate()
            try:
                self._popen.wait(limit_s)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                self._popen.wait()

    def cpu_ns(self) -> int:
        """Time on a core, user and system, of all threads and living children."""
        return sum(map(cpu_ns, self.family()))

    def rss_bytes(self) -> int:
        return self._memory("VmRSS:")

    def peak_rss_bytes(self) -> int:
        """The kernel's high-water mark."""
        return self._memory("VmHWM:")

    def family(self) -> list[int]:
        """Its own pid and those of all its descendants."""
        pids = [self.pid]
        for pid in pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                pids += _children(pid)
        return pids

    def _memory(self, name: str) -> int:
        total = 0
        for pid in self.family():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                lines = (PROC / str(pid) / "status").read_text().splitlines()
                total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
        return total


def _children(pid: int) -> list[int]:
    if (PROC / "thread-self" / "children").exists():
        lists = (PROC / str(pid) / "task").glob("*/children")
        return [int(child) for path in lists for child in path.read_text().split()]
    children = []  # a kernel without that file: search by parent pid
    for path in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                children.append(int(path.parent.name))
    return children


def cpu_ns(pid: int) -> int:
    """Time on a core, user and system, of all living threads of a process."""
    return sum(map(_cpu_ns, (PROC / str(pid) / "task").glob("*")))


def _cpu_ns(task: Path) -> int:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return int((task / "schedstat").read_text().split()[0])
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a kernel without it: in clock ticks
        fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * TICK_NS
    return 0


def machine_busy_ns() -> int:
    """Time that all cores of the machine were busy since it started."""
    user, nice, system, _, _, irq, softirq, steal = map(int, (PROC / "stat").read_text().split(maxsplit=9)[1:9])
    return (user + nice + system + irq + softirq + steal) * TICK_NS
