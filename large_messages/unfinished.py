"""Messages that could not be assembled before a client's deadline: the next request goes on where this one has stopped.

Kept across connections, because a client that waits too long reconnects and asks for the same message again.
"""

from __future__ import annotations

from collections import OrderedDict

from kafka_sidecar.large_messages.assembly import Assembly
from kafka_sidecar.large_messages.cache import Place


class Unfinished:
    """Assemblies by the record that completes them; the oldest are forgotten first."""

    def __init__(self, limit: int) -> None:
        """``limit``: bytes of all values together; one is kept whatever its size."""
        self._limit = limit
        self._assemblies: OrderedDict[Place, Assembly] = OrderedDict()
        self.bytes = 0

    def put(self, place: Place, assembly: Assembly) -> None:
        """Keep an assembly until `take` asks for it."""
        self.take(place)
        self._assemblies[place] = assembly
        self.bytes += len(assembly)
        while self.bytes > self._limit and len(self._assemblies) > 1:
            self.take(next(iter(self._assemblies)))

    def take(self, place: Place) -> Assembly | None:
        """The assembly of the message at a place, which is forgotten here."""
        found = self._assemblies.pop(place, None)
        if found is not None:
            self.bytes -= len(found)
        return found
