"""Runs the cells of one cluster, several at a time: most of what a client does is to wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from integration.fronts import Front
from integration.matrix import Cell
from integration.scenarios.security import Security
from integration.scenarios.target import Target

WORKERS = 4


@dataclass(frozen=True, slots=True)
class Arena:
    """A cluster with a sidecar in front."""

    cluster: Cluster
    sidecar: Sidecar
    java: Mapping[str, ToolHost]
    front: Front
    security: Security  # of clients at the sidecar

    def direct(self, prefix: str) -> Target:
        return Target(self.cluster.direct, prefix, len(self.cluster.nodes), self.java)

    def through(self, prefix: str) -> Target:
        return Target(self.sidecar.bootstrap, prefix, len(self.cluster.nodes), self.java, self.security)


class Runs:
    """The outcomes of the cells of one arena, in the making."""

    def __init__(self, arena: Arena, cells: Sequence[Cell]) -> None:
        self._arena = arena
        # The core is run with every change: there a direct run is for what fails.
        self._directly_first = not all(cell.is_core for cell in cells)
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="cell")
        self._outcomes: dict[Cell, Future[None]] = {
            cell: self._pool.submit(self._run, number, cell) for number, cell in enumerate(cells)
        }

    def outcome(self, cell: Cell) -> None:
        """Returns when the cell has passed; raises what went wrong in it."""
        self._outcomes[cell].result(300)

    def _run(self, number: int, cell: Cell) -> None:
        if cell.reason is not None:
            self._must_fail(cell, self._arena.direct(f"direct-{number}"))
            return
        if self._directly_first:
            self._must_pass_directly(number, cell)
        try:
            cell.scenario.run(self._arena.through(f"sidecar-{number}"))
        except Exception:
            if not self._directly_first:
                self._must_pass_directly(number, cell)
            raise

    def _must_pass_directly(self, number: int, cell: Cell) -> None:
        try:
            cell.scenario.run(self._arena.direct(f"direct-{number}"))
        except Exception:  # noqa: BLE001 - a tool or a busy broker without a sidecar, which is not what is tested
            cell.scenario.run(self._arena.direct(f"again-{number}"))

    def _must_fail(self, cell: Cell, direct: Target) -> None:
        try:
            cell.scenario.run(direct)
        except Exception:  # noqa: BLE001 every client says in its own way that it cannot
            return
        raise AssertionError(f"works directly after all; it was said that {cell.reason}")

    def stop(self) -> None:
        self._pool.shutdown(cancel_futures=True)
