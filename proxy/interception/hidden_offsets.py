"""How far a consumer has come in what is hidden from it, for clients that cannot be shown a control batch.

Such a client gets nothing and asks for the same offset again: the broker is then asked for what comes behind. Kept
across connections, or a client that connects anew would begin at the first hidden record again; but not for a topic
that is deleted and made again under its old name.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

MOST_KEPT = 10_000


class At(NamedTuple):
    """Who reads what: interceptors may hide from one what they show to another."""

    client_id: str | None
    principal: str | None
    isolation_level: int
    topic: str
    partition: int
    offset: int  # that is asked for


class Progress:
    """Where to go on reading, by what is asked for."""

    def __init__(self) -> None:
        self._next: OrderedDict[At, int] = OrderedDict()
        self._ids: OrderedDict[str, bytes] = OrderedDict()  # of the topics, as they were when they were last asked for

    def next(self, at: At) -> int:
        """The offset to ask the broker for."""
        following = self._next.pop(at, None)
        if following is None:
            return at.offset
        self._next[at] = following
        return following

    def hidden(self, at: At, following: int) -> None:
        """All records from where the client is up to ``following``, exclusive, are hidden."""
        self._next[at] = max(following, self._next.pop(at, 0))
        if len(self._next) > MOST_KEPT:
            self._next.popitem(last=False)

    def forget(self, at: At) -> None:
        """The broker knows nothing behind it: the log has changed."""
        self._next.pop(at, None)

    def is_still(self, topic: str, topic_id: bytes) -> bool:
        """Whether a topic is the one of which it is known what is hidden; if not, forget it all."""
        if self._ids.get(topic) == topic_id:
            return True
        for at in [at for at in list(self._next) if at.topic == topic]:
            self.forget(at)
        self._ids.pop(topic, None)
        self._ids[topic] = topic_id
        if len(self._ids) > MOST_KEPT:
            self._ids.popitem(last=False)
        return False
