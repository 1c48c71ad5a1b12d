"""Brokers and a sidecar with dead letter topics, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness.cluster import Cluster
from harness.versions import NEWEST
from integration.dead_letters.lettered import RULES, Lettered
from integration.front import started


@pytest.fixture(scope="package")
def lettered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lettered]:
    """For tests that stop neither broker nor sidecar."""
    folder = tmp_path_factory.mktemp("lettered")
    with started(folder, RULES.format(folder=folder)) as (cluster, sidecar):
        yield Lettered(cluster, sidecar)


@pytest.fixture(scope="package")
def two() -> Iterator[Cluster]:
    """Two brokers, of which the last one can be down: it is no controller."""
    with Cluster.start(NEWEST) as cluster:
        cluster.add_node()
        yield cluster
