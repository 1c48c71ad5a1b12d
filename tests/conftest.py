"""Fixtures of all tests: the build of compiled modules and the Hypothesis profile they run with, and no Kafka."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.builds import PythonSources

WITHOUT_KAFKA = ("not integration", "program")  # how the expressions of such runs begin

sources = PythonSources.wanted()
sys.meta_path.insert(0, sources)  # before any test module imports what could be compiled

# The same few examples on every run, or `HYPOTHESIS_PROFILE=thorough` for many new ones.
settings.register_profile(
    "repeatable",
    derandomize=True,
    max_examples=200,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", max_examples=20_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_report_header() -> str:
    return f"not compiled in this run: {', '.join(sorted(sources.modules)) or 'nothing that could be'}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The unit tests do not even import the client libraries."""
    if collection_path.name == "integration" and config.getoption("markexpr").startswith(WITHOUT_KAFKA):
        return True
    return None


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay as long as the run: a garbage collection must not visit them each time."""
    gc.collect()
    gc.freeze()
