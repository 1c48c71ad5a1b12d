"""One broker and a sidecar that validates, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from integration.front import Front, started

RULES = """
topics:
  - {name: "json-*", policy: json}
"""


@pytest.fixture(scope="package")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with started(tmp_path_factory.mktemp("dead-letters"), RULES) as (cluster, sidecar):
        yield Front(cluster, sidecar)
