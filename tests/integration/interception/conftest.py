"""One broker and a sidecar that intercepts, for all tests of this folder, and the clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.interception.intercepted import RULES, Intercepted, rules
from integration.interception.readers import readers as all_readers
from integration.interception.reads import Reader
from integration.validation import producers as validated
from integration.validation.waves import Client

# A test has no time to wait until the cleaner looks again.
QUICK_CLEANER = {"log.cleaner.backoff.ms": 200}


@pytest.fixture(scope="package")
def intercepted(java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Intercepted]:
    folder = tmp_path_factory.mktemp("intercepted")
    config, events = folder / "sidecar.yaml", folder / "events"
    config.write_text(rules(RULES, events))
    with (
        Cluster.start(NEWEST, 1, QUICK_CLEANER) as cluster,
        Sidecar.start(cluster.bootstrap, folder / "sidecar.log", ["--config", str(config)]) as sidecar,
    ):
        yield Intercepted(cluster, sidecar, java, events)
        assert cluster.leaks() == []


@pytest.fixture(scope="session")
def producers(java: Mapping[str, ToolHost]) -> Mapping[str, Client]:
    """By the library's name."""
    return validated.clients(java)


@pytest.fixture(scope="session")
def readers(java: Mapping[str, ToolHost]) -> Mapping[str, Reader]:
    """By the library's name."""
    return all_readers(java)
