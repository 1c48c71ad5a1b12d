"""The broker of all runs, and which runs are asked for: they are begun ahead, several at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest
from harness.sidecar import COMMAND
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.together import mutations, table
from integration.together.clusters import started
from integration.together.covering import Run
from integration.together.sites import Site

PASSED = pytest.StashKey[dict[Run, bool]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[PASSED] = {}


def _run_of(item: pytest.Item) -> Run | None:
    callspec = getattr(item, "callspec", None)
    run = callspec.params.get("run") if callspec is not None else None
    return run if isinstance(run, frozenset) else None


@pytest.fixture(scope="package")
def site(
    request: pytest.FixtureRequest, java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("together")
    with started() as cluster:
        site = Site(cluster, java[NEWEST], folder, _command(folder))
        site.begin(run for item in request.session.items if (run := _run_of(item)) is not None)
        yield site
        site.stop()
        assert cluster.leaks() == []


def _command(folder: Path) -> Path:
    """The sidecar; a broken one, if one is asked for."""
    name = mutations.asked_for()
    return mutations.command(name, folder) if name else COMMAND


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and (run := _run_of(item)) is not None and "together" in item.nodeid:
        item.config.stash[PASSED][run] = report.passed
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not mutations.asked_for():
        passed: dict[Run, bool] = session.config.stash[PASSED]
        table.write(passed)
