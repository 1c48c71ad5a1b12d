"""Samples of one process or of several, as one value: sums, rates, quantiles, and each process beside them."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

from kafka_sidecar.proxy.server.admin.live.sample import MAX_ROWS, TOPIC, Sample
from kafka_sidecar.proxy.telemetry.logs import timestamp
from kafka_sidecar.proxy.telemetry.metrics import PREFIX

WINDOW_S = 10.0  # over which quantiles are computed: in one second there are few slow requests
MAX_SERIES_SHOWN, MAX_TOPICS_SHOWN = 50, 500  # of one metric; of one that is counted by topic
MAX_REJECTIONS = 100
LARGEST = frozenset({"generation", "topics_known"})  # of these each worker has the same, or nearly

Labels = tuple[str, ...]
Combine = Callable[[Iterable[float]], float]
Key = tuple[str, str, Labels]  # group, metric, values of its labels


@dataclass(slots=True)
class Series:
    """One series, added up. Of a histogram ``value`` is the number of all that it has counted."""

    values: list[float] = field(default_factory=list)  # of each process
    rate: float | None = None  # a second
    counts: Counter[int] = field(default_factory=Counter)  # of a histogram, in the window, by bits
    total_s: float = 0.0  # of these


class Histories:
    """The last samples of each process, from which the next snapshot gets its rates."""

    def __init__(self, not_sums: Mapping[str, Combine] | None = None) -> None:
        """``not_sums``: how gauges of several processes are combined whose sum means nothing, by their full names."""
        self._not_sums = not_sums or {}
        self._last: dict[int, deque[Sample]] = {}

    def snapshot(self, samples: Mapping[int, Sample]) -> dict[str, Any]:
        """One value of the samples of this moment, by number of the worker; 0: there are no workers."""
        series: dict[Key, Series] = defaultdict(Series)
        about: dict[tuple[str, str], dict[str, Any]] = {}
        workers = []
        interval_s = None
        self._last = {number: self._last.get(number, deque()) for number in samples}
        for number, sample in samples.items():
            last = self._last[number]
            if last and last[-1]["process"]["pid"] != sample["process"]["pid"]:
                last.clear()  # it was started again
            while len(last) > 1 and sample["at"] - last[0]["at"] > WINDOW_S:
                last.popleft()
            interval_s = sample["at"] - last[-1]["at"] if last else interval_s
            values = dict(_values(sample))
            own = dict(_series(sample["at"], values, last))
            for key, one in own.items():
                _add(series[key], one)
            about |= {(group, one["name"]): one for group, all_of in sample["metrics"].items() for one in all_of}
            workers.append(_worker(number, sample, last, own))
            last.append({"at": sample["at"], "process": sample["process"], "values": values})
        numbered = {number: sample for number, sample in samples.items() if "sidecar" in sample}
        return {
            "timestamp": timestamp(time.time()),
            "interval_s": round(interval_s, 3) if interval_s is not None else None,
            "workers": workers,
            "sidecar": merged({number: one["sidecar"] for number, one in numbered.items()}),
            "features": merged({number: one["features"] for number, one in numbered.items()}),
            "metrics": self._metrics(series, about),
            **{
                part: join({number: one[part] for number, one in samples.items() if part in one})
                for part, join in JOINED.items()
                if any(part in one for one in samples.values())
            },
        }

    def _metrics(
        self, series: Mapping[Key, Series], about: Mapping[tuple[str, str], dict[str, Any]]
    ) -> dict[str, list[dict[str, Any]]]:
        """By group: each metric with its series, those that change fastest first."""
        by_metric: dict[tuple[str, str], list[dict[str, Any]]] = {key: [] for key in about}
        for (group, name, of), one in series.items():
            by_metric[group, name].append(self._row(about[group, name]["kind"], name, of, one))
        groups: dict[str, list[dict[str, Any]]] = {}
        for (group, name), rows in by_metric.items():
            family = about[group, name]
            rows.sort(key=lambda row: (row["rate"] or 0.0, row["value"]), reverse=True)
            shown = MAX_TOPICS_SHOWN if TOPIC in family["labels"] else MAX_SERIES_SHOWN
            groups.setdefault(group, []).append(
                {
                    **{key: family[key] for key in ("name", "kind", "about", "labels")},
                    "rows": rows[:shown],
                    "not_shown": max(0, len(rows) - shown) + family["left"],
                }
            )
        return groups

    def _row(self, kind: str, name: str, of: Labels, one: Series) -> dict[str, Any]:
        combine = self._not_sums.get(PREFIX + name, sum) if kind == "gauge" else sum
        row = {"of": list(of), "value": combine(one.values), "rate": _rounded(one.rate)}
        if kind == "histogram":
            number = one.counts.total()
            row |= {
                "p50_s": quantile(one.counts, 0.5),
                "p99_s": quantile(one.counts, 0.99),
                "mean_s": one.total_s / number if number else None,
            }
        return row


def quantile(counts: Mapping[int, int], share: float) -> float | None:
    """Seconds, from counts by the bits of microseconds: estimated between two powers of two. None: there are none.

    >>> quantile({}, 0.5), quantile({0: 4}, 0.5), round(quantile({10: 8}, 0.5) * 1e6)
    (None, 0.0, 724)
    """
    left = share * sum(counts.values())
    if not left:
        return None
    for bits in sorted(counts):
        if left <= counts[bits]:
            low = 2.0 ** (bits - 1) if bits else 0.0
            return float(low * 2.0 ** (left / counts[bits]) / 1e6)
        left -= counts[bits]
    return None


def merged(of: Mapping[int, Any]) -> Any:
    """One value of the same value of several processes: numbers are added, rows of lists joined, what differs is shown
    by worker.

    >>> merged({1: {"open": 2, "hash": "a", "nodes": [{"port": 1}]}, 2: {"open": 3, "hash": "b", "nodes": []}})
    {'open': 5, 'hash': {'1': 'a', '2': 'b'}, 'nodes': [{'port': 1, 'worker': 1}]}
    """
    values = list(of.values())
    if len(values) == 1 and 0 in of:
        return values[0]
    if all(isinstance(one, dict) for one in values):
        keys = dict.fromkeys(chain.from_iterable(values))
        parts = {key: {number: one[key] for number, one in of.items() if key in one} for key in keys}
        return {key: max(part.values()) if key in LARGEST else merged(part) for key, part in parts.items()}
    if all(isinstance(one, list) for one in values):
        return list(_joined(of))[:MAX_ROWS]
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in values):
        return sum(values)
    if all(one == values[0] for one in values):
        return values[0]
    return {str(number): one for number, one in of.items()}


def _joined(of: Mapping[int, Sequence[Any]]) -> Iterator[Any]:
    seen = set()
    for number, rows in of.items():
        for row in rows:
            if isinstance(row, dict):
                yield {**row, "worker": number} if number else row
            elif str(row) not in seen:
                seen.add(str(row))
                yield row


def _series(at: float, values: Mapping[tuple[Key, str], Any], last: Sequence[Sample]) -> Iterator[tuple[Key, Series]]:
    """Those of one process. Nothing that counts goes down, so what has is another process' count."""
    before = last[-1]["values"] if last else {}
    first = last[0]["values"] if last else {}
    elapsed_s = max(at - last[-1]["at"], 1e-3) if last else None
    for (key, kind), value in values.items():
        if kind == "histogram":
            yield key, _histogram(value, before.get((key, kind)), first.get((key, kind)), elapsed_s)
        else:
            counted = max(0.0, value - before.get((key, kind), 0.0))
            yield key, Series([value], counted / elapsed_s if elapsed_s and kind == "counter" else None)


