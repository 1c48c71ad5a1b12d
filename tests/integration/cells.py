"""Which client produces how, with which codec: all of it in the matrix, a share with every change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import pytest
from integration.validation.waves import CODECS, KINDS, Kind

CLIENTS = ("java", "librdkafka", "kafka-python", "aiokafka")


@dataclass(frozen=True, slots=True)
class Cell:
    client: str
    kind: Kind
    codec: str

    @property
    def is_core(self) -> bool:
        """Whether every change is tested with it: each client as each kind, with all codecs among them."""
        return CODECS.index(self.codec) == (CLIENTS.index(self.client) + KINDS.index(self.kind)) % len(CODECS)

    def __str__(self) -> str:
        return f"{self.client}-{self.kind}-{self.codec}"


CELLS = tuple(Cell(client, kind, codec) for client in CLIENTS for kind in KINDS for codec in CODECS)


class Shared(Protocol):
    @property
    def is_core(self) -> bool: ...


def parameters(cells: Iterable[Shared]) -> list[object]:
    """These for `pytest.mark.parametrize`: those of the core are run with every change, the others in the matrix."""
    return [
        pytest.param(cell, marks=pytest.mark.integration if cell.is_core else pytest.mark.matrix, id=str(cell))
        for cell in cells
    ]
