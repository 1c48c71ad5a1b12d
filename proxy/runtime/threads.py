"""Threads for work that would keep all other connections waiting, and the one that watches the event loop.

Connections take turns. The work of a lane, one direction of a connection, is done in order and one at a time; a lane
whose work has been done goes to the end of the queue. Long work leaves one thread to light work, so that a small batch
never waits for large ones of other connections. Work that goes on with an inflated batch comes before what has not
begun: no more batches are inflated than there are threads, and as many that wait for their next stage. A thread whose
work only sleeps, or does not end though it was abandoned, is stuck, and gets replaced.

The loop gives a sign of life once a second. One that is overdue is reported at most 2 s after the loop has stopped,
with stack, plug-in and hook, and again once it runs. Code that holds the interpreter's lock keeps the watching thread
waiting too: it is reported when it ends.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, wait
from operator import itemgetter
from threading import Condition, Event, Thread, get_ident
from typing import Any

from kafka_sidecar.codec.checkpoint import Stop, stoppable
from kafka_sidecar.plugins.calls import Call, call_in, keys_of, lines_of
from kafka_sidecar.proxy.telemetry.metrics import LATENCY_BUCKETS, Durations, Family, counter, gauge, histogram

log = logging.getLogger(__name__)

# The event loop waits so long for the interpreter's lock at each of its system calls while threads work. Beside three
# threads that validated 90 MB each, its longest turn was 45 to 110 ms with Python's 5 ms, and is 15 to 20 ms with this.
SWITCH_INTERVAL_S = 0.0005
GRACE_S = 1.0  # in which abandoned work may end by itself
MAX_REPLACED = 8  # stuck threads: each keeps what its batch was inflated to
MAX_LIGHT_REPLACED = 32  # the same for those with small batches
SLEEPS_S = 0.3  # of work in which it has had less than SLEEPING_SHARE of a CPU: it waits for something
SLEEPING_SHARE = 0.05
FIRST = -1  # before the number of every turn


class Job:
    """One piece of work. Times are seconds of the clock of `Threads`."""

    __slots__ = (
        "cpu_s",
        "ended_at",
        "future",
        "goes_on",
        "is_light",
        "lane",
        "run",
        "started_at",
        "stop",
        "submitted_at",
        "thread",
    )

    def __init__(self, lane: Hashable, run: Callable[[], Any], is_light: bool, goes_on: bool, now: float) -> None:
        self.lane = lane
        self.run = run
        self.is_light = is_light
        self.goes_on = goes_on
        self.submitted_at = now
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.stop = Stop()
        self.thread = 0  # that runs it
        self.cpu_s = 0.0  # of this thread when it began
        self.future: Future[Any] = Future()


class Threads:
    """The threads of one process. Started when they are needed; they do not keep the process from ending."""

    def __init__(self, count: int, clock: Callable[[], float] = time.monotonic) -> None:
        """``count`` threads for long work, and one more for light work."""
        self.clock = clock
        self.waits = [0] * LATENCY_BUCKETS  # for a thread; index: bits of the microseconds
        self.waits_s = 0.0
        self.time_limits: Counter[tuple[str, str]] = Counter()  # reached, by stage and what it waited for
        self.ended = 0  # pieces of work
        self._count = count
        self._changed = Condition()
        self._lanes: dict[Hashable, deque[Job]] = {}  # the first one runs, or its lane is among the ready ones
        # Lanes whose first job waits, by whether it is light, each with the number of its turn.
        self._ready: dict[bool, OrderedDict[Hashable, int]] = {True: OrderedDict(), False: OrderedDict()}
        self._turns = itertools.count()
        self._running: set[Job] = set()
        self._stuck: set[Job] = set()
        self._sleeping: set[Job] = set()
        self._threads = self._idle = 0

    @property
    def size(self) -> int:
        """Threads that there are."""
        return self._threads

    @property
    def busy(self) -> int:
        return len(self._running)

    @property
    def stuck(self) -> int:
        return len(self._stuck)

    @property
    def queued(self) -> int:
        with self._changed:
            return sum(map(len, self._lanes.values())) - len(self._running)

    def families(self) -> Iterator[Family]:
        """Their metrics."""
        yield gauge("threads", "Threads for work on batches", self.size)
        yield gauge("threads_busy", "Threads that work, stuck ones included", self.busy)
        yield gauge("threads_stuck", "Threads whose work does not end though its time limit is reached", self.stuck)
        yield gauge("threads_queue", "Pieces of work that wait for a thread", self.queued)
        waits = Durations(self.waits, self.waits_s)
        yield histogram("thread_wait_seconds", "Time that work has waited for a thread", waits)
        yield counter("time_limits", "Time limits reached", self.time_limits, "stage", "waited_for")

    def submit(self, lane: Hashable, run: Callable[[], Any], is_light: bool = False, goes_on: bool = False) -> Job:
        """Call ``run`` in a thread as soon as it is the lane's turn; its `Stop` is that of the job.

        ``goes_on``: it is the turn of this lane, which holds what work before has inflated.
        """
        with self._changed:
            job = Job(lane, run, is_light, goes_on, self.clock())
            jobs = self._lanes.setdefault(lane, deque())
            jobs.append(job)
            if len(jobs) == 1:
                self._line_up(job)
            self._engage()
        return job

    def cancel(self, job: Job) -> None:
        """Remove the job from the queue, or stop it at its next checkpoint. Called in the event loop."""
        job.stop.is_set = True
        with self._changed:
            if job.started_at is None:
                self._remove(job)
                return
        self.abandon(job)

    def abandon(self, job: Job) -> None:
        """Its result is not needed: a thread that it keeps is replaced. Called in the event loop."""
        asyncio.get_running_loop().call_later(GRACE_S, self._replace, job)

    async def drain(self, limit_s: float) -> None:
        """Wait until all work submitted so far is done, at most ``limit_s``."""
        with self._changed:
            unfinished = [job.future for jobs in self._lanes.values() for job in jobs if job not in self._stuck]
        if unfinished:
            await asyncio.to_thread(wait, unfinished, limit_s)

    def _line_up(self, job: Job) -> None:
        ready = self._ready[job.is_light]
        ready[job.lane] = FIRST if job.goes_on else next(self._turns)
        if job.goes_on:
            ready.move_to_end(job.lane, last=False)

    def _engage(self) -> None:
        """Let one more thread look for work, if there is some."""
        if self._choose() is None:
            return
        if self._idle:
            self._idle -= 1
            self._changed.notify()
        elif self._threads < self._max_threads:
            self._threads += 1
            Thread(target=self._work, name=f"batches_{self._threads}", daemon=True).start()

    @property
    def _max_threads(self) -> int:
        stuck = self._stuck | self._sleeping
        light = sum(job.is_light for job in stuck)
        return self._count + 1 + min(len(stuck) - light, MAX_REPLACED) + min(light, MAX_LIGHT_REPLACED)

    def _choose(self) -> Hashable | None:
        """The lane from which a thread takes the next job."""
        long = sum(not job.is_light for job in self._running - self._stuck - self._sleeping)
        kinds = (True, False) if long < self._count else (True,)
        firsts = [next(iter(self._ready[kind].items())) for kind in kinds if self._ready[kind]]
        return min(firsts, key=itemgetter(1))[0] if firsts else None

    def _work(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        """False if the thread is to end. No job is kept while it waits for one."""
        job = self._take()
        if job is None:
            return False
        try:
            with stoppable(job.stop):
                result = job.run()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the result
            self._end(job)
            job.future.set_exception(error)
            del job  # in this frame, which the error's traceback keeps: in a circle, with all of the work's frames
        else:
            self._end(job)
            job.future.set_result(result)
        return True

    def _take(self) -> Job | None:
        with self._changed:
            while True:
                if self._threads > self._max_threads:
                    self._threads -= 1
                    self._engage()
                    return None
                if (lane := self._choose()) is not None:
                    return self._start(self._lanes[lane][0])
                self._idle += 1
                self._changed.wait()

    def _start(self, job: Job) -> Job:
        del self._ready[job.is_light][job.lane]
        self._running.add(job)
        job.future.set_running_or_notify_cancel()
        job.started_at, job.thread, job.cpu_s = self.clock(), get_ident(), time.thread_time()
        waited_s = job.started_at - job.submitted_at
        self.waits[max(0, int(waited_s * 1e6)).bit_length()] += 1
        self.waits_s += waited_s
        return job

    def _end(self, job: Job) -> None:
        with self._changed:
            job.ended_at = self.clock()
            self.ended += 1
            self._running.discard(job)
            self._stuck.discard(job)
            self._sleeping.discard(job)
            self._remove_first(job)

    def _remove(self, job: Job) -> None:
        jobs = self._lanes.get(job.lane)
        if jobs is None or job not in jobs:
            return
        job.future.cancel()
        if jobs[0] is not job:
            self._lanes[job.lane].remove(job)
            return
        del self._ready[job.is_light][job.lane]
        self._remove_first(job)
        self._engage()

    def _remove_first(self, job: Job) -> None:
        jobs = self._lanes[job.lane]
        jobs.popleft()
        if jobs:
            self._line_up(jobs[0])
        else:
            del self._lanes[job.lane]

    def _replace(self, job: Job) -> None:
        """The time in which the job could end by itself is over."""
        with self._changed:
            if job.ended_at is not None or job in self._stuck or job.future.cancelled():
                return
            if job.started_at is not None:
                self._stuck.add(job)
                self._engage()
        if job.started_at is None:
            self.abandon(job)  # work that must be done
            return
        self._log_stuck(job, self.clock() - job.started_at)

    def replace_sleeping(self) -> None:
        """Let others have the threads whose work only sleeps. Called by any thread, now and then."""
        if not self._running or not hasattr(time, "pthread_getcpuclockid"):
            return
        with self._changed:
            now = self.clock()
            for job in self._running - self._sleeping - self._stuck:
                if job.started_at is None or (took_s := now - job.started_at) < SLEEPS_S:
                    continue
                # The thread is alive: it cannot end its work without this lock.
                cpu_s = time.clock_gettime(time.pthread_getcpuclockid(job.thread)) - job.cpu_s
                if cpu_s < SLEEPING_SHARE * took_s:
                    self._sleeping.add(job)
                    self._engage()

    def _log_stuck(self, job: Job, took_s: float) -> None:
        frame = sys._current_frames().get(job.thread)
        call, stack = call_in(frame), lines_of(frame)
        del frame
        if job.ended_at is not None:
            return
        log.warning(
            "thread stuck",
            extra={**keys_of(call), "stuck": len(self._stuck), "duration_s": round(took_s, 3), "stack": stack or None},
        )


BEAT_S = 1.0  # between two signs of life
OVERDUE_S = 0.5  # after which a sign of life is missing
REPEAT_S = 60.0  # between two lines about the same stop
NO_PLUG_IN = "none"
NOT_SEEN = "no other thread ran meanwhile: the interpreter's lock was held, or the process had no CPU"


class Watchdog:
    """Watches the loop in which it is started, and lets threads that only sleep be replaced."""

    def __init__(self, threads: Threads, record_delay: Callable[[float], None]) -> None:
        """``record_delay`` is called with each delay of a sign of life, in seconds."""
        self.stops: Counter[str] = Counter()  # by the plug-in that was called then
        self._threads = threads
        self._record_delay = record_delay
        self._due = 0.0  # when the next sign of life is expected, by `time.monotonic`
        self._reported_at: float | None = None  # that the loop does not run
        self._ended = Event()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Called in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._due = time.monotonic() + BEAT_S
        self._timer = self._loop.call_later(BEAT_S, self._beat)
        Thread(target=self._watch, args=(get_ident(),), name="watchdog", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()

    def families(self) -> Iterator[Family]:
        """Its metric."""
        yield counter("event_loop_stops", "How often the event loop has not run for a second", self.stops, "plug_in")

    def _beat(self) -> None:
        now = time.monotonic()
        late_s, reported, self._reported_at = now - self._due, self._reported_at, None
        self._due = now + BEAT_S
        self._record_delay(late_s)
        if reported is None and late_s > BEAT_S:
            self._report(late_s, None, [], NOT_SEEN)
        if reported is not None or late_s > BEAT_S:
            log.warning("event loop runs again", extra={"duration_s": round(late_s, 3)})
        assert self._loop is not None
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    def _watch(self, ident: int) -> None:
        while not self._ended.wait(max(0.1, self._due + OVERDUE_S - time.monotonic())):
            if self._loop is None or self._loop.is_closed():
                return
            self._threads.replace_sleeping()
            now = time.monotonic()
            if now - self._due >= OVERDUE_S:
                self._see(ident, now)

    def _see(self, ident: int, now: float) -> None:
        """The loop does not run: say why, once and then now and then."""
        reported = self._reported_at
        if reported is not None and now - reported < REPEAT_S:
            return
        due, frame = self._due, sys._current_frames().get(ident)
        call, stack = call_in(frame), lines_of(frame)
        del frame
        if self._due == due:  # it has not begun to run meanwhile
            self._reported_at = now
            self._report(now - due + BEAT_S, call, stack, None, is_new=reported is None)

    def _report(
        self, seconds: float, call: Call | None, stack: list[str], detail: str | None, is_new: bool = True
    ) -> None:
        if is_new:
            self.stops[NO_PLUG_IN if call is None else f"{call.kind} {call.name}"] += 1
        log.error(
            "event loop blocked",
            extra={**keys_of(call), "duration_s": round(seconds, 3), "detail": detail, "stack": stack or None},
        )
