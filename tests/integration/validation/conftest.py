"""One broker and a sidecar that validates, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from integration.front import started
from integration.validation.guarded import RULES, Guarded


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with started(tmp_path_factory.mktemp("guarded"), RULES) as (cluster, sidecar):
        yield Guarded(cluster, sidecar)
