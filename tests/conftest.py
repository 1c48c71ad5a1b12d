"""Fixtures of all tests, and what keeps the unit tests free of Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

UNIT = "not integration and not matrix"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The unit tests do not even import the client libraries."""
    if collection_path.name == "integration" and config.getoption("markexpr") == UNIT:
        return True
    return None
