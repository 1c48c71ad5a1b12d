"""/metrics, /rejections, /livez and /readyz, for Kubernetes and Prometheus: one table of paths."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Any

from kafka_sidecar.proxy.config.types import host_port
from kafka_sidecar.proxy.server import Server
from kafka_sidecar.proxy.telemetry.logs import timestamp

JSON = "application/json"
RENDER_INTERVAL_S = 1.0  # between two renderings of /metrics, which take milliseconds of the event loop


@dataclass(frozen=True, slots=True)
class Page:
    status: int
    content_type: str
    body: bytes


class Admin:
    """The pages of one sidecar."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._rendered = Page(503, JSON, b"")
        self._rendered_at = float("-inf")
        self._pages: dict[str, Callable[[], Page]] = {
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/rejections": self._rejections,
        }

    def page(self, target: str, host: str | None = None, asked_at: float = float("inf")) -> Page:
        """The page of a request target; the query is ignored. ``asked_at``: seconds of `time.monotonic`."""
        if host is not None and not self._allows(host):
            return json_page(403, {"error": "the Host header names another host: see the setting admin.allowed_hosts"})
        make = self._pages.get(target.partition("?")[0])
        if make is None:
            return json_page(404, {"error": "no such page", "pages": sorted(self._pages)})
        if make == self._metrics and self._rendered_at >= asked_at:
            return self._rendered
        return make()

    def wait_s(self, target: str) -> float:
        """How long a request has to wait for its page, which would be rendered too often otherwise."""
        if not target.startswith("/metrics"):
            return 0.0
        return max(0.0, self._rendered_at + RENDER_INTERVAL_S - time.monotonic())

    def _allows(self, host: str) -> bool:
        """Whether a Host header is not that of a web page whose name was made to resolve to this host.

        An address is none: a browser sends the name that the page was loaded by.
        """
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and not host.endswith("]") else host
        name = name.removeprefix("[").removesuffix("]").lower()
        try:
            ip_address(name)
        except ValueError:
            config = self._server.config
            listen = host_port(config.admin.listen)[0] if config.admin.listen else "localhost"
            allowed = ["localhost", listen, config.advertised_host, *config.admin.allowed_hosts]
            return any(fnmatchcase(name, pattern.lower()) for pattern in allowed)
        return True

    def _livez(self) -> Page:
        """Responds if the event loop runs. Does not depend on Kafka."""
        return json_page(200, {"live": True})

    def _readyz(self) -> Page:
        server = self._server
        own = [f"{host}:{port}" for host, port in sorted(server.own.addresses)]
        configs = server.features.topic_configs
        configs_trouble = configs.unready if configs is not None else None
        ready = server.listening and server.metrics.cluster_reached and configs_trouble is None and not own
        nodes = {
            str(node.node_id): {"broker": f"{node.host}:{node.port}", "port": node.local_port}
            for node in server.addresses.nodes.values()
        }
        state = {
            "ready": ready,
            "listening": server.listening,
            "cluster_reached": server.metrics.cluster_reached,
            "connects_to_itself": own,
            "listen": server.config.listen,
            "nodes": nodes,
            "connections": len(server.connections),
            "topics_known": len(server.topics),
            "topic_configs": "disabled" if configs is None else configs_trouble or "ready",
        }
        return json_page(200 if ready else 503, state)

    def _rejections(self) -> Page:
        """The last rejected batches, newest first."""
        validator = self._server.features.validator
        recent = reversed(validator.stats.recent) if validator is not None else ()
        return json_page(200, {"rejections": [_with_timestamp(asdict(batch)) for batch in recent]})

    def _metrics(self) -> Page:
        from kafka_sidecar.proxy.admin.exposition import CONTENT_TYPE, render

        self._rendered = Page(200, CONTENT_TYPE, render(self._server.metrics))
        self._rendered_at = time.monotonic()
        return self._rendered


def _with_timestamp(batch: dict[str, Any]) -> dict[str, Any]:
    """The time in the form that log lines have."""
    return {"timestamp": timestamp(batch.pop("at")), **batch}


def json_page(status: int, value: object) -> Page:
    """A value as a page."""
    return Page(status, JSON, json.dumps(value).encode() + b"\n")
