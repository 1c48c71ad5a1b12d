"""One broker and a sidecar that validates, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.validation.guarded import RULES, Guarded


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    rules = folder / "sidecar.yaml"
    rules.write_text(RULES)
    with (
        Cluster.start(NEWEST) as cluster,
        Sidecar.start(cluster.bootstrap, folder / "sidecar.log", ["--config", str(rules)]) as sidecar,
    ):
        yield Guarded(cluster, sidecar)
        assert cluster.leaks() == []
