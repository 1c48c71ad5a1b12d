"""One broker and a sidecar with dead letter topics, for all tests of this folder that stop neither."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from integration.dead_letters.lettered import RULES, Lettered
from integration.front import Front, started

VALIDATING = """
topics:
  - {name: "json-*", policy: json}
"""


@pytest.fixture(scope="package")
def lettered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lettered]:
    """With dead letter topics."""
    folder = tmp_path_factory.mktemp("lettered")
    with started(folder, RULES.format(folder=folder)) as (cluster, sidecar):
        yield Lettered(cluster, sidecar)


@pytest.fixture(scope="package")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """Without any."""
    with started(tmp_path_factory.mktemp("dead-letters"), VALIDATING) as (cluster, sidecar):
        yield Front(cluster, sidecar)
