"""What one run of the bench has found, as a file from which the page is written again at any time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pricing import model
from pricing.memory_figures import Memory

FILE: Final = Path(__file__).parents[1] / "sizing.json"
QUIET: Final = 0.1  # of a core, at most taken by other programs


@dataclass(frozen=True, slots=True)
class Checked:
    """A run, and what the formula says of it; CPU in microseconds."""

    title: str
    measured_us: float
    predicted_us: float
    spread: float  # (largest - smallest) / median of the repetitions

    @property
    def error(self) -> float:
        return self.predicted_us / self.measured_us - 1


@dataclass(frozen=True, slots=True)
class Results:
    """All of it. Prices are in microseconds of CPU."""

    about: str
    others: float  # CPU of other programs, of a core
    is_quick: bool
    prices: model.Prices
    connection_us: dict[str, float]  # of a new connection, by TLS
    memory: Memory
    fitted: tuple[Checked, ...]
    held_out: tuple[Checked, ...]

    @property
    def is_provisional(self) -> bool:
        return self.is_quick or self.others > QUIET

    @property
    def margin(self) -> float:
        """What runs that nothing was fitted to took of CPU, at most, for each that the formula says; at least 1."""
        return max(1.0, *(one.measured_us / one.predicted_us for one in self.held_out))

    def write(self, path: Path = FILE) -> None:
        found = {**asdict(self), "prices": [[step, unit, price] for (step, unit), price in self.prices.items()]}
        path.write_text(json.dumps(found, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path = FILE) -> Results:
        found: dict[str, Any] = json.loads(path.read_text())
        found["prices"] = {(step, unit): price for step, unit, price in found["prices"]}
        found["memory"] = Memory(**found["memory"])
        for name in ("fitted", "held_out"):
            found[name] = tuple(Checked(**one) for one in found[name])
        return cls(**found)


def check(prices: model.Prices, observations: Sequence[model.Observation], idle_us: float = 0.0) -> tuple[Checked, ...]:
    return tuple(
        Checked(one.title, one.cpu_us, model.cpu_us(prices, *one.traffics) + idle_us, one.spread)
        for one in observations
    )
