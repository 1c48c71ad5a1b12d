"""The pages of the admin port, for Kubernetes, Prometheus and operators: one table of paths."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, unquote

from kafka_sidecar.proxy.server.admin.connections import list_connections, show_connection
from kafka_sidecar.proxy.server.admin.log_levels import LevelError, LogLevels
from kafka_sidecar.proxy.server.admin.page import FORBIDDEN, JSON, RENDER_INTERVAL_S, Page, is_host_allowed, json_page
from kafka_sidecar.proxy.server.admin.readiness import readiness, verbose_readiness
from kafka_sidecar.proxy.server.admin.rejections import explain_rejection, list_rejections, why_unknown
from kafka_sidecar.proxy.server.admin.topics import describe_topic, list_topics
from kafka_sidecar.proxy.server.server import Server

Query = Mapping[str, str]


class Admin:
    """The pages of one sidecar."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._levels = LogLevels()
        self._rendered = Page(503, JSON, b"")
        self._rendered_at = float("-inf")
        # By path; a method other than GET comes before it.
        self._pages: dict[str, Callable[[Query], Page]] = {
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/rejections": lambda query: json_page(200, list_rejections(server)),
            "/log-level": lambda query: json_page(200, self._levels.show()),
            "PUT /log-level": self._set_log_level,
            "/topics": lambda query: json_page(200, list_topics(server)),
            "/connections": lambda query: json_page(200, list_connections(server, query)),
        }
        # What a path names after its last slash.
        self._items: dict[str, Callable[[str], Page]] = {
            "/rejections/": self._rejection,
            "/connections/": self._connection,
            "/topics/": lambda name: json_page(200, describe_topic(server, name)),
        }

    @property
    def paths(self) -> list[str]:
        return sorted([*self._pages, *(f"{folder}..." for folder in self._items)])

    def page(self, target: str, host: str | None = None, asked_at: float = float("inf")) -> Page:
        """The page of a request target. ``asked_at``: seconds of `time.monotonic`."""
        if host is not None and not is_host_allowed(host, self._server.config):
            return FORBIDDEN
        path, _, query = target.partition("?")
        make = self._pages.get(path) or self._item(path)
        if make is None and " " in path:
            return json_page(405, {"error": "this page cannot be changed"})
        if make is None:
            return json_page(404, {"error": "no such page", "pages": self.paths})
        if make == self._metrics and self._rendered_at >= asked_at:
            return self._rendered
        return make(dict(parse_qsl(query, keep_blank_values=True)))

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
