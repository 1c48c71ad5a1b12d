"""Fixtures of all tests, what keeps the unit tests free of Kafka, and which build of compiled modules they run on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from builds import PythonSources

WITHOUT_KAFKA = ("not integration", "program")  # how the expressions of such runs begin

sources = PythonSources.wanted()
sys.meta_path.insert(0, sources)  # before any test module imports what could be compiled


def pytest_report_header() -> str:
    return f"not compiled in this run: {', '.join(sorted(sources.modules)) or 'nothing that could be'}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The unit tests do not even import the client libraries."""
    if collection_path.name == "integration" and config.getoption("markexpr").startswith(WITHOUT_KAFKA):
        return True
    return None
