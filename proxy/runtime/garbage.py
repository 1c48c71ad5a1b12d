"""Collections of garbage, which look at what is new: a look at all objects would be a long turn with many clients.

Python's full collections come whenever a quarter more objects than before have lived for a while, and each takes 25 us
for every open connection: a quarter of a second with 10,000. So what has survived one is frozen, and the next looks at
what has come since. Frozen objects are freed with their last reference as all others are; those that have become a
circle are found by a look at all objects, which comes when it takes little, or after an hour.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Two of Python's own. The third, after so many collections of the middle generation a full one is due, is 10 there:
# with it one passes over 31,000 new objects, in some 10 ms.
THRESHOLDS = 700, 10, 3
FEW = 500  # connections, with which a look at all objects takes 40 ms
PAUSE_S, MAX_PAUSE_S = 600.0, 3600.0  # between two such looks, with few connections and with many


class Garbage:
    """The collections of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked_at = clock()  # all objects
        self._has_frozen = False  # since then

    @contextmanager
    def little_at_once(self) -> Iterator[None]:
        """Let full collections pass over new objects alone, while this is open."""
        before = gc.get_threshold()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._collected)
        try:
            yield
        finally:
            gc.callbacks.remove(self._collected)
            gc.set_threshold(*before)

    def look_at_all(self, connections: int) -> None:
        """Collect what has become garbage among frozen objects, if it is time. Called now and then."""
        pause_s = PAUSE_S if connections <= FEW else MAX_PAUSE_S
        if self._has_frozen and self._clock() - self._looked_at >= pause_s:
            gc.unfreeze()
            gc.collect()
            self._has_frozen = False
            self._looked_at = self._clock()

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        """See `gc.callbacks`."""
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()
            self._has_frozen = True
