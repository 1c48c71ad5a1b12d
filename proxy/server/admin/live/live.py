"""One sampler for all readers: it begins with the first one, samples once a second, and ends with the last one.

A reader that does not take its snapshots in time misses some, and then its place.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qs

from kafka_sidecar.proxy.runtime.program import collections_paused
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.server.admin.live.files import FILES
from kafka_sidecar.proxy.server.admin.live.sample import PARTS, STATE, TRAFFIC, Sample
from kafka_sidecar.proxy.server.admin.page import JSON, Page, Stream, Viewer, json_page

if TYPE_CHECKING:  # of what is not imported without a reader
    from kafka_sidecar.proxy.server.admin.live.encoding import Encoded
    from kafka_sidecar.proxy.server.admin.live.series import Combine
    from kafka_sidecar.proxy.server.admin.live.snapshot import Histories

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
URGENT = "rejections"  # they appear within a second, so it is looked in between whether there are others
FIRST_INTERVAL_S = 0.3  # between the first two samples: rates are known with the second
MAX_VIEWERS = 16  # streams
MAX_WAITING = 64  # requests of /snapshot
SNAPSHOT_LIMIT_S = 10.0
EVENT_STREAM = "text/event-stream"

# Takes the samples of all processes with these parts, by number of the worker.
Source = Callable[[frozenset[str]], Awaitable[Mapping[int, Sample]]]


class Reader(Protocol):
    """Whoever gets snapshots."""

    def show(self, snapshot: Encoded) -> None: ...


class _Stream:
    """A reader that gets each as a Server-Sent Event."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    def show(self, snapshot: Encoded) -> None:
        self._viewer.send(snapshot.event)


class _Once:
    """A reader that waits for one with rates."""

    def __init__(self) -> None:
        self.snapshot: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def show(self, snapshot: Encoded) -> None:
        if snapshot.has_rates and not self.snapshot.done():
            self.snapshot.set_result(snapshot.line)


