"""Clusters, sidecars and JVMs of the integration tests, and what is done once all have run."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

import pytest
import yaml
from harness.cluster import Cluster
from harness.sasl import add_scram_user
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost, ToolHosts
from integration import compatibility, lent
from integration.by_cluster import ByCluster, turn_of
from integration.fronts import PLAIN
from integration.matrix import Cell
from integration.runs import Arena, Runs

PASSED = pytest.StashKey[dict[Cell, bool]]()
# kafka-python leaves the socket of a connection that did not come about to the garbage collector, which fails whatever
# test then runs. The sidecar is a process of its own here: no socket of this process is its.
LEFT_BY_CLIENTS = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[PASSED] = {}


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(LEFT_BY_CLIENTS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByCluster:
    return ByCluster(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest first, and one cluster after the other, whichever file its tests are in."""
    order: dict[object, int] = {}
    items.sort(key=lambda item: (turn_of(item.nodeid), order.setdefault(_arena_of(item), len(order))))


def _arena_of(item: pytest.Item) -> object:
    return _parameters(item).get("arena")


def _cell_of(item: pytest.Item) -> Cell | None:
    cell = _parameters(item).get("cell")
    return cell if isinstance(cell, Cell) else None


def _parameters(item: pytest.Item) -> Mapping[str, object]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params


@pytest.fixture(scope="session")
def java() -> Iterator[Mapping[str, ToolHost]]:
    """A JVM per version of the Java clients, each from when it is first called."""
    hosts = ToolHosts()
    yield hosts
    hosts.stop()


@pytest.fixture(scope="session")
def arena(
    request: pytest.FixtureRequest, java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Arena]:
    """A cluster of the version and size that the parameter names, with a sidecar that clients reach as it says."""
    version, nodes, front = request.param
    folder = tmp_path_factory.mktemp("sidecar")
    with Cluster.start(version, nodes, front.brokers(folder)) as cluster:
        if front is not PLAIN:
            add_scram_user(cluster.direct)
        config = folder / "sidecar.yaml"
        config.write_text(yaml.safe_dump(front.sidecar(folder)))
        with Sidecar.start(cluster.bootstrap, folder / "sidecar.log", ["--config", str(config)]) as sidecar:
            yield Arena(cluster, sidecar, java, front, front.client(folder))


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, arena: Arena) -> Iterator[Runs]:
    """All selected cells of the arena, begun at once."""
    here = (arena.cluster.version, len(arena.cluster.nodes), arena.front)
    cells = [cell for item in request.session.items if (cell := _cell_of(item)) is not None]
    running = Runs(arena, [cell for cell in cells if (cell.broker, cell.nodes, cell.front) == here])
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def no_leak(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test, no broker has seen anybody but the sidecar on the sidecar's listener."""
    yield
    if "arena" in request.fixturenames:
        assert request.getfixturevalue("arena").cluster.leaks() == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and (cell := _cell_of(item)) is not None:
        item.config.stash[PASSED][cell] = report.passed
    if report.failed and (arena := getattr(item, "funcargs", {}).get("arena")) is not None:
        report.sections.append(("the sidecar's log, its end", arena.sidecar.log.read_text()[-6000:]))
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    lent.stop_all()
    compatibility.write(session.config.stash[PASSED])
