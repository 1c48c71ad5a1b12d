"""A snapshot as it is read: metrics by name, and what differs between workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

NO_FAMILY: Mapping[str, Any] = {"rows": []}

Row = Mapping[str, Any]  # one series as a snapshot has it


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a metric."""

    of: Mapping[str, str]  # labels
    value: float
    rate: float | None
    p50_s: float | None = None
    p99_s: float | None = None


class Snapshot:
    """What `/snapshot` has. A part that is missing, as from an older sidecar, is empty."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.sidecar: Mapping[str, Any] = values.get("sidecar") or {}
        self.features: Mapping[str, Any] = values.get("features") or {}
        self.workers = [one for one in values.get("workers", ()) if one.get("ready") is not None]
        self._families = {
            family["name"]: family for families in values.get("metrics", {}).values() for family in families
        }

    @property
    def is_ready(self) -> bool:
        """Whether all workers that serve are."""
        return bool(self.workers) and all(one["ready"] for one in self.workers)

    def part(self, name: str) -> Mapping[str, Any]:
        """A part of the sidecar's state."""
        found = self.sidecar.get(name)
        return found if isinstance(found, Mapping) else {}

    def series(self, name: str, counts: Callable[[Row], bool] = lambda row: True) -> Iterator[Series]:
        """Those of a metric that count."""
        family = self._families.get(name, NO_FAMILY)
        for row in filter(counts, family["rows"]):
            of = dict(zip(family["labels"], map(str, row["of"]), strict=False))
            yield Series(of, row["value"], row["rate"], row.get("p50_s"), row.get("p99_s"))

    def has(self, name: str) -> bool:
        return name in self._families

    def total(self, name: str, of: Callable[[Series], float | None] = lambda one: one.value) -> float:
        return sum(of(one) or 0.0 for one in self.series(name))

    def rate(self, *names: str) -> float:
        """A second, of several metrics together."""
        return sum(one.rate or 0.0 for name in names for one in self.series(name))


def by_worker(value: object) -> str:
    """A value, or where workers differ that of each.

    >>> by_worker("a"), by_worker({"1": "a", "2": "b"})
    ('a', 'a (worker 1), b (worker 2)')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{one} (worker {number})" for number, one in value.items())
    return str(value)


def each(value: object) -> Iterable[object]:
    """The elements of a list, those of each worker, or the value itself."""
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else [value]
