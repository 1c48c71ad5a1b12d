"""The pages of the admin port, for Kubernetes, Prometheus and operators: one table of paths.

Connections are listed as JSON, one with its last requests.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from kafka_sidecar.proxy.runtime.connection import Connection
from kafka_sidecar.proxy.runtime.connection_state import (
    describe_open,
    describe_request,
    describe_waiting,
    recorded,
    with_removed,
)
from kafka_sidecar.proxy.runtime.program import collections_paused
from kafka_sidecar.proxy.server.admin.effective import describe_topic, in_force, list_topics
from kafka_sidecar.proxy.server.admin.live.live import Live
from kafka_sidecar.proxy.server.admin.live.sample import Sample, Samples, closed_rows
from kafka_sidecar.proxy.server.admin.log_levels import LevelError, LogLevels
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
from kafka_sidecar.proxy.server.admin.readiness import readiness, verbose_readiness
from kafka_sidecar.proxy.server.admin.rejections import explain_rejection, list_rejections, why_unknown
from kafka_sidecar.proxy.server.admin.tap.open_tap import Deliver
from kafka_sidecar.proxy.server.admin.tap.streams import TapStreams
from kafka_sidecar.proxy.server.admin.tap.wanted import Wanted
from kafka_sidecar.proxy.server.server import Server

if TYPE_CHECKING:  # of what only an open tap imports
    from kafka_sidecar.proxy.server.admin.tap.hub import Hub

Query = Mapping[str, str]
MAX_LOOKED_INTO = 2000  # connections whose last requests are looked at: each takes some 10 us
MAX_CONNECTIONS_LISTED = 200  # each takes some 10 us of the event loop
PRODUCER_FILTERS = ("topic", "client_id", "principal")
FILTERS = ("client", "client_id", "listener", "principal")  # the client's address with or without its port
WITH_CLOSED, WITH_OLD, WITH_PAUSED = "closed", "old", "paused"  # in a query, with any value


class Admin:
    """The pages of one sidecar."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.refusals = Refusals()
        server.metrics.features.append(self.refusals.families)
        self._levels = LogLevels()
        self._samples = Samples(server)
        self._live = Live(self._take, server.config.admin.page)
        self._hub: Hub | None = None
        self._taps = TapStreams(self.open_tap, lambda: server.features.applied.tap)
        server.metrics.features.append(self._taps.families)
        self._rendered = Page(503, JSON, b"")
        self._rendered_at = float("-inf")
        # By path; a method other than GET comes before it.
        self._pages: dict[str, Callable[[Query], Page]] = {
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/rejections": lambda query: json_page(200, list_rejections(server, query)),
            "/log-level": lambda query: json_page(200, self._levels.show()),
            "PUT /log-level": self._set_log_level,
            "/topics": lambda query: json_page(200, list_topics(server)),
            "/connections": lambda query: json_page(200, list_connections(server, query)),
            "/configuration": lambda query: json_page(200, in_force(server)),
            "/producers": lambda query: json_page(200, list_producers(server, query)),
        }
        # What a path names after its last slash.
        self._items: dict[str, Callable[[str], Page]] = {
            "/rejections/": self._rejection,
            "/connections/": self._connection,
            "/topics/": lambda name: json_page(200, describe_topic(server, name)),
        }

    @property
    def paths(self) -> list[str]:
        return sorted([*self._pages, *self._live.paths, *self._taps.paths, *(f"{folder}..." for folder in self._items)])

    def page(
        self, target: str, host: str | None = None, asked_at: float = float("inf")
    ) -> Page | Stream | Awaitable[Page]:
        """The page of a request target. ``asked_at``: seconds of `time.monotonic`."""
        if host is not None and not is_host_allowed(host, self._server.config):
            return FORBIDDEN
        found = self._live.page(target) or self._taps.page(target)
        return found if found is not None else self.own_page(target, asked_at)

    def open_tap(self, wanted: Wanted, deliver: Deliver) -> Callable[[], None]:
        """Show what is wanted of this process from now on; what is returned ends it."""
        if self._hub is None:
            from kafka_sidecar.proxy.server.admin.tap.hub import Hub

            self._hub = Hub(self._server)
        return self._hub.open(wanted, deliver)

    def own_page(self, target: str, asked_at: float = float("inf")) -> Page:
        """One of a process: with several workers, another process joins them, and samples too."""
        path, _, query = target.partition("?")
        make = self._pages.get(path) or self._item(path)
        if make is None and " " in path:
            return json_page(405, {"error": "this page cannot be changed"})
        if make is None:
            return json_page(404, {"error": "no such page", "pages": self.paths})
        if make == self._metrics and self._rendered_at >= asked_at:
            return self._rendered
        return make(dict(parse_qsl(query, keep_blank_values=True)))

    async def sample(self, wanted: frozenset[str]) -> Page:
        """This moment of the process, for the one that joins those of several."""
        from kafka_sidecar.proxy.server.admin.live.encoding import encode

        with collections_paused():
            return Page(200, JSON, encode(await self._samples.take(wanted)))

    async def _take(self, wanted: frozenset[str]) -> Mapping[int, Sample]:
        return {0: await self._samples.take(wanted)}

    def _item(self, path: str) -> Callable[[Query], Page] | None:
        folder, slash, name = path.rpartition("/")
        make = self._items.get(folder + slash)
        return (lambda query: make(unquote(name))) if make is not None and name else None

    def wait_s(self, target: str) -> float:
        """How long a request has to wait for its page, which would be rendered too often otherwise."""
        if not target.startswith("/metrics"):
            return 0.0
        return max(0.0, self._rendered_at + RENDER_INTERVAL_S - time.monotonic())

    def _livez(self, query: Query) -> Page:
        """Responds if the event loop runs. Does not depend on Kafka."""
        return json_page(200, {"live": True})

    def _readyz(self, query: Query) -> Page:
        state = verbose_readiness(self._server) if "verbose" in query else readiness(self._server)
        return json_page(200 if state["ready"] else 503, state)

    def _set_log_level(self, query: Query) -> Page:
        try:
            return json_page(200, self._levels.change(query))
        except LevelError as error:
            return json_page(400, {"error": str(error)})

    def _rejection(self, rejection_id: str) -> Page:
        found = explain_rejection(self._server, rejection_id)
        if found is not None:
            return json_page(200, found)
        return json_page(
            404, {"error": f"rejection {rejection_id} is unknown: {why_unknown(self._server, rejection_id)}"}
        )

    def _connection(self, number: str) -> Page:
        found = show_connection(self._server, number)
        return json_page(404, {"error": f"connection {number} is not open"}) if found is None else json_page(200, found)

    def _metrics(self, query: Query) -> Page:
        from kafka_sidecar.proxy.server.admin.exposition import CONTENT_TYPE, render

        self._rendered = Page(200, CONTENT_TYPE, render(self._server.metrics))
        self._rendered_at = time.monotonic()
        return self._rendered


