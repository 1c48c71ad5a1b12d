"""The sidecar as a process: start it, read its metrics and its log, stop it."""

from __future__ import annotations

import itertools
import json
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from rich.box import SIMPLE
from rich.table import Table

CONFIG = Path(__file__).with_name("demo.yaml")
READY_WITHIN_S = 15.0
STOPPED_WITHIN_S = 5.0
PORTS = 8  # the bootstrap listener, one per broker, the admin port
SHOWN_APIS = 10
PREFIX = "kafka_sidecar_"
Samples = dict[tuple[str, str], float]  # (metric, label value) -> value


@dataclass(frozen=True, slots=True)
class ApiTraffic:
    """The traffic of one API."""

    name: str
    requests: int
    responses: int
    bytes: int
    median_s: float | None


@dataclass(frozen=True, slots=True)
class Traffic:
    """The figures of /metrics at one moment."""

    apis: tuple[ApiTraffic, ...]
    opened: int
    active: int

    @property
    def bytes(self) -> int:
        return sum(api.bytes for api in self.apis)

    def requests(self, name: str) -> int:
        return sum(api.requests for api in self.apis if api.name == name)


class Sidecar:
    """A running sidecar for a cluster; its log goes to a file."""

    def __init__(self, bootstrap_servers: str, log: Path, config: Path = CONFIG) -> None:
        ports = free_ports(PORTS)
        self.listen = f"127.0.0.1:{ports[0]}"
        self._admin = f"127.0.0.1:{ports[-1]}"
        self.page = f"http://{self._admin}/"
        self._log = log
        flags = ["--config", os.path.relpath(config), "--bootstrap-servers", bootstrap_servers]
        flags += ["--listen", self.listen, "--admin", self._admin]
        self.command_line = shlex.join(["kafka-sidecar", "run", *flags])
        # With setpriv the kernel ends the sidecar even if this process is killed.
        guard = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*guard, sys.executable, "-m", "kafka_sidecar.proxy", "run", *flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def __enter__(self) -> Sidecar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def wait_until_ready(self, nodes: int) -> set[str]:
        """host:port of the brokers' listeners, once there are ``nodes`` of them."""
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                state = json.loads(self._page("/readyz"))
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                state = {"nodes": {}}
            if len(state["nodes"]) >= nodes:
                return {f"127.0.0.1:{node['port']}" for node in state["nodes"].values()}
            time.sleep(0.05)
        raise SystemExit(f"the sidecar did not become ready; its log says:\n{self._log.read_text()}")

    def traffic(self) -> Traffic:
        return traffic_of(self._page("/metrics"))

    def rejected_records(self) -> int:
        """The number of rejected records, from the sidecar's metrics."""
        families = text_string_to_metric_families(self._page("/metrics"))
        rejected = [family for family in families if family.name == PREFIX + "rejected_records"]
        return int(
            sum(sample.value for family in rejected for sample in family.samples if sample.name.endswith("total"))
        )

    def reload(self) -> None:
        """SIGHUP: the configuration is read again."""
        self._process.send_signal(signal.SIGHUP)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self._process.terminate()
        try:
            return self._process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def busiest_ending(self, client_id: str) -> str | None:
        """The "connection ended" line of the client's connection with most bytes."""
        lines = [json.loads(line) for line in self._log.read_text().split("\n")[:-1] if line.startswith("{")]
        endings = [line for line in lines if line["message"] == "connection ended"]
        of_client = [line for line in endings if line.get("client_id") == client_id]
        return json.dumps(max(of_client, key=lambda line: line["bytes_from_client"])) if of_client else None

    def _page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self._admin}{path}", timeout=2) as answer:
            return str(answer.read().decode())


def traffic_of(text: str) -> Traffic:
    """The figures that the demo shows, from Prometheus' text format."""
    values: Samples = {}
    latencies: dict[str, list[tuple[float, float]]] = {}
    for sample in itertools.chain.from_iterable(family.samples for family in text_string_to_metric_families(text)):
        name, labels = sample.name.removeprefix(PREFIX), sample.labels
        api = labels.get("api_key", "")
        if name == "request_latency_seconds_bucket":
            latencies.setdefault(api, []).append((float(labels["le"]), sample.value))
        else:
            values[name, api or labels.get("listener", "")] = sample.value
    names = [api for metric, api in values if metric == "client_to_proxy_request_total"]
    return Traffic(
        tuple(_of_api(api, values, latencies.get(api, [])) for api in names),
        opened=int(sum(value for (metric, _), value in values.items() if metric == "connections_total")),
        active=int(sum(value for (metric, _), value in values.items() if metric == "active_connections")),
    )


def _of_api(api: str, values: Samples, buckets: list[tuple[float, float]]) -> ApiTraffic:
    sizes = ("client_to_proxy_request_size_bytes_total", "proxy_to_client_response_size_bytes_total")
    return ApiTraffic(
        api,
        requests=int(values["client_to_proxy_request_total", api]),
        responses=int(values["proxy_to_client_response_total", api]),
        bytes=int(sum(values[size, api] for size in sizes)),
        median_s=median(buckets),
    )


def median(buckets: list[tuple[float, float]]) -> float | None:
    """The median of a cumulative histogram [(upper bound, count)], interpolated linearly; None: it is empty."""
    half = buckets[-1][1] / 2 if buckets else 0
    below, before = 0.0, 0.0
    for bound, count in buckets:
        if half and count >= half:
            return below if bound == float("inf") else below + (bound - below) * (half - before) / (count - before)
        below, before = bound, count
    return None


def traffic_table(traffic: Traffic) -> Table:
    """One row per API, the one with most bytes first."""
    table = Table(box=SIMPLE)
    for heading in ("API", "requests", "responses", "bytes", "latency p50"):
        table.add_column(heading, justify="left" if heading == "API" else "right", no_wrap=True)
    by_bytes = sorted(traffic.apis, key=lambda api: -api.bytes)
    for api in by_bytes[:SHOWN_APIS]:
        latency = "" if api.median_s is None else f"{api.median_s * 1000:.2f} ms"
        table.add_row(api.name, f"{api.requests:,}", f"{api.responses:,}", format_bytes(api.bytes), latency)
    if rest := by_bytes[SHOWN_APIS:]:
        requests, responses = sum(api.requests for api in rest), sum(api.responses for api in rest)
        table.add_row(f"{len(rest)} more", str(requests), str(responses), format_bytes(sum(api.bytes for api in rest)))
    return table


def format_bytes(size: float) -> str:
    """1536 -> "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def free_ports(count: int) -> range:
    """``count`` adjacent free ports, below the kernel's ephemeral range."""
    for _ in range(1000):
        start = random.randrange(12_000, 32_000 - count)
        if all(_is_free(port) for port in range(start, start + count)):
            return range(start, start + count)
    raise SystemExit("no free ports between 12000 and 32000")


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
