"""One direction of a connection that stands still until it is known what becomes of a frame that is held."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kafka_sidecar.proxy.relay.exchange import Hold
from kafka_sidecar.proxy.runtime.tasks import spawn

REASON = "a frame is held"


class Holding:
    """Waits for what the session has to know, and lets it go on."""

    def __init__(
        self,
        reading: tuple[Callable[[str], None], Callable[[str], None]],
        held: Callable[[], Hold | None],
        go_on: Callable[[], None],
        broke: Callable[[BaseException], None],
    ) -> None:
        self._pause, self._resume = reading  # of the peer that has sent the frame
        self._held = held
        self._go_on = go_on  # asks the session anew and writes what it lets go
        self._broke = broke
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """The session holds a frame."""
        self._pause(REASON)
        if self._task is None:
            self._task = spawn(self._wait(), "hold a frame")

    def cancel(self) -> None:
        """The connection ends."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def _wait(self) -> None:
        try:
            while (hold := self._held()) is not None:
                await hold.wait()
                await asyncio.sleep(0)  # a wait that is over at once must not keep all others waiting
                self._go_on()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - a client must not wait for ever, whatever broke in a thread
            self._broke(error)
        finally:
            self._task = None
        self._resume(REASON)
