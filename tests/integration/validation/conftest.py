"""Brokers and sidecars that validate what is produced, or what is consumed, and the clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from harness.tool_host import ToolHost
from integration.front import started
from integration.interception.intercepted import Intercepted
from integration.interception.readers import readers as all_readers
from integration.interception.reads import Reader
from integration.validation.checked import rules
from integration.validation.guarded import RULES, Guarded


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with started(tmp_path_factory.mktemp("guarded"), RULES) as (cluster, sidecar):
        yield Guarded(cluster, sidecar)


@pytest.fixture(scope="package")
def down(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file is there, what a policy asks does not answer."""
    return tmp_path_factory.mktemp("down") / "is-down"


@pytest.fixture(scope="package")
def checked(
    java: Mapping[str, ToolHost], down: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Intercepted]:
    with started(tmp_path_factory.mktemp("checked"), rules(down)) as (cluster, sidecar):
        yield Intercepted(cluster, sidecar, java)


@pytest.fixture(scope="session")
def readers(java: Mapping[str, ToolHost]) -> Mapping[str, Reader]:
    """By the library's name."""
    return all_readers(java)
