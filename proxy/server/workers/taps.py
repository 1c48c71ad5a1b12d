"""Taps with workers: the supervisor opens each in all of them, and in those that are started meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from kafka_sidecar.proxy.server.admin.pages import Admin
from kafka_sidecar.proxy.server.admin.tap.open_tap import Deliver
from kafka_sidecar.proxy.server.admin.tap.wanted import Wanted
from kafka_sidecar.proxy.server.workers.channel import Channel, CloseTap, OpenTap, TapLines
from kafka_sidecar.proxy.server.workers.supervisor import Supervisor, Worker

MAX_WAITING_BYTES = 1 << 20  # for the supervisor; a worker waits for no reader


class AllWorkers:
    """The taps of all workers, in the supervisor."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._numbers = count(1)
        self._open: dict[int, tuple[Wanted, Deliver]] = {}
        supervisor.on_tap_lines = self._received

    def open(self, wanted: Wanted, deliver: Deliver) -> Callable[[], None]:
        """As `Hub.open`."""
        number = next(self._numbers)
        self._open[number] = wanted, deliver
        for worker in self._serving():
            worker.send(OpenTap(number, wanted))

        def close() -> None:
            del self._open[number]
            for worker in self._serving():
                worker.send(CloseTap(number))

        return close

    def repeat(self, worker: Worker) -> None:
        """The worker has been started again."""
        for number, (wanted, _) in self._open.items():
            worker.send(OpenTap(number, wanted))

    def _serving(self) -> list[Worker]:
        return [worker for worker in self._supervisor.workers if worker.is_serving]

    def _received(self, lines: TapLines) -> None:
        if (found := self._open.get(lines.tap)) is not None:
            found[1](lines.lines, lines.number, lines.skipped)


class OwnTaps:
    """The taps of one worker, for its supervisor."""

    def __init__(self, admin: Admin, channel: Channel) -> None:
        self._admin = admin
        self._channel = channel
        self._close: dict[int, Callable[[], None]] = {}

    def open(self, number: int, wanted: Wanted) -> None:
        def deliver(lines: bytes, count: int, skipped: int) -> None:
            if self._channel.waiting_bytes > MAX_WAITING_BYTES:
                lines, count, skipped = b"", 0, skipped + count
            self._channel.send(TapLines(number, lines, count, skipped))

        if number not in self._close:
            self._close[number] = self._admin.open_tap(wanted, deliver)

    def close(self, number: int) -> None:
        if (close := self._close.pop(number, None)) is not None:
            close()
