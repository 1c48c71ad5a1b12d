"""How far a consumer has come in what is hidden from it, for clients that cannot be shown a control batch.

Such a client gets nothing and asks for the same offset again: the broker is then asked for what comes behind. Kept
across connections, or a client that connects anew would begin at the first hidden record again.
"""

from __future__ import annotations

from collections import OrderedDict

MOST_KEPT = 10_000

# Who reads (interceptors may hide from one what they show to another), topic, partition, the offset that is asked for.
At = tuple[str | None, str | None, str, int, int]


class Progress:
    """Where to go on reading, by what is asked for."""

    def __init__(self) -> None:
        self._next: OrderedDict[At, int] = OrderedDict()

    def next(self, at: At) -> int:
        """The offset to ask the broker for."""
        following = self._next.pop(at, None)
        if following is None:
            return at[-1]
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
