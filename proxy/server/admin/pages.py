"""The pages of the admin port, for Kubernetes, Prometheus and operators: one table of paths.

Connections and topics are listed as JSON: with the last requests of one, and with what applies to each.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from heapq import nlargest
from operator import attrgetter
from typing import Any
from urllib.parse import parse_qsl, unquote

from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.config.reload import RELOADED
from kafka_sidecar.proxy.runtime.connection import Connection
from kafka_sidecar.proxy.runtime.connection_state import describe_open, describe_request, recorded
from kafka_sidecar.proxy.server.admin.log_levels import LevelError, LogLevels
from kafka_sidecar.proxy.server.admin.page import FORBIDDEN, JSON, RENDER_INTERVAL_S, Page, is_host_allowed, json_page
from kafka_sidecar.proxy.server.admin.readiness import readiness, verbose_readiness
from kafka_sidecar.proxy.server.admin.refusals import Refusals
from kafka_sidecar.proxy.server.admin.rejections import explain_rejection, list_rejections, why_unknown
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.hidden_settings import hide_secrets

Query = Mapping[str, str]
MAX_CONNECTIONS_LISTED = 200  # each takes some 10 us of the event loop
PRODUCER_FILTERS = ("topic", "client_id", "principal")
FILTERS = ("client", "client_id", "listener")  # the client's address with or without its port
MAX_TOPICS_LISTED = 500  # topics; each takes some 20 us of the event loop


class Admin:
    """The pages of one sidecar."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.refusals = Refusals()
        server.metrics.features.append(self.refusals.families)
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


def list_connections(server: Server, query: Mapping[str, str]) -> dict[str, Any]:
    """The newest open connections that have the values of the query."""
    wanted = {name: query[name] for name in FILTERS if name in query}
    found = [one for one in server.connections if _matches(one, wanted)] if wanted else server.connections
    newest = nlargest(MAX_CONNECTIONS_LISTED, found, attrgetter("number"))
    return {"open": len(server.connections), "connections": list(map(describe_open, newest))}


def show_connection(server: Server, number: str) -> dict[str, Any] | None:
    """An open connection with its last requests, oldest first; None if it is not open."""
    found = next((one for one in server.connections if str(one.number) == number), None)
    if found is None:
        return None
    return {"connections": [{**describe_open(found), "last_requests": list(map(describe_request, recorded(found)))}]}


def _matches(connection: Connection, wanted: Mapping[str, str]) -> bool:
    have = {
        "client": (connection.ip, connection.peer),
        "client_id": (connection.session.client_id,),
        "listener": (connection.listener,),
    }
    return all(value in have[name] for name, value in wanted.items())


def list_topics(server: Server) -> dict[str, Any]:
    """The topics that clients have named, and those that the file names, in short."""
    configured = {topic.name for topic in server.features.applied.topics if is_topic_name(topic.name)}
    names = sorted({*server.topics.names, *configured})
    return {
        "configuration": configuration_hash(server),
        "known": len(names),
        "topics": [_in_short(describe_topic(server, name)) for name in names[:MAX_TOPICS_LISTED]],
    }


def describe_topic(server: Server, name: str) -> dict[str, Any]:
    """All that applies to one topic, known or not."""
    topic_id = server.topics.id_of(name)
    return {
        "topic": name,
        "topic_id": urlsafe_b64encode(topic_id).rstrip(b"=").decode() if topic_id != NO_ID else None,
        "validation": _validation(server, name, topic_id),
        "interceptors": _interceptors(server, name),
        "producers": _producers(server, name),
    }


def configuration_hash(server: Server) -> str:
    """A hash of the sections that a reload applies: equal in sidecars that do the same."""
    from kafka_sidecar.proxy.features.validation.rules import hash_of

    sections = server.features.applied.model_dump(mode="json", include=set(RELOADED), fallback=str)
    return hash_of(hide_secrets(sections))


def _validation(server: Server, name: str, topic_id: bytes) -> dict[str, Any]:
    validator = server.features.validator
    if validator is None:
        return {"policies": [], "why": "no policies are configured"}
    from kafka_sidecar.proxy.features.validation.rules import describe_applied

    try:
        applied = validator.rules.of(name, topic_id)
    except ValueError as error:  # a string that no policy understands
        return {"policies": [], "why": f"its record.validation.policy is invalid on this sidecar: {error}"}
    return describe_applied(applied) if applied else {"policies": [], "why": validator.rules.why_none(name)}


def _interceptors(server: Server, name: str) -> list[dict[str, Any]]:
    interception = server.features.interception
    if interception is None:
        return []
    from kafka_sidecar.proxy.features.interception.from_config import describe_interceptors

    return describe_interceptors(interception.catalog, name)


def _producers(server: Server, name: str) -> list[dict[str, Any]]:
    """What is required of the topic's producers, in the order in which their principals are looked for."""
    habits = server.features.producer_habits
    if habits is None:
        return []
    from kafka_sidecar.proxy.features.producer_habits.from_config import describe

    return [describe(entry) for entry in habits.entries.of_topic(name)]


def list_producers(server: Server, query: Query) -> dict[str, Any]:
    """The clients that have sent last to the topics of `producers:`, and how; of a topic or client id of the query."""
    habits = server.features.producer_habits
    if habits is None:
        return {"known": 0, "forgotten": 0, "producers": []}
    return habits.list_producers({name: query[name] for name in PRODUCER_FILTERS if name in query})


def _in_short(topic: dict[str, Any]) -> dict[str, Any]:
    shown = ("record.validation.policy", "mode", "source", "hash", "why")
    validation = {name: topic["validation"][name] for name in shown if name in topic["validation"]}
    return {**topic, "validation": validation, "interceptors": [one["name"] for one in topic["interceptors"]]}