class Live:
    """The pages with what happens now."""

    def __init__(self, source: Source, has_page: bool, not_sums: Mapping[str, Combine] | None = None) -> None:
        """
        Args:
            has_page: whether browsers get a page, beside the values.
            not_sums: as of `Tables`.
        """
        self._source = source
        self._not_sums = not_sums
        self._readers: dict[Reader, frozenset[str]] = {}  # with the parts that they want
        self._streams: dict[Viewer, Reader] = {}
        self._sampling: asyncio.Task[None] | None = None
        self._members: dict[str, bytes] = {}  # of the last snapshot, by part
        self._encoded: dict[frozenset[str], Encoded] = {}  # the same, by the parts that readers want
        self._has_rates = False
        self._sampled_at = float("-inf")
        self._files = FILES if has_page else {}

    @property
    def paths(self) -> list[str]:
        """Those that are for people and programs; the page's own files are not among them."""
        return ["/live", "/snapshot", *(["/"] if self._files else [])]

    @property
    def is_sampling(self) -> bool:
        return self._sampling is not None

    def page(self, target: str) -> Page | Stream | Awaitable[Page] | None:
        """The page of a request target; None: it is none of these."""
        path, _, query = target.partition("?")
        if path == "/live":
            return self._open(parts_of(query))
        if path == "/snapshot":
            return self._next(parts_of(query))
        return self._files.get(path)

    def _open(self, wanted: frozenset[str]) -> Page | Stream:
        if len(self._streams) >= MAX_VIEWERS:
            return json_page(503, {"error": f"{MAX_VIEWERS} readers have this stream already: end one, or try later"})

        def begin(viewer: Viewer) -> None:
            reader = self._streams[viewer] = _Stream(viewer)
            self._enter(reader, wanted)

        return Stream(EVENT_STREAM, begin, self._leave_stream)

    async def _next(self, wanted: frozenset[str]) -> Page:
        if len(self._readers) >= MAX_VIEWERS + MAX_WAITING:
            return json_page(503, {"error": "too many requests for snapshots: try later"})
        reader = _Once()
        self._enter(reader, wanted)
        try:
            async with asyncio.timeout(SNAPSHOT_LIMIT_S):
                return Page(200, JSON, await reader.snapshot + b"\n")
        except TimeoutError:
            return json_page(503, {"error": "no worker has answered in time"})
        finally:
            self._leave(reader)

    def _enter(self, reader: Reader, wanted: frozenset[str]) -> None:
        self._readers[reader] = wanted
        if (last := self._encoded.get(wanted)) is not None:
            reader.show(last)
        if self._sampling is None:
            self._sampling = spawn(self._sample(), "sample for readers of /live")

    def _leave_stream(self, viewer: Viewer) -> None:
        if (reader := self._streams.pop(viewer, None)) is not None:
            self._leave(reader)

    def _leave(self, reader: Reader) -> None:
        self._readers.pop(reader, None)
        if not self._readers and self._sampling is not None:
            self._sampling.cancel()
            self._sampling, self._members, self._encoded = None, {}, {}

    async def _sample(self) -> None:
        from kafka_sidecar.proxy.server.admin.live.snapshot import Histories

        histories = Histories(self._not_sums)
        interval_s = FIRST_INTERVAL_S
        # Readers that come and go would otherwise have a snapshot each.
        await asyncio.sleep(max(0.0, self._sampled_at + FIRST_INTERVAL_S - time.monotonic()))
        while True:
            began = self._sampled_at = time.monotonic()
            wanted = frozenset[str]().union(*self._readers.values())
            with _logged():
                await self._show(histories, wanted)
            if URGENT in wanted and interval_s == INTERVAL_S:
                await asyncio.sleep(interval_s / 2)
                with _logged():
                    await self._renew()
            await asyncio.sleep(max(interval_s / 4, interval_s - (time.monotonic() - began)))
            interval_s = INTERVAL_S

    async def _show(self, histories: Histories, wanted: Iterable[str]) -> None:
        """A new snapshot. With very much to show each part takes milliseconds, so it has a turn of its own."""
        from kafka_sidecar.proxy.server.admin.live.encoding import members_of

        with collections_paused():
            state = frozenset((STATE, TRAFFIC)).intersection((STATE, *wanted))
            snapshot = histories.snapshot(await self._source(state))
            members, has_rates = {STATE: members_of(snapshot)}, snapshot["interval_s"] is not None
            del snapshot
        for part in frozenset(wanted) - state:
            await asyncio.sleep(0)
            members[part] = await self._part(part)
        self._members, self._has_rates, self._encoded = members, has_rates, {}
        self._send(self._readers)

    async def _part(self, part: str) -> bytes:
        """What readers ask for beside the rest."""
        from kafka_sidecar.proxy.server.admin.live.encoding import members_of
        from kafka_sidecar.proxy.server.admin.live.snapshot import joined

        with collections_paused():
            return members_of(joined(await self._source(frozenset((part,)))))

    async def _renew(self) -> None:
        """The last snapshot with what is urgent, for those who want it, if that has changed."""
        found = await self._part(URGENT)
        if found == self._members.get(URGENT) or not self._members:
            return
        self._members[URGENT] = found
        self._encoded = {wanted: one for wanted, one in self._encoded.items() if URGENT not in wanted}
        self._send([reader for reader, wanted in self._readers.items() if URGENT in wanted])

    def _send(self, readers: Iterable[Reader]) -> None:
        from kafka_sidecar.proxy.server.admin.live.encoding import encoded

        for reader in list(readers):
            wanted = self._readers[reader]
            if wanted not in self._encoded:
                parts = (self._members.get(part) for part in (STATE, *PARTS) if part in {STATE, *wanted})
                self._encoded[wanted] = encoded(filter(None, parts), self._has_rates)
            reader.show(self._encoded[wanted])


@contextmanager
def _logged() -> Iterator[None]:
    """A snapshot that fails costs one snapshot."""
    try:
        yield
    except Exception as error:
        log.error("snapshot failed: this is a bug", exc_info=error)


def parts_of(query: str) -> frozenset[str]:
    """The parts that a query asks for: `with=topics,connections`. Others are ignored."""
    named = ",".join(parse_qs(query).get("with", [])).split(",")
    return frozenset(PARTS).intersection(named)
