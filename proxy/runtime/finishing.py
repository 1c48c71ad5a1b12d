"""Ends connections between two requests, so that no client loses a response: the end of a drain."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.runtime.connection import Connection

INTERVAL_S = 0.01  # until a connection that could not be ended is looked at again


async def finish_connections(connections: Collection[Connection], closing: Closing, patience_s: float) -> None:
    """Let each of these connections end; ``connections`` loses those that have.

    For ``patience_s`` each is ended at a moment without requests, at which no client loses anything. After that those
    that are never without are read no more: a request that is on its way fails at a client that does not retry.
    """
    unfinished, patient_until = set(connections), time.monotonic() + patience_s
    while unfinished:
        is_patient = time.monotonic() < patient_until
        unfinished = {one for one in unfinished.intersection(connections) if not finish(one, closing, is_patient)}
        await asyncio.sleep(INTERVAL_S)


def finish(connection: Connection, closing: Closing, is_patient: bool) -> bool:
    """End once each request that was read has its response; False if not now.

    What the client sends from now on is read and discarded: bytes that no program reads make the operating system reset
    the connection when it is closed, and the client could lose the responses.
    """
    session = connection.session
    if connection.to_broker is None or not (session.awaits_responses or any(session.incomplete)):
        connection.end(closing)
    elif is_patient or session.incomplete[0]:
        return False
    else:
        session.stop_reading(closing)
    return True
