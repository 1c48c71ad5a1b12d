"""One broker and a sidecar that asks for habits of producers, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from integration.front import Front, started
from integration.producer_habits.asked import RULES


@pytest.fixture(scope="package")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with started(tmp_path_factory.mktemp("asking"), RULES) as (cluster, sidecar):
        yield Front(cluster, sidecar)
