"""Parcels that are not sent yet, bounded in bytes, and how fast letters may come. Thread-safe."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock

from kafka_sidecar.dead_letters.parcels import Parcel

BURST_S = 10.0
PAUSE_S = 0.25  # what is kept after it comes together: to look for a piece or two costs as much as for all of these


class Buffer:
    """A queue of parcels."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.reserved = 0  # bytes of these that something else has
        self._lock = Lock()
        self._parcels: deque[Parcel] = deque()
        self.bytes = self.letters = 0

    @property
    def oldest_at(self) -> float | None:
        """When the first one was added, in seconds since 1970."""
        with self._lock:
            return self._parcels[0].at if self._parcels else None

    def add(self, parcel: Parcel) -> bool:
        """False: there is no room."""
        with self._lock:
            if self.bytes + self.reserved + parcel.size > self.max_bytes:
                return False
            self._parcels.append(parcel)
            self.bytes += parcel.size
            self.letters += len(parcel.letters)
        return True

    def take(self, max_bytes: int) -> list[Parcel]:
        """Remove the oldest: at least one if there is any."""
        taken: list[Parcel] = []
        size = 0
        with self._lock:
            while self._parcels and size < max_bytes:
                parcel = self._parcels.popleft()
                taken.append(parcel)
                size += parcel.size
                self.letters -= len(parcel.letters)
            self.bytes -= size
        return taken

    def put_back(self, parcels: Iterable[Parcel]) -> None:
        """Put parcels before all others; where they come from they had room."""
        with self._lock:
            for parcel in reversed(list(parcels)):
                self._parcels.appendleft(parcel)
                self.bytes += parcel.size
                self.letters += len(parcel.letters)


class Rate:
    """So much a second, and what `BURST_S` seconds allow at once. A piece that is larger waits for a full one.

    Once it is used up nothing may come until `PAUSE_S` seconds have refilled it.
    """

    def __init__(self, per_second: float, clock: Callable[[], float]) -> None:
        """``clock``: seconds, of any beginning."""
        self._clock = clock
        self._lock = Lock()
        self._at = clock()
        self._per_second = per_second
        self._left = self._most = BURST_S * per_second
        self._pauses = False

    def change(self, per_second: float) -> None:
        """Another rate from now on."""
        with self._lock:
            self._fill()
            self._per_second, self._most = per_second, BURST_S * per_second
            self._left = min(self._left, self._most)

    @property
    def is_used_up(self) -> bool:
        """Whether nothing may come now."""
        with self._lock:
            self._fill()
            return self._pauses

    def take(self, amount: float) -> bool:
        """Whether that much may come now."""
        with self._lock:
            self._fill()
            if self._pauses:
                return False
            if self._left < min(amount, self._most):
                self._pauses = self._left < self._enough
                return False
            self._left -= amount  # below zero for a large one, which the next ones wait for
            return True

    def _fill(self) -> None:
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._per_second)
        self._at = now
        self._pauses = self._left < (self._enough if self._pauses else 1.0)

    @property
    def _enough(self) -> float:
        """What there has to be to end a pause."""
        return max(1.0, PAUSE_S * self._per_second)
