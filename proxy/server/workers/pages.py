"""The admin port of all workers: their pages as one.

Log levels that were changed for a limited time are remembered, for workers that are started again meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from operator import itemgetter
from typing import Any
from urllib.parse import parse_qsl, urlencode

from kafka_sidecar.plugins.units import seconds
from kafka_sidecar.proxy.features.producer_habits.clients import join_rows
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.server.admin.live.live import Live
from kafka_sidecar.proxy.server.admin.live.sample import Sample, own_sample
from kafka_sidecar.proxy.server.admin.log_levels import DEFAULT, DEFAULT_FOR, ROOT
from kafka_sidecar.proxy.server.admin.page import (
    FORBIDDEN,
    JSON,
    RENDER_INTERVAL_S,
    Page,
    Refusals,
    Stream,
    is_host_allowed,
    json_page,
)
from kafka_sidecar.proxy.server.admin.tap.open_tap import Deliver
from kafka_sidecar.proxy.server.admin.tap.streams import TapStreams
from kafka_sidecar.proxy.server.admin.tap.wanted import Wanted
from kafka_sidecar.proxy.server.workers.channel import CloseTap, OpenTap, TapLines
from kafka_sidecar.proxy.server.workers.supervisor import Supervisor, Worker
from kafka_sidecar.proxy.server.workers.totals import NOT_SUMS, Totals
from kafka_sidecar.proxy.telemetry.log_limiter import LogRate
from kafka_sidecar.proxy.telemetry.metrics import Family

LOG_LEVEL = "PUT /log-level"


@dataclass(frozen=True, slots=True)
class _Changed:
    level: str
    until: float  # by the clock


class ChangedLevels:
    """What all workers have changed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock  # seconds
        self._by_logger: dict[str, _Changed] = {}

    def remember(self, target: str) -> None:
        """A request that the workers have accepted."""
        query = dict(parse_qsl(target.partition("?")[2]))
        logger = query.get("logger", ROOT)
        self._by_logger.pop(logger, None)
        if query["level"] != DEFAULT:
            until = self._clock() + seconds(query.get("for", DEFAULT_FOR))
            self._by_logger[logger] = _Changed(query["level"], until)

    def requests(self) -> Iterator[str]:
        """The same requests, for the time that is left."""
        now = self._clock()
        for logger, one in self._by_logger.items():
            if one.until > now:
                query = {"level": one.level, "logger": logger, "for": f"{int((one.until - now) * 1000) + 1}ms"}
                yield f"{LOG_LEVEL}?{urlencode(query)}"


OWN = 0  # in place of a worker's number: this process
Found = dict[Worker, Page]


@dataclass(frozen=True, slots=True)
class Listing:
    """A page with a list, which is joined; the numbers beside it are added up."""

    name: str
    limit: int  # as many as one worker lists
    order: str  # the key by which the newest is first
    is_falling: bool = False
    join: Callable[[list[Any]], list[Any]] = lambda entries: entries  # those of one thing at several workers


LISTINGS = {
    "/rejections": Listing("rejections", 100, "timestamp", is_falling=True),
    "/connections": Listing("connections", 200, "duration_s"),
    "/producers": Listing("producers", 500, "at", is_falling=True, join=join_rows),
}


