"""Fetch requests of a session that goes on and that nobody wants to intercept, told by how they begin: to read them
anew each time would cost those whom no interceptor has to do with.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from kafka_sidecar.proxy.relay.acks import CLIENT_ID
from kafka_sidecar.proxy.relay.exchange import Client

EPOCH = Struct(">i")


@dataclass(frozen=True, slots=True)
class Passing:
    """How such a request begins, from its client id to the epoch of its session (KIP-227)."""

    stamp: int  # of the interceptors that were asked, and the version
    head: bytes
    no_topics: bytes  # how it says that it names none

    def fits(self, stamp: int, data: bytes, at: int) -> bool:
        """Whether the request at data[at] is one of these."""
        if stamp != self.stamp or not data.startswith(self.head, at + CLIENT_ID):
            return False
        here = at + CLIENT_ID + len(self.head)
        if len(data) < here + EPOCH.size or EPOCH.unpack_from(data, here)[0] <= 0:
            return False
        return data.startswith(self.no_topics, here + EPOCH.size)


def passes(client: Client, note: str, stamp: int, data: bytes, at: int) -> bool:
    """Whether the client has sent one that begins like this before, and nobody wanted it."""
    known = client.notes.get(note)
    return isinstance(known, Passing) and known.fits(stamp, data, at)
