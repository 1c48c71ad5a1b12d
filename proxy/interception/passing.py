"""Requests that nobody wants to intercept, told by how they begin: what stands there hardly ever changes on a
connection, and to read it anew each time would cost those whom no interceptor has to do with.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from kafka_sidecar.proxy.acks import CLIENT_ID
from kafka_sidecar.proxy.exchanges import Client

EPOCH = Struct(">i")


@dataclass(frozen=True, slots=True)
class Passing:
    """How such a request begins, from its client id on."""

    stamp: int  # of the interceptors that were asked, and the version
    head: bytes
    # The number of topics of a Fetch request that names none, if its session (KIP-227) goes on behind the head.
    no_topics: bytes | None = None

    def fits(self, stamp: int, data: bytes, at: int) -> bool:
        """Whether the request at data[at] is one of these."""
        if stamp != self.stamp or not data.startswith(self.head, at + CLIENT_ID):
            return False
        if self.no_topics is None:
            return True
        here = at + CLIENT_ID + len(self.head)
        if len(data) < here + EPOCH.size or EPOCH.unpack_from(data, here)[0] <= 0:
            return False
        return data.startswith(self.no_topics, here + EPOCH.size)


def passes(client: Client, note: str, stamp: int, data: bytes, at: int) -> bool:
    """Whether the client has sent one that begins like this before, and nobody wanted it."""
    known = client.notes.get(note)
    return isinstance(known, Passing) and known.fits(stamp, data, at)