def _histogram(value: Mapping[str, Any], before: Any, first: Any, elapsed_s: float | None) -> Series:
    """``before``: what it was in the sample before; ``first``: where the window begins; None: there was none."""
    counts = _counts(value)
    if elapsed_s is None:
        return Series([counts.total()])
    rate = (counts.total() - _counts(before).total()) / elapsed_s
    total_s = value["total_s"] - (first["total_s"] if first is not None else 0.0)
    return Series([counts.total()], max(0.0, rate), counts - _counts(first), max(0.0, total_s))


def _counts(value: Mapping[str, Any] | None) -> Counter[int]:
    return Counter(dict(value["counts"])) if value is not None else Counter()


def _values(sample: Sample) -> Iterator[tuple[tuple[Key, str], Any]]:
    for group, families in sample["metrics"].items():
        for family in families:
            for of, value in family["samples"]:
                yield ((group, family["name"], tuple(of)), family["kind"]), value


def _add(to: Series, one: Series) -> None:
    to.values += one.values
    to.counts += one.counts
    to.total_s += one.total_s
    if one.rate is not None:
        to.rate = (to.rate or 0.0) + one.rate


def _worker(number: int, sample: Sample, last: Sequence[Sample], own: Mapping[Key, Series]) -> dict[str, Any]:
    """One row: how a process is."""
    process, elapsed_s = sample["process"], sample["at"] - last[-1]["at"] if last else 0.0
    delays = [one for (_, name, _), one in own.items() if name == "event_loop_delay_seconds"]
    cpu_s = process["cpu_s"] - last[-1]["process"]["cpu_s"] if last else 0.0
    return {
        "worker": number or None,
        **{key: process[key] for key in ("pid", "version", "python", "build", "memory_bytes", "uptime_s")},
        "cpu": round(cpu_s / elapsed_s, 3) if elapsed_s else None,
        "ready": sample["sidecar"]["ready"] if "sidecar" in sample else None,
        "connections": sample["sidecar"]["connections"]["open"] if "sidecar" in sample else None,
        "requests_per_s": _rate_of(own, "client_to_proxy_request"),
        "bytes_per_s": _rate_of(own, "client_to_proxy_request_size_bytes", "proxy_to_client_response_size_bytes"),
        "event_loop_delay_p99_s": quantile(delays[0].counts, 0.99) if delays else None,
    }


