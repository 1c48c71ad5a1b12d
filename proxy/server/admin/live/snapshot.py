"""Samples of one process or of several, as one value: sums, rates, quantiles, and each process beside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from kafka_sidecar.proxy.server.admin.live.sample import ENGINE, MAX_ROWS, Sample
from kafka_sidecar.proxy.server.admin.live.series import Combine, Process, Tables, quantile, rounded
from kafka_sidecar.proxy.server.admin.live.troubles import troubles
from kafka_sidecar.proxy.telemetry.logs import timestamp

MAX_REJECTIONS = 100
LARGEST = frozenset({"generation", "topics_known", "oldest_seconds"})  # of these a sum of workers says nothing


class Histories:
    """The last samples of each process, from which the next snapshot gets its rates."""

    def __init__(self, not_sums: Mapping[str, Combine] | None = None) -> None:
        """``not_sums``: as of `Tables`."""
        self._tables = Tables(not_sums)

    def snapshot(self, samples: Mapping[int, Sample]) -> dict[str, Any]:
        """One value of the samples of this moment, by number of the worker; 0: there are no workers."""
        metrics = self._tables.update(samples)
        processes = self._tables.processes
        intervals = [one.interval_s for one in processes.values() if one.interval_s is not None]
        numbered = {number: sample for number, sample in samples.items() if "sidecar" in sample}
        snapshot = {
            "timestamp": timestamp(time.time()),
            "interval_s": round(intervals[-1], 3) if intervals else None,
            "workers": [_worker(number, sample, processes[number]) for number, sample in samples.items()],
            "sidecar": merged({number: one["sidecar"] for number, one in numbered.items()}),
            "features": merged({number: one["features"] for number, one in numbered.items()}),
            "metrics": metrics,
        }
        return {**snapshot, "troubles": troubles(snapshot), **joined(samples)}


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


def _worker(number: int, sample: Sample, process: Process) -> dict[str, Any]:
    """One row: how a process is."""
    of, elapsed_s = sample["process"], process.interval_s
    delay = process.series(ENGINE, "event_loop_delay_seconds")
    return {
        "worker": number or None,
        **{key: of[key] for key in ("pid", "version", "python", "build", "memory_bytes", "uptime_s")},
        "cpu": round(process.cpu_s / elapsed_s, 3) if elapsed_s and process.cpu_s is not None else None,
        "ready": sample["sidecar"]["ready"] if "sidecar" in sample else None,
        "connections": sample["sidecar"]["connections"]["open"] if "sidecar" in sample else None,
        "requests_per_s": _rate_of(process, "client_to_proxy_request"),
        "bytes_per_s": _rate_of(process, "client_to_proxy_request_size_bytes", "proxy_to_client_response_size_bytes"),
        "event_loop_delay_p99_s": quantile(delay[0].counts, 0.99) if delay else None,
    }


def _rate_of(process: Process, *names: str) -> float | None:
    rates = [one.rate for name in names for one in process.series(ENGINE, name) if one.rate is not None]
    return rounded(sum(rates)) if rates else None


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


def joined(samples: Mapping[int, Sample]) -> dict[str, Any]:
    """What readers ask for beside the rest, where samples have it."""
    return {
        part: join({number: one[part] for number, one in samples.items() if part in one})
        for part, join in JOINED.items()
        if any(part in one for one in samples.values())
    }
