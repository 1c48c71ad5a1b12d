"""Snapshots as a sidecar has them, and an admin port in a thread that answers what it is given."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kafka_sidecar.proxy.server.admin.live.troubles import troubles


def family(name: str, kind: str, labels: list[str], *rows: dict[str, Any]) -> dict[str, Any]:
    made = [{"rate": None, **row} for row in rows]
    return {"name": name, "kind": kind, "about": name, "labels": labels, "rows": made, "not_shown": 0}


def worker(number: int | None = None, **changed: Any) -> dict[str, Any]:
    return {
        "worker": number, "pid": 100 + (number or 0), "version": "0.1.0", "python": "3.11.7", "build": "compiled",
        "memory_bytes": 50 << 20, "uptime_s": 93784.0, "cpu": 0.25, "ready": True, "connections": 3,
        "requests_per_s": 10.0, "bytes_per_s": 100.0, "event_loop_delay_p99_s": 0.0012, **changed,
    }  # fmt: skip


def sidecar(**changed: Any) -> dict[str, Any]:
    return {
        "ready": True, "reasons": [], "draining": False,
        "configuration": {
            "hash": "abc123", "generation": 3, "last_reload": "applied", "applied_at": "2026-11-27T08:00:00.000Z",
            "restart_required_by": [],
        },
        "connections": {"open": 3, "topics_known": 2},
        "memory": {"buffered_bytes": 1 << 20, "limit_bytes": 256 << 20, "waiting": 0, "waiting_connections": []},
        "listeners": [
            {"listener": "bootstrap", "addresses": "127.0.0.1:19092"},
            {"listener": "node 1", "addresses": "127.0.0.1:19094"},
        ],
        "nodes": [
            {
                "node": 1, "broker": "kafka-1:9092", "port": 19094, "connections": 3, "reachable": True,
                "last_failure": None, "failed_at": None,
            },
        ],
        "brokers": {
            "bootstrap_servers": ["kafka-1:9092"], "last_metadata": "received", "connect_failures": {}, "login": "ok",
        },
        **changed,
    }  # fmt: skip


def snapshot(*families: dict[str, Any], **changed: Any) -> dict[str, Any]:
    traffic = [
        family("client_to_proxy_request", "counter", ["api_key"], {"of": ["Produce"], "value": 1000, "rate": 12.0}),
        family(
            "request_latency_seconds", "histogram", ["api_key"],
            {"of": ["Produce"], "value": 1000, "rate": 12.0, "p50_s": 0.001, "p99_s": 0.02, "mean_s": 0.002},
        ),
    ]  # fmt: skip
    found = {
        "timestamp": "2026-11-27T09:00:00.000Z", "interval_s": 0.3, "workers": [worker()], "sidecar": sidecar(),
        "features": {}, "metrics": {"engine": [*traffic, *families]}, **changed,
    }  # fmt: skip
    return {**found, "troubles": troubles(found)}


class AdminPort(ThreadingHTTPServer):
    """``asked``: the targets of requests."""

    def __init__(self, pages: Mapping[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.pages = pages
        self.asked: list[str] = []
        self.tokens: list[str | None] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Page(BaseHTTPRequestHandler):
    server: AdminPort

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.tokens.append(self.headers.get("authorization"))
        found = self.server.pages.get(self.path.partition("?")[0])
        data = json.dumps(found if found is not None else {"error": "no such page"}).encode()
        self.send_response(200 if found is not None else 404)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def admin_port(pages: Mapping[str, Any]) -> Iterator[AdminPort]:
    """One that answers with these values, by path."""
    server = AdminPort(pages)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
