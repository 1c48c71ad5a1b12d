"""Events that say who was allowed or denied what: bounded in number and bytes until they are sent.

They are no audit events: they have a topic and a schema (access.schema.json) of their own, and nothing is computed
from them.
"""

from __future__ import annotations

import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

import orjson

from kafka_sidecar.audit.outbox import Pending
from kafka_sidecar.plugins.bounded import Bounded

VERSION = 1
MAX_BYTES = 8 << 20  # of events that are not sent yet
MAX_OF_REQUEST = 100  # events; the others of the request are discarded and counted
MAX_TEXT = 249  # bytes of what clients choose
MAX_SEEN = 10_000  # what was allowed lately
REPEAT_S = 600.0  # after which it is said again that the same connection is allowed the same


@dataclass(frozen=True, slots=True)
class Who:
    """Whose request it was."""

    session: int
    principal: str
    client: str | None  # its address
    client_id: str | None
    client_software: str | None


What = tuple[str, str, str]  # operation, type of resource, its name


class AccessEvents:
    """A queue of events. Thread-safe. ``wake`` is called after events were added."""

    def __init__(self, emitter: Mapping[str, str | None], clock: Callable[[], float], wake: Callable[[], None]) -> None:
        self._emitter = dict(emitter)  # fields of each event
        self._clock = clock  # seconds since the epoch
        self._wake = wake
        self._lock = Lock()
        self._events: deque[Pending] = deque()
        self._seen = Bounded[tuple[int, str, What], float](MAX_SEEN)  # when it was said last
        self.bytes = 0
        self.discarded: Counter[str] = Counter()  # by reason

    def __len__(self) -> int:
        return len(self._events)

    def add(self, api: str, found: Sequence[What], is_allowed: bool, who: Who) -> None:
        """What was decided about a request of an API."""
        if is_allowed:
            found = [one for one in found[:MAX_SEEN] if self._is_new(who.session, api, one)]
        if not found:
            return
        at = int(self._clock() * 1000)
        common = {
            "version": VERSION, **self._emitter, "at": at, "api": api, "outcome": "allowed" if is_allowed else "denied",
            "principal": _cut(who.principal), "session": who.session, "client": who.client,
            "client_id": _cut(who.client_id), "client_software": _cut(who.client_software),
        }  # fmt: skip
        for operation, resource_type, name in found[:MAX_OF_REQUEST]:
            event_id = str(uuid.uuid4())
            own = {"operation": operation, "resource_type": resource_type, "resource": _cut(name)}
            self._append(Pending(event_id.encode(), orjson.dumps({**common, "event_id": event_id, **own})))
        self.discarded["too_many"] += max(0, len(found) - MAX_OF_REQUEST)
        self._wake()

    def take(self, max_events: int, max_bytes: int) -> list[Pending]:
        """Remove the oldest events, to be sent: at least one if there is any."""
        taken: list[Pending] = []
        size = 0
        with self._lock:
            while self._events and len(taken) < max_events and size < max_bytes:
                taken.append(self._events.popleft())
                size += len(taken[-1].value)
            self.bytes -= size
        return taken

    def _append(self, event: Pending) -> None:
        with self._lock:
            self._events.append(event)
            self.bytes += len(event.value)
            while self.bytes > MAX_BYTES:
                self.bytes -= len(self._events.popleft().value)
                self.discarded["buffer_full"] += 1

    def _is_new(self, session: int, api: str, what: What) -> bool:
        """Whether it was not said lately that this connection is allowed this."""
        key, now = (session, api, (*what[:2], _cut(what[2]) or "")), self._clock()
        with self._lock:
            if now - self._seen.pop(key, float("-inf")) < REPEAT_S:
                self._seen[key] = now
                return False
            self._seen[key] = now
            return True


def _cut(text: str | None) -> str | None:
    """The beginning of a text that a client has chosen, as UTF-8 has it."""
    if text is None:
        return None
    return text[:MAX_TEXT].encode(errors="replace")[:MAX_TEXT].decode(errors="ignore")
