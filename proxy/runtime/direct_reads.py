"""Reads the rest of a large frame from the socket into the frame's own memory.

As a protocol gets them, bytes are copied twice more: from the event loop's buffer into an object for each read, and
from there to their place in the frame.
"""

from __future__ import annotations

import asyncio

from kafka_sidecar.codec.large_bytes import Gathered
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.runtime.side import Side

MIN_CHUNK_BYTES = 64 << 10  # a smaller read is not the beginning of a large frame that arrives quickly


class DirectReads(asyncio.BufferedProtocol):
    """A side's protocol until all of a frame but its last byte has come, with which the side goes on as ever."""

    def __init__(self, side: Side, frames: Frames, gathered: Gathered) -> None:
        self._side = side
        self._frames = frames
        self._gathered = gathered  # the memory is valid as long as it is held
        self.pause_writing, self.resume_writing = side.pause_writing, side.resume_writing  # type: ignore[method-assign]
        self.connection_lost, self.eof_received = side.connection_lost, side.eof_received  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._gathered.room

    def buffer_updated(self, size: int) -> None:
        if self._frames.gathered is self._gathered:  # otherwise the connection is ending
            self._side.has_read(size)
            self._frames.fill(size)
            if not self._gathered.room:
                _use(self._side, self._side)


def read_directly(side: Side, frames: Frames) -> None:
    """Read into the memory of a large frame that is coming in, if there is one."""
    gathered, transport = frames.gathered, side.transport
    if gathered is None or not gathered.room or transport is None or transport.get_extra_info("sslcontext"):
        return
    _use(side, DirectReads(side, frames, gathered))


def _use(side: Side, protocol: asyncio.BaseProtocol) -> None:
    transport = side.transport
    if transport is None or transport.is_closing():
        return
    transport.set_protocol(protocol)
    if not side.is_paused:  # how it is read is decided where reading begins
        transport.pause_reading()
        transport.resume_reading()
