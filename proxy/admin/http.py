"""/metrics, /rejections, /livez and /readyz over HTTP, for Kubernetes and Prometheus.

h11 parses HTTP; this module is one table of paths.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, cast

import h11

from kafka_sidecar.proxy.server import Server
from kafka_sidecar.proxy.telemetry.logs import timestamp

JSON = "application/json"
MAX_REQUEST_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class Page:
    status: int
    content_type: str
    body: bytes


class Admin:
    """The pages of one sidecar."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._pages: dict[str, Callable[[], Page]] = {
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/rejections": self._rejections,
        }

    def page(self, target: str) -> Page:
        """The page of a request target; the query is ignored."""
        make = self._pages.get(target.partition("?")[0])
        if make is None:
            return _json(404, {"error": "no such page", "pages": sorted(self._pages)})
        return make()

    def _livez(self) -> Page:
        """Responds if the event loop runs. Does not depend on Kafka."""
        return _json(200, {"live": True})

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
        return _json(200 if ready else 503, state)

    def _rejections(self) -> Page:
        """The last rejected batches, newest first."""
        validator = self._server.features.validator
        recent = reversed(validator.stats.recent) if validator is not None else ()
        return _json(200, {"rejections": [_with_timestamp(asdict(batch)) for batch in recent]})

    def _metrics(self) -> Page:
        from kafka_sidecar.proxy.admin.exposition import CONTENT_TYPE, render

        return Page(200, CONTENT_TYPE, render(self._server.metrics))


def _with_timestamp(batch: dict[str, Any]) -> dict[str, Any]:
    """The time in the form that log lines have."""
    return {"timestamp": timestamp(batch.pop("at")), **batch}


def _json(status: int, value: object) -> Page:
    return Page(status, JSON, json.dumps(value).encode() + b"\n")


class AdminProtocol(asyncio.Protocol):
    """One HTTP connection."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_REQUEST_BYTES)
        self._transport: asyncio.Transport | None = None
        self._request: h11.Request | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        try:
            self._http.receive_data(data)
            while (event := self._http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Request):
                    self._request = event
                elif isinstance(event, h11.EndOfMessage) and self._request is not None:
                    self._respond(self._request)
                elif isinstance(event, h11.ConnectionClosed):
                    self._transport.close()
                    return
        except h11.RemoteProtocolError:
            self._transport.close()

    def _respond(self, request: h11.Request) -> None:
        assert self._transport is not None
        page = self._admin.page(request.target.decode("ascii"))
        if request.method not in (b"GET", b"HEAD"):
            page = _json(405, {"error": "only GET and HEAD are supported"})
        headers = [("content-type", page.content_type), ("content-length", str(len(page.body)))]
        out = self._http.send(h11.Response(status_code=page.status, headers=headers)) or b""
        out += self._http.send(h11.Data(data=page.body if request.method != b"HEAD" else b"")) or b""
        out += self._http.send(h11.EndOfMessage()) or b""
        self._transport.write(out)
        if self._http.our_state is h11.MUST_CLOSE:
            self._transport.close()
        else:
            self._http.start_next_cycle()
