"""One worker: the process that serves clients without workers too, with a supervisor.

It has no admin port; its pages go over the channel. It drains when the channel ends: the supervisor has died.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable

from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.reload import FindMore, with_reloaded
from kafka_sidecar.proxy.runtime.program import Stop
from kafka_sidecar.proxy.runtime.tasks import spawn, stop
from kafka_sidecar.proxy.server.admin.pages import Admin
from kafka_sidecar.proxy.server.admin.tap.wanted import Wanted
from kafka_sidecar.proxy.server.process import Process
from kafka_sidecar.proxy.server.workers.channel import (
    Alive,
    Applied,
    BrokersChanged,
    Channel,
    CloseTap,
    Drain,
    HangUp,
    Invalid,
    OpenTap,
    PageRequest,
    PageResponse,
    Prepared,
    SampleRequest,
    Serve,
    Serving,
    Start,
    TapLines,
    ToWorker,
)
from kafka_sidecar.proxy.telemetry.logs import configure

log = logging.getLogger("kafka_sidecar")

ALIVE_INTERVAL_S = 5.0
MAX_WAITING_BYTES = 1 << 20  # of lines of taps, for the supervisor; a worker waits for no reader


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


async def serve(end: socket.socket) -> int:
    """Serve clients as the supervisor at the other end of a channel says; the exit code."""
    inbox: asyncio.Queue[ToWorker | None] = asyncio.Queue()
    channel = await Channel.open(end, inbox.put_nowait, lambda: inbox.put_nowait(None))
    start = await inbox.get()
    if not isinstance(start, Start):
        return 0
    sys.path[:] = start.import_path
    try:
        process = _prepare(start, channel)
        channel.send(Prepared())
        if not isinstance(await inbox.get(), Serve):
            return 0
        await process.start()
    except ConfigError as error:
        channel.send(Invalid(tuple(error.lines)))
        await channel.close()
        return 2
    _open_listeners(start, process, channel)
    process.watch()
    if start.is_replacement and process.reload is not None:
        process.reload.request()  # the file may have changed since this configuration was read
    channel.send(Serving())
    await _until_drained(process, channel, inbox)
    return 0


def _prepare(start: Start, channel: Channel) -> Process:
    config = start.config
    max_rate = config.share(config.log.max_rate)
    rate = configure(config.log.level, max_rate, config.worker.number, config.log.format)

    def read_config(find_more: FindMore) -> Config:
        return load(start.path, os.environ, start.flags, find_more).for_worker(config.worker)

    process = Process(config, start.path, read_config, rate)
    process.on_applied = lambda loaded: channel.send(Applied(with_reloaded(config, loaded)))
    return process


def _open_listeners(start: Start, process: Process, channel: Channel) -> None:
    """At once for those brokers whose ports clients of the worker before this one have."""
    addresses = process.server.addresses
    save = addresses.on_change

    def changed() -> None:
        save()
        channel.send(BrokersChanged(tuple(addresses.brokers())))

    addresses.on_change = changed
    addresses.update(start.brokers)


async def _until_drained(process: Process, channel: Channel, inbox: asyncio.Queue[ToWorker | None]) -> None:
    stopping = Stop()
    stopping.on_signals()
    tasks = [
        spawn(_beat(channel), "tell the supervisor that the event loop runs"),
        spawn(_obey(inbox, process, channel, stopping), "obey the supervisor"),
    ]
    await stopping.drain.wait()
    await process.drain(stopping.hurry)
    await stop(*tasks)
    log.info("stopped")


async def _obey(inbox: asyncio.Queue[ToWorker | None], process: Process, channel: Channel, stopping: Stop) -> None:
    admin = Admin(process.server)
    taps = OwnTaps(admin, channel)
    while True:
        match await inbox.get():
            case PageRequest(target):
                channel.send(PageResponse(admin.own_page(target)))
            case SampleRequest(wanted):
                channel.send(PageResponse(await admin.sample(wanted)))
            case OpenTap(number, tapped):
                taps.open(number, tapped)
            case CloseTap(number):
                taps.close(number)
            case HangUp():
                process.hang_up()
            case Drain(hurry=True):
                stopping.drain.set()
                stopping.hurry.set()
            case Drain():
                stopping.drain.set()
            case None:  # the supervisor has died
                stopping.drain.set()
                return
            case _:
                pass


async def _beat(channel: Channel) -> None:
    while True:
        channel.send(Alive())
        await asyncio.sleep(ALIVE_INTERVAL_S)
