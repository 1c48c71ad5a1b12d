"""The longest turn of an attacked sidecar's event loop, as what runs `inside` it notes it."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import nan
from pathlib import Path

from hostile.inside.sitecustomize import PAGE

INSIDE = Path(__file__).with_name("inside")


@dataclass(frozen=True, slots=True)
class Longest:
    """The longest turn, in milliseconds."""

    wall: float
    alone: float  # without the time in which its thread waited for a core
    cpu: float

    def __str__(self) -> str:
        return f"longest turn {self.wall:.0f} ms, without waits for a core {self.alone:.0f}, of CPU {self.cpu:.0f}"


class Turns:
    """What a sidecar notes that is started while this is open."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page

    def begin(self) -> None:
        """Note turns from now on."""
        self._page[: PAGE.size] = bytes(PAGE.size)

    def longest(self) -> Longest:
        return Longest(*(seconds * 1e3 for seconds in PAGE.unpack(self._page[: PAGE.size])))


@contextmanager
def noted(folder: Path, stacks_ms: float = 0) -> Iterator[Turns]:
    """Programs that are started now note their turns; ``stacks_ms``: of CPU, a longer one is logged with its stacks."""
    path = folder / "turns"
    path.write_bytes(PAGE.pack(nan, nan, nan))
    more = {"PYTHONPATH": str(INSIDE), "HOSTILE_TURNS": str(path), "HOSTILE_STACKS_S": str(stacks_ms / 1e3)}
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), PAGE.size) as page:
            yield Turns(page)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
