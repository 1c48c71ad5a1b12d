"""One broker and a sidecar with dead letter topics, for all tests of this folder that stop neither."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from integration.dead_letters.lettered import RULES, Lettered
from integration.front import started


@pytest.fixture(scope="package")
def lettered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lettered]:
    folder = tmp_path_factory.mktemp("lettered")
    with started(folder, RULES.format(folder=folder)) as (cluster, sidecar):
        yield Lettered(cluster, sidecar)
