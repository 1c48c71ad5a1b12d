"""Adds up the metrics of all workers, as text in Prometheus' format: a series is all of its line but the value.

Counters and histograms are sums. They keep what workers counted that have ended since: a total never goes down, or
Prometheus would take all of it for new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kafka_sidecar.proxy.telemetry.metrics import PREFIX

KEPT = frozenset({"counter", "histogram", "summary"})
# Gauges whose sum means nothing. All others are numbers or bytes of something that each worker has for itself.
NOT_SUMS: Mapping[str, Callable[[Iterable[float]], float]] = {
    PREFIX + "client_logins_last_reload_successful": min,
    PREFIX + "cluster_reached": min,
    PREFIX + "config_last_reload_successful": min,
    PREFIX + "config_last_reload_success_timestamp_seconds": min,
    PREFIX + "schema_registry_reachable": min,
    PREFIX + "tls_certificate_expiry_seconds": min,
    PREFIX + "tls_last_reload_successful": min,
    "process_start_time_seconds": min,
    PREFIX + "broker_listeners": max,  # brokers
    PREFIX + "build_info": max,
    PREFIX + "config_restart_required": max,
    PREFIX + "dead_letters_held_partitions": max,  # all workers write to the same
    PREFIX + "dead_letters_missing_topics": max,  # topics
    PREFIX + "dead_letters_oldest_seconds": max,
    PREFIX + "interceptor_disabled": max,
    PREFIX + "topic_configs_entries": max,  # topics
    PREFIX + "topic_configs_trouble": max,
}


@dataclass(slots=True)
class Family:
    """One metric. ``name``: as in its TYPE line."""

    name: str
    kind: str = "untyped"
    header: list[str] = field(default_factory=list)  # lines
    series: dict[str, float] = field(default_factory=dict)


Families = dict[str, Family]


class Totals:
    """What each worker has said last, and the sum of those that have ended."""

    def __init__(self) -> None:
        self._last: dict[int, Families] = {}
        self._ended: Families = {}

    def update(self, worker: int, text: str) -> None:
        """The metrics of a worker now."""
        self._last[worker] = parse(text)

    def ended(self, worker: int) -> None:
        """Its process has ended: what it counted stays, its gauges go."""
        counted = {name: one for name, one in self._last.pop(worker, {}).items() if one.kind in KEPT}
        self._ended = add([self._ended, counted])

    def render(self) -> str:
        lines: list[str] = []
        for family in add([*self._last.values(), self._ended]).values():
            lines += family.header
            lines += [f"{series} {value!r}" for series, value in family.series.items()]
        return "\n".join([*lines, ""])


def parse(text: str) -> Families:
    """The families of a page of metrics, in its order."""
    families: Families = {}
    family = Family("")
    for line in text.splitlines():
        if line.startswith("# "):
            _, what, name, rest = [*line.split(" ", 3), ""][:4]
            if name != family.name:
                family = families[name] = Family(name)
            family.header.append(line)
            if what == "TYPE":
                family.kind = rest
        elif line:
            series, _, value = line.rpartition(" ")
            family.series[series] = float(value)
    return families


def add(all_of: Iterable[Families]) -> Families:
    """One family of each name, with each series once."""
    merged: Families = {}
    values: dict[str, dict[str, list[float]]] = {}
    for families in all_of:
        for name, one in families.items():
            merged.setdefault(name, Family(name, one.kind, one.header))
            of_family = values.setdefault(name, {})
            for series, value in one.series.items():
                of_family.setdefault(series, []).append(value)
    for name, family in merged.items():
        combine = sum if family.kind in KEPT else NOT_SUMS.get(name, sum)
        family.series = {series: float(combine(some)) for series, some in values[name].items()}
    return merged
