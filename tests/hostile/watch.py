"""What an attack does to a sidecar: the delay of its event loop, memory, descriptors."""

from __future__ import annotations

import http.client
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from hostile.wire import Address

PAUSE_S = 0.02
MAX_WAIT_S = 60.0
MB = 1e6


class Delay:
    """The longest time from a first attempt until one succeeds; an attempt that fails is no fast response."""

    def __init__(self) -> None:
        self.worst_s = 0.0
        self._since: float | None = None  # the first attempt after the last success

    def add(self, began: float, ended: float, succeeded: bool) -> None:
        since = began if self._since is None else self._since
        self.worst_s = max(self.worst_s, ended - since)
        self._since = None if succeeded else since


class Watch:
    """Requests ``/livez`` fifty times a second; the delay is the loop's longest turn, and what the cores add."""

    def __init__(self, pid: int, admin: Address) -> None:
        self.delay = Delay()
        self.descriptors = 0
        self._process = Path(f"/proc/{pid}")
        self._admin = admin
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._probe, self._count)]

    def resident_mb(self) -> float:
        return self._status("VmRSS")

    def peak_mb(self) -> float:
        """The most since the process was started."""
        return self._status("VmHWM")

    def _status(self, name: str) -> float:
        for line in (self._process / "status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024 / MB
        raise ValueError(f"no {name}")

    def _probe(self) -> None:
        while not self._is_over.wait(PAUSE_S):
            began = time.perf_counter()
            succeeded = self._is_live()
            self.delay.add(began, time.perf_counter(), succeeded)

    def _is_live(self) -> bool:
        connection = http.client.HTTPConnection(*self._admin, timeout=MAX_WAIT_S)
        try:
            connection.request("GET", "/livez")
            response = connection.getresponse()
            response.read()
            return response.status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def open_files(self) -> int:
        return sum(1 for _ in (self._process / "fd").iterdir())

    def _count(self) -> None:
        while not self._is_over.wait(PAUSE_S * 10):
            with suppress(OSError):
                self.descriptors = max(self.descriptors, self.open_files())

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(MAX_WAIT_S)