def _rate_of(own: Mapping[Key, Series], *names: str) -> float | None:
    rates = [one.rate for (_, name, _), one in own.items() if name in names and one.rate is not None]
    return _rounded(sum(rates)) if rates else None


def _rounded(rate: float | None) -> float | None:
    return round(rate, 3) if rate is not None else None


# What a reader asks for beside the rest, of several processes.


def _topics(of: Mapping[int, Any]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for topics in of.values():
        for row in topics["rows"]:
            rows.setdefault(row["topic"], row)
    return {"known": max(one["known"] for one in of.values()), "rows": list(rows.values())[:MAX_ROWS]}


def _connections(of: Mapping[int, Any]) -> dict[str, Any]:
    rows = list(_joined({number: one["rows"] for number, one in of.items()}))
    rows.sort(key=lambda row: (not row["pauses"], -(row["oldest_s"] or 0.0)))
    closed = list(_joined({number: one["closed"] for number, one in of.items()}))
    closed.sort(key=itemgetter("ended"), reverse=True)
    return {"open": sum(one["open"] for one in of.values()), "rows": rows[:MAX_ROWS], "closed": closed[:MAX_ROWS]}


def _rejections(of: Mapping[int, Any]) -> list[Any]:
    rows = list(_joined(of))
    rows.sort(key=itemgetter("timestamp"), reverse=True)
    return rows[:MAX_REJECTIONS]


JOINED: Mapping[str, Callable[[Mapping[int, Any]], Any]] = {
    "topics": _topics,
    "connections": _connections,
    "rejections": _rejections,
}
