"""The real sidecar process in front of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from harness import admin_pages
from harness.cluster import SIDECAR_HOST
from harness.ports import free_ports
from harness.processes import Program

# Node N is reached at the listen port + 1 + N; clusters of the tests have at most seven nodes.
NODE_PORTS = 8
# The default of nodes.ports: a bootstrap server whose port is among them is taken for the sidecar itself.
RESERVED = 100
COMMAND = Path(sys.executable).with_name("kafka-sidecar")


class Sidecar:
    """A running sidecar; it keeps its ports when it is started again."""

    def __init__(self, brokers: str, log: Path, flags: Sequence[str] = (), command: Path = COMMAND) -> None:
        self.log = log
        listen, admin = (ports := free_ports(1 + RESERVED + 1))[0], ports[-1]
        self.bootstrap = f"127.0.0.1:{listen}"
        self.admin = f"http://127.0.0.1:{admin}"
        self._command: list[str | Path] = [
            command, "run", "--bootstrap-servers", brokers, "--listen", self.bootstrap,
            "--admin", f"127.0.0.1:{admin}", "--broker-source-address", SIDECAR_HOST, *flags,
        ]  # fmt: skip
        self.program: Program = self._spawn()

    @classmethod
    def start(cls, brokers: str, log: Path, flags: Sequence[str] = (), command: Path = COMMAND) -> Sidecar:
        """Returns when it is ready, which takes a cluster that answers."""
        sidecar = cls(brokers, log, flags, command)
        sidecar.wait()
        return sidecar

    def _spawn(self) -> Program:
        return Program(self._command, self.log)

    def wait(self, limit_s: float = 60) -> None:
        self.program.wait_for(self.is_ready, "ready", limit_s)

    def is_ready(self) -> bool:
        """Whether ``/readyz`` says so."""
        try:
            return admin_pages.get(f"{self.admin}/readyz", 2).status == 200
        except OSError:
            return False

    def restart(self) -> None:
        """SIGKILL and the same command again: a crash and what Kubernetes does about it."""
        self.program.kill()
        self.start_again()

    def start_again(self) -> None:
        """The same command, after `stop`."""
        self.program = self._spawn()
        self.wait()

    def stop(self) -> int:
        """SIGTERM; returns the exit code once it has drained."""
        return self.program.stop()

    def __enter__(self) -> Sidecar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.program.kill()
