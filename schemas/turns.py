"""Whose question a registry is asked next: a few threads, and turns for those who wait.

Clients choose ids. A question about an id that is not known to exist takes its turn after those of others who ask, and
at most so many a second are asked once registries have had no schema for many of them: ids that exist cost nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

IDLE_S = 30.0  # after which a thread ends
MAX_WAITING = 5000
MAX_WAITING_OF_ONE = 500  # a batch may have records of a hundred schemas, and each is asked for in several ways
BURST_S = 5.0  # so many seconds' worth of ids that do not exist are free at first


@dataclass(slots=True)
class Allowance:
    """How many ids that do not exist are asked for."""

    per_s: float
    clock: Callable[[], float]
    _left: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._left, self._at = self.per_s * BURST_S, self.clock()

    def wait_s(self) -> float:
        """How long to wait before an id that may not exist is asked for."""
        now = self.clock()
        self._left = min(self._left + (now - self._at) * self.per_s, self.per_s * BURST_S)
        self._at = now
        return 0.0 if self._left >= 1 else (1 - self._left) / self.per_s

    def take(self) -> None:
        self._left -= 1

    def give_back(self) -> None:
        """The id exists."""
        self._left += 1


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    run: Callable[[], None]
    drop: Callable[[], None]  # it is not run: others who ask need its place
    asker: Hashable  # a connection; None: no other one asks
    is_new_id: bool  # it is about an id that may not exist


class Turns:
    """Jobs in threads. `close` it."""

    def __init__(self, threads: int, allowance: Allowance) -> None:
        self.held_back = 0  # jobs that had to wait for the allowance, or were dropped
        self._max_threads = threads
        self._allowance = allowance
        self._condition = threading.Condition()
        self._known: deque[Job] = deque()
        self._new: OrderedDict[Hashable, deque[Job]] = OrderedDict()  # by asker; the first one is next
        self._new_count = 0
        self._threads = 0
        self._idle = 0
        self._is_closed = False

    def put(self, job: Job) -> bool:
        """Run it when its turn has come; False: too many wait."""
        dropped = None
        with self._condition:
            if self._is_closed or not self._has_room(job):
                return False
            if job.is_new_id:
                if self._new_count >= MAX_WAITING:
                    dropped = self._drop_of_most()
                if self._allowance.wait_s() > 0:
                    self.held_back += 1
                self._new.setdefault(job.asker, deque()).append(job)
                self._new_count += 1
            else:
                self._known.append(job)
            if self._idle:
                self._condition.notify()
            elif self._threads < self._max_threads:
                self._threads += 1
                threading.Thread(target=self._work, name="schema registry", daemon=True).start()
        if dropped is not None:
            dropped.drop()
        return True

    def give_back(self) -> None:
        """A question about a new id was not about one that does not exist, or was not asked."""
        with self._condition:
            self._allowance.give_back()
            self._condition.notify()

    def close(self) -> None:
        """Run nothing more; a request that is under way ends by its own deadline."""
        with self._condition:
            self._is_closed = True
            self._known.clear()
            self._new.clear()
            self._condition.notify_all()

    def _has_room(self, job: Job) -> bool:
        if not job.is_new_id:
            return len(self._known) < MAX_WAITING
        return job.asker is None or len(self._new.get(job.asker, ())) < MAX_WAITING_OF_ONE

    def _drop_of_most(self) -> Job:
        asker = max(self._new, key=lambda one: len(self._new[one]))
        job = self._new[asker].pop()
        self._new_count -= 1
        self.held_back += 1
        if not self._new[asker]:
            del self._new[asker]
        return job

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run()

    def _next(self) -> Job | None:
        with self._condition:
            while not self._is_closed:
                wait_s = IDLE_S
                if self._known:
                    return self._known.popleft()
                if self._new:
                    wait_s = self._allowance.wait_s()
                    if wait_s <= 0:
                        self._allowance.take()
                        return self._next_new()
                self._idle += 1
                was_called = self._condition.wait(wait_s)
                self._idle -= 1
                if not was_called and not self._known and not self._new:
                    break
            self._threads -= 1
            return None

    def _next_new(self) -> Job:
        """The oldest of the asker whose turn it is."""
        asker, jobs = next(iter(self._new.items()))
        job = jobs.popleft()
        self._new_count -= 1
        if jobs:
            self._new.move_to_end(asker)
        else:
            del self._new[asker]
        return job
