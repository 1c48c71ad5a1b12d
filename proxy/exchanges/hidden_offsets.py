"""Where a consumer goes on reading after records that are hidden from it, for clients that would show control batches.

Such a client gets an empty response and asks for the same offset again: the broker is then asked for the records that
follow. Kept across connections, or a client that reconnects would begin at the first hidden record again; but not for a
topic that is deleted and created again under its old name.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

MAX_KEPT = 10_000


class FetchPosition(NamedTuple):
    """Where a client reads: interceptors may hide from one what they show to another."""

    client_id: str | None
    principal: str | None
    isolation_level: int
    topic: str
    partition: int
    offset: int  # that the client asks for


class HiddenOffsets:
    """The offset from which on records are not known to be hidden, by the position that a client asks for."""

    def __init__(self) -> None:
        self._next: OrderedDict[FetchPosition, int] = OrderedDict()
        self._positions: dict[str, set[FetchPosition]] = {}  # of these, by topic
        self._ids: OrderedDict[str, bytes] = OrderedDict()  # of the topics for which something is known

    def next(self, position: FetchPosition) -> int:
        """The offset to ask the broker for."""
        following = self._next.pop(position, None)
        if following is None:
            return position.offset
        self._next[position] = following
        return following

    def hide(self, position: FetchPosition, following: int) -> None:
        """All records from the position up to ``following``, exclusive, are hidden."""
        self._next[position] = max(following, self._next.pop(position, 0))
        self._positions.setdefault(position.topic, set()).add(position)
        if len(self._next) > MAX_KEPT:
            self.forget(next(iter(self._next)))

    def forget(self, position: FetchPosition) -> None:
        """The broker has nothing there: the log has changed."""
        if self._next.pop(position, None) is None:
            return
        of_topic = self._positions[position.topic]
        of_topic.discard(position)
        if not of_topic:
            del self._positions[position.topic]

    def is_current(self, topic: str, topic_id: bytes) -> bool:
        """Whether what is known of a topic holds for the one with this id; if not, it is forgotten."""
        if self._ids.get(topic) == topic_id:
            return True
        for position in self._positions.pop(topic, ()):
            del self._next[position]
        self._ids.pop(topic, None)
        self._ids[topic] = topic_id
        if len(self._ids) > MAX_KEPT:
            self._ids.popitem(last=False)
        return False
