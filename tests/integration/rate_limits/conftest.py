"""A broker, and a sidecar with limits before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.cluster import Cluster
from harness.sidecar import NODE_PORTS, Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.lent import plain_cluster

RATE = 1_000_000  # bytes a second of each limit
SECONDS = 8  # that the records of a test take at this rate
CONFIG = f"""\
nodes: {{ports: {NODE_PORTS}}}
rate_limits:
  - {{name: clients, topics: ["limited*"], per: [client_id], produce_bytes: {RATE}, consume_bytes: {RATE}}}
  - {{name: asking, client_ids: [asks-much], requests: 50}}
  - {{name: hard, topics: [rejected], per: [client_id], produce_bytes: {RATE}, action: reject}}
"""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with plain_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def host() -> Iterator[ToolHost]:
    with ToolHost(NEWEST) as host:
        yield host


@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.matrix)], ids=["one process", "two workers"])
def sidecar(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sidecar]:
    config = tmp_path / "kafka-sidecar.yaml"
    config.write_text(f"workers: {request.param}\n{CONFIG}")
    with Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log", ["--config", str(config)]) as sidecar:
        yield sidecar
