"""Whatever a client can do with a broker directly, it can do through the sidecar: every cell of the matrix."""

from __future__ import annotations

import pytest
from integration.matrix import CELLS, Cell
from integration.runs import Runs


def _parameter(cell: Cell) -> object:
    mark = pytest.mark.integration if cell.is_core else pytest.mark.matrix
    return pytest.param((cell.broker, cell.nodes, cell.front), cell, marks=mark, id=str(cell))


@pytest.mark.parametrize(("arena", "cell"), [_parameter(cell) for cell in CELLS], indirect=["arena"], scope="session")
def test_what_passes_directly_passes_through_the_sidecar(runs: Runs, cell: Cell) -> None:
    runs.outcome(cell)
