"""How requests begin of which it is known whether an exchange is needed: found by their prefix, not parsed again."""

from __future__ import annotations

from struct import Struct

from kafka_sidecar.proxy.relay.acks import CLIENT_ID_AT
from kafka_sidecar.proxy.relay.exchange import Look, Pass
from kafka_sidecar.proxy.relay.routes import Route

EPOCH = Struct(">i")


class PrefixMemo:
    """The last prefix of each (api, version) of one connection, valid as long as its `Route` is the same object."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[Route, bytes, Look | Pass]] = {}

    def find(self, route: Route, key_version: int, data: bytes, at: int) -> Look | Pass | None:
        """What is known of requests that begin like the one at data[at]; None: nothing."""
        known = self._known.get(key_version)
        if known is None or known[0] is not route or not data.startswith(known[1], at + CLIENT_ID_AT):
            return None
        found = known[2]
        if found.__class__ is Pass and found.epoch and not _continues(found, data, at + CLIENT_ID_AT):
            return None
        return found

    def note(self, route: Route, key_version: int, new: Look | Pass) -> None:
        """What holds for requests that begin like this one."""
        self._known[key_version] = route, new.head, new

    def forget(self, key_version: int) -> None:
        self._known.pop(key_version, None)


def _continues(known: Pass, data: bytes, at: int) -> bool:
    """Whether a fetch session's epoch that is neither its beginning nor its end follows the head, then the tail."""
    at += len(known.head)
    if len(data) < at + EPOCH.size or EPOCH.unpack_from(data, at)[0] <= 0:
        return False
    return data.startswith(known.tail, at + EPOCH.size)
