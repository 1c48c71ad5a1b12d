"""Fixtures of all tests: the build of compiled modules and the Hypothesis profile they run with, and no Kafka."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from support.builds import PythonSources

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WITHOUT_KAFKA = ("not integration", "program")  # how the expressions of such runs begin

gc.disable()  # until all tests are collected: of what that creates nearly nothing is garbage

sources = PythonSources.wanted()
sys.meta_path.insert(0, sources)  # before any test module imports what could be compiled

# The same examples on every run: `make test-all` takes more, `make coverage` fewer, `make fuzz` new ones, and by hand
# very many can be had. Tests without Hypothesis go by the profile too: support/examples.py.
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("some", COMMON, derandomize=True, max_examples=30, database=None)
settings.register_profile("repeatable", COMMON, derandomize=True, max_examples=100, database=None)
settings.register_profile("few", COMMON, derandomize=True, max_examples=10, database=None)
settings.register_profile("fuzz", COMMON, max_examples=2_000, print_blob=True)
settings.register_profile("thorough", COMMON, max_examples=20_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "some"))


def pytest_report_header() -> str:
    return f"not compiled in this run: {', '.join(sorted(sources.modules)) or 'nothing that could be'}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The unit tests do not even import the client libraries; `make browser` alone installs what drives a browser."""
    expression = config.getoption("markexpr")
    if collection_path.name == "integration" and expression.startswith(WITHOUT_KAFKA):
        return True
    if collection_path.name == "browser" and expression != "browser":
        return True
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where few examples are taken, those of parametrised tests are few as well."""
    from support.examples import TAKES_FEW, few_of_each  # the profile above decides

    if TAKES_FEW:
        taken = few_of_each(item.nodeid for item in items)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in taken])
        items[:] = [item for item in items if item.nodeid in taken]


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After each file, take what lives on out of sight of the collector.

    Thousands of collected tests and imported modules stay to the end, and many tests collect garbage.
    """
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The only one of a run: Playwright does not start twice in a thread."""
    from browser.chromium import chromium

    with chromium() as opened:
        yield opened