class AllWorkers:
    """The taps of all workers: each is opened in all of them, and in those that are started meanwhile."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._numbers = count(1)
        self._open: dict[int, tuple[Wanted, Deliver]] = {}
        supervisor.on_tap_lines = self._received

    def open(self, wanted: Wanted, deliver: Deliver) -> Callable[[], None]:
        """As `Hub.open`."""
        number = next(self._numbers)
        self._open[number] = wanted, deliver
        for worker in self._serving():
            worker.send(OpenTap(number, wanted))

        def close() -> None:
            del self._open[number]
            for worker in self._serving():
                worker.send(CloseTap(number))

        return close

    def repeat(self, worker: Worker) -> None:
        """The worker has been started again."""
        for number, (wanted, _) in self._open.items():
            worker.send(OpenTap(number, wanted))

    def _serving(self) -> list[Worker]:
        return [worker for worker in self._supervisor.workers if worker.is_serving]

    def _received(self, lines: TapLines) -> None:
        if (found := self._open.get(lines.tap)) is not None:
            found[1](lines.lines, lines.number, lines.skipped)


class WorkerPages:
    """What `Admin` is for one process."""

    def __init__(self, supervisor: Supervisor, rate: LogRate) -> None:
        self._supervisor = supervisor
        self._rate = rate
        self.refusals = Refusals()
        self._totals = Totals()
        self._rendered = Page(503, JSON, b"")
        self._rendered_at = float("-inf")
        self._all_were_ready = False
        self._levels = ChangedLevels()
        self._live = Live(self._take, supervisor.config.admin.page, NOT_SUMS)
        self._all = AllWorkers(supervisor)
        self._taps = TapStreams(self._all.open, lambda: supervisor.config.tap)
        supervisor.on_end = self._totals.ended
        supervisor.on_serving = self._repeat
        self._pages: dict[str, Callable[[str], Awaitable[Page]]] = {
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            LOG_LEVEL: self._set_log_level,
        }

    def page(
        self, target: str, host: str | None = None, asked_at: float = float("inf")
    ) -> Page | Stream | Awaitable[Page]:
        """The page of a request target. ``asked_at``: seconds of `time.monotonic`."""
        if host is not None and not is_host_allowed(host, self._supervisor.config):
            return FORBIDDEN
        if (found := self._live.page(target) or self._taps.page(target)) is not None:
            return found
        path = target.partition("?")[0]
        if path == "/livez":
            return json_page(200, {"live": True})
        if path == "/metrics" and self._rendered_at >= asked_at:
            return self._rendered
        if path in LISTINGS:
            return self._listed(target, LISTINGS[path])
        return self._pages.get(path, self._any)(target)

    def wait_s(self, target: str) -> float:
        """How long a request has to wait for its page, which would be rendered too often otherwise."""
        if not target.startswith("/metrics"):
            return 0.0
        return max(0.0, self._rendered_at + RENDER_INTERVAL_S - time.monotonic())

    async def _found(self, target: str) -> Found:
        """The pages of the workers that serve."""
        workers = self._supervisor.workers
        pages = await asyncio.gather(*(self._supervisor.page(worker, target) for worker in workers))
        return {worker: page for worker, page in zip(workers, pages, strict=True) if page is not None}

    async def _readyz(self, target: str) -> Page:
        """At first once all are ready; then while each that serves is, and one does.

        A worker that is started again gets no connections before it listens, so it does not count until it is ready.
        """
        found = await self._found(target)
        for worker, page in found.items():
            worker.was_ready |= page.status == 200
        counted = [page.status == 200 for worker, page in found.items() if worker.was_ready]
        workers = self._supervisor.workers
        self._all_were_ready |= len(counted) == len(workers)
        ready = self._all_were_ready and bool(counted) and all(counted) and not self._supervisor.is_draining
        states = {
            str(worker.number): _value(found[worker]) if worker in found else {"ready": False, "listening": False}
            for worker in workers
        }
        return json_page(200 if ready else 503, {"ready": ready, "workers": states})

    async def _metrics(self, target: str) -> Page:
        from kafka_sidecar.proxy.server.admin.exposition import CONTENT_TYPE, text_of

        for worker, page in (await self._found(target)).items():
            if worker.is_serving:  # it may have ended since
                self._totals.update(worker.number, page.body.decode())
        self._totals.update(OWN, text_of(self._families).decode())
        self._rendered = Page(200, CONTENT_TYPE, self._totals.render().encode())
        self._rendered_at = time.monotonic()
        return self._rendered

    async def _take(self, wanted: frozenset[str]) -> Mapping[int, Sample]:
        from kafka_sidecar.proxy.server.admin.live.encoding import decode

        workers = [one for one in self._supervisor.workers if one.is_serving]
        pages = await asyncio.gather(*(self._supervisor.sample(worker, wanted) for worker in workers))
        samples = {one.number: decode(page.body) for one, page in zip(workers, pages, strict=True) if page is not None}
        return {**samples, OWN: own_sample(self._families())} if samples else {}

    def _families(self) -> Iterator[Family]:
        yield from self._supervisor.families()
        yield from self._rate.families()
        yield from self.refusals.families()
        yield from self._taps.families()

    async def _set_log_level(self, target: str) -> Page:
        page = await self._any(target)
        if page.status == 200:
            self._levels.remember(target)
        return page

    def _repeat(self, worker: Worker) -> None:
        """The worker has been started again, with the configured levels and without a tap."""
        self._all.repeat(worker)

        async def repeat(target: str) -> None:
            await self._supervisor.page(worker, target)

        for target in self._levels.requests():
            spawn(repeat(target), "set the log level of a worker")

    async def _listed(self, target: str, listing: Listing) -> Page:
        """The newest of all workers, newest first."""
        found = {worker.number: _value(page) for worker, page in (await self._found(target)).items()}
        values = list(found.values())
        every = [{**entry, "worker": number} for number, one in found.items() for entry in one.pop(listing.name)]
        entries = listing.join(every)
        entries.sort(key=itemgetter(listing.order), reverse=listing.is_falling)
        sums = {name: sum(one[name] for one in values) for name in dict.fromkeys(chain.from_iterable(values))}
        return json_page(200, {**sums, listing.name: entries[: listing.limit]})

    async def _any(self, target: str) -> Page:
        """What most pages are: the same at all workers, or known to one of them alone."""
        found = await self._found(target)
        if not found:
            return json_page(503, {"error": "no worker serves"})
        status = min(page.status for page in found.values())
        best = {worker: page for worker, page in found.items() if page.status == status}
        first = next(iter(best.values()))
        if all(page.body == first.body for page in best.values()):
            return first
        return json_page(status, {"workers": {str(worker.number): _value(page) for worker, page in best.items()}})


def _value(page: Page) -> Any:
    return json.loads(page.body)