def list_connections(server: Server, query: Mapping[str, str]) -> dict[str, Any]:
    """The newest open connections that have the values of the query; with ``closed`` those that have ended last."""
    wanted = {name: query[name] for name in FILTERS if name in query}
    if WITH_CLOSED in query:
        rows = [row for row in closed_rows(server) if _has(_of_closed(row), wanted)][:MAX_CONNECTIONS_LISTED]
        return {"open": len(server.connections), "connections": rows}
    found: Iterable[Connection] = reversed(server.connections)
    if wanted:
        found = (one for one in found if _has(_of_open(one), wanted))
    if WITH_PAUSED in query:
        found = (one for one in found if one.is_paused)
    if WITH_OLD in query:
        found = with_removed(islice(found, MAX_LOOKED_INTO))
    newest = islice(found, MAX_CONNECTIONS_LISTED)
    return {"open": len(server.connections), "connections": list(map(describe_waiting, newest))}


def show_connection(server: Server, number: str) -> dict[str, Any] | None:
    """An open connection with its last requests, oldest first; None if it is not open."""
    found = next((one for one in server.connections if str(one.number) == number), None)
    if found is None:
        return None
    return {"connections": [{**describe_open(found), "last_requests": list(map(describe_request, recorded(found)))}]}


def _of_open(connection: Connection) -> Mapping[str, tuple[str | None, ...]]:
    session = connection.session
    return {
        "client": (connection.ip, connection.peer),
        "client_id": (session.client_id,),
        "listener": (connection.listener,),
        "principal": (session.principal,),
    }


def _of_closed(row: Mapping[str, Any]) -> Mapping[str, tuple[str | None, ...]]:
    own = {name: (row[name],) for name in FILTERS}
    return {**own, "client": (row["client"], row["client"].rpartition(":")[0])}


def _has(values: Mapping[str, tuple[str | None, ...]], wanted: Mapping[str, str]) -> bool:
    return all(value in values[name] for name, value in wanted.items())


def list_producers(server: Server, query: Query) -> dict[str, Any]:
    """The clients that have sent last to the topics of `producers:`, and how; of a topic or client id of the query."""
    habits = server.features.producer_habits
    if habits is None:
        return {"known": 0, "forgotten": 0, "producers": []}
    return habits.list_producers({name: query[name] for name in PRODUCER_FILTERS if name in query})
