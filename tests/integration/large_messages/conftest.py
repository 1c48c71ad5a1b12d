"""One broker and a sidecar that splits and assembles, for all tests of this folder, and the clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from harness.tool_host import ToolHost
from integration.front import Front, started
from integration.interception.readers import readers as all_readers
from integration.interception.reads import Reader
from integration.large_messages.groups import CONFIG, Groups
from integration.large_messages.stepped import clients

RULES = """
large_messages:
  topics:
    - {name: "fail-*", on_missing: fail}
    - {name: "unique-*", compacted: unique}
    - {name: "large-*"}
"""


@pytest.fixture(scope="package")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with started(tmp_path_factory.mktemp("large"), RULES) as (cluster, sidecar):
        yield Front(cluster, sidecar)


@pytest.fixture(scope="session")
def readers(java: Mapping[str, ToolHost]) -> Mapping[str, Reader]:
    """By the library's name."""
    return all_readers(java)


@pytest.fixture(scope="package")
def groups(java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Groups]:
    """A sidecar of another configuration, with consumers that do one step after the other."""
    folder = tmp_path_factory.mktemp("groups")
    with started(folder, CONFIG.replace("OBJECTS", str(folder / "objects"))) as (cluster, sidecar):
        yield Groups(cluster, sidecar, folder / "objects", java, clients(java))
