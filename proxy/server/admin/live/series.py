"""What metrics have counted, of one process or several: rates of the last second, quantiles of the last ten.

Most series stand still, so work is done for those alone that move: others keep the row that they have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from kafka_sidecar.proxy.server.admin.live.sample import TOPIC
from kafka_sidecar.proxy.telemetry.metrics import PREFIX

WINDOW_S = 10.0  # over which quantiles are computed: in one second there are few slow requests
MAX_SERIES_SHOWN, MAX_TOPICS_SHOWN = 50, 500  # of one metric; of one that is counted by topic

Labels = tuple[str, ...]
Metric = tuple[str, str]  # group and name
Combine = Callable[[Iterable[float]], float]
Row = dict[str, Any]
NO_COUNTS: Mapping[int, int] = {}
NOTHING: Mapping[str, Any] = {"counts": (), "total_s": 0.0}  # of a histogram that begins


class Series(NamedTuple):
    """One series of one process, now. Of a histogram ``value`` is the number of all that it has counted."""

    value: float
    rate: float | None = None  # a second
    counts: Mapping[int, int] = NO_COUNTS  # of a histogram, in the window, by bits
    total_s: float = 0.0  # of these


class Moment(NamedTuple):
    """When a sample was taken, and how long after the one before it (seconds)."""

    at: float
    elapsed_s: float | None = None  # None: it is the first one


class Window:
    """What a histogram has counted lately."""

    def __init__(self, at: float, value: Mapping[str, Any]) -> None:
        self._values = deque([(at, value)])  # from which time on it had which value

    def add(self, moment: Moment, value: Mapping[str, Any]) -> Series:
        """``value``: that of this moment."""
        values, before = self._values, self._values[-1][1]
        if value != before:
            values.append((moment.at, value))
        while len(values) > 1 and values[1][0] <= moment.at - WINDOW_S:
            values.popleft()
        first, number = values[0][1], _number(value)
        rate = max(0, number - _number(before)) / moment.elapsed_s if moment.elapsed_s is not None else None
        if len(values) == 1:
            return Series(number, rate)
        at_first = dict(first["counts"])
        counts = {bits: more for bits, n in value["counts"] if (more := n - at_first.get(bits, 0)) > 0}
        return Series(number, rate, counts, max(0.0, value["total_s"] - first["total_s"]))


def _number(value: Mapping[str, Any]) -> int:
    return sum(count for _, count in value["counts"])


class Counted:
    """One metric of one process: its series."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._samples: Sequence[Any] = ()
        self._values: dict[Labels, Any] = {}
        self._moving: set[Labels] = set()  # what changes next time, though its value does not
        self._windows: dict[Labels, Window] = {}
        self.series: dict[Labels, Series] = {}

    def update(self, moment: Moment, samples: Sequence[Any]) -> set[Labels]:
        """Those that are others now. ``samples``: values of labels with the value, as of a `Sample`."""
        if samples == self._samples and not self._moving:
            return set()
        self._samples = samples
        values = {tuple(of): value for of, value in samples}
        known, moving = self._values, self._moving
        changed = {of for of, value in values.items() if of not in known or known[of] != value} | moving
        for of in [] if known.keys() <= values.keys() else known.keys() - values.keys():
            del self.series[of]
            self._windows.pop(of, None)
            changed.add(of)
        make = self._in_window if self._kind == "histogram" else self._counted
        elapsed_s, can_move = moment.elapsed_s, self._kind != "gauge"
        self._moving = set()
        for of in changed & values.keys():
            one = self.series[of] = make(moment, of, values[of])
            if can_move and (one.rate or one.counts or elapsed_s is None):
                self._moving.add(of)
        self._values = values
        return changed

    def _counted(self, moment: Moment, of: Labels, value: float) -> Series:
        if moment.elapsed_s is None or self._kind == "gauge":
            return Series(value)
        # Nothing that counts goes down: what has is another thing's count.
        return Series(value, max(0.0, value - self._values.get(of, 0.0)) / moment.elapsed_s)

    def _in_window(self, moment: Moment, of: Labels, value: Mapping[str, Any]) -> Series:
        window = self._windows.get(of)
        if window is None:  # a series that is new has begun at zero
            began = (moment.at, value) if moment.elapsed_s is None else (moment.at - moment.elapsed_s, NOTHING)
            window = self._windows[of] = Window(*began)
        return window.add(moment, value)


@dataclass(slots=True)
class Found:
    """One metric in the samples of all processes."""

    family: Mapping[str, Any]
    parts: list[Counted]
    changed: set[Labels]
    left: int  # series that the samples do not have

    def add(self, family: Mapping[str, Any], part: Counted, changed: set[Labels]) -> None:
        self.parts.append(part)
        self.changed |= changed
        self.left += family["left"]

    def parts_of(self, of: Labels) -> list[Series]:
        """A series of each process that has it."""
        return [one.series[of] for one in self.parts if of in one.series]


class Table:
    """One metric of all processes: its rows, those that change fastest first."""

    def __init__(self, family: Mapping[str, Any], combine: Combine) -> None:
        """``family``: as of a `Sample`; ``combine``: how values of several processes become one."""
        self._about = {key: family[key] for key in ("name", "kind", "about", "labels")}
        self._shown = MAX_TOPICS_SHOWN if TOPIC in family["labels"] else MAX_SERIES_SHOWN
        self._combine = combine
        self._numbers: dict[Labels, int] = {}  # in the order in which they came
        self._next = count()
        self._order: list[tuple[float, float, int, Labels]] = []  # by what sorts them
        self._rows: dict[Labels, Row] = {}  # of those that are shown
        self._left = 0
        self.value: dict[str, Any] = {}

    def update(self, found: Found) -> dict[str, Any]:
        """The metric with its rows."""
        changed, left = found.changed, found.left
        if not changed and left == self._left and self.value:
            return self.value
        order = [one for one in self._order if one[3] not in changed]
        for of in changed:
            if parts := found.parts_of(of):
                if of not in self._numbers:
                    self._numbers[of] = next(self._next)
                order.append((-(_rate(parts) or 0.0), -self._value(parts), self._numbers[of], of))
            else:
                self._numbers.pop(of, None)
        order.sort()  # most of it is sorted
        shown = [of for *_, of in order[: self._shown]]
        known = self._rows
        self._rows = {
            of: known[of] if of in known and of not in changed else self._row(of, found.parts_of(of)) for of in shown
        }
        self._order, self._left = order, left
        rows, not_shown = list(self._rows.values()), len(order) - len(shown) + left
        self.value = {**self._about, "rows": rows, "not_shown": not_shown}
        return self.value

    def _value(self, parts: Sequence[Series]) -> float:
        return self._combine([one.value for one in parts]) if len(parts) > 1 else parts[0].value

    def _row(self, of: Labels, parts: Sequence[Series]) -> Row:
        row: Row = {"of": list(of), "value": self._value(parts), "rate": rounded(_rate(parts))}
        if self._about["kind"] == "histogram":
            counts = added(one.counts for one in parts)
            number = sum(counts.values())
            row["p50_s"] = quantile(counts, 0.5)
            row["p99_s"] = quantile(counts, 0.99)
            row["mean_s"] = sum(one.total_s for one in parts) / number if number else None
        return row


def _rate(parts: Sequence[Series]) -> float | None:
    """Of all processes together."""
    if len(parts) == 1:
        return parts[0].rate
    rates = [one.rate for one in parts if one.rate is not None]
    return sum(rates) if rates else None


class Process:
    """The metrics of one process, and when they were sampled."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.metrics: dict[Metric, Counted] = {}
        self.moment = Moment(0.0)
        self.cpu_s: float | None = None  # in the interval; None: there is none yet
        self._cpu_s = 0.0
        self._has_begun = False

    @property
    def interval_s(self) -> float | None:
        """Since the sample before; None: there is none."""
        return self.moment.elapsed_s

    def series(self, group: str, name: str) -> list[Series]:
        """Those of a metric, if it has it."""
        counted = self.metrics.get((group, name))
        return list(counted.series.values()) if counted is not None else []

    def update(self, sample: Mapping[str, Any]) -> Iterator[tuple[Metric, Mapping[str, Any], Counted, set[Labels]]]:
        """Each metric with its series, and those of them that are others now."""
        used_s = sample["process"]["cpu_s"]
        at = sample["at"]
        self.moment = Moment(at, max(at - self.moment.at, 1e-3) if self._has_begun else None)
        self.cpu_s, self._cpu_s = (used_s - self._cpu_s if self._has_begun else None), used_s
        self._has_begun = True
        known, self.metrics = self.metrics, {}
        for group, families in sample["metrics"].items():
            for family in families:
                metric = group, family["name"]
                counted = self.metrics[metric] = known.get(metric) or Counted(family["kind"])
                yield metric, family, counted, counted.update(self.moment, family["samples"])


class Tables:
    """The metrics of all processes as one value."""

    def __init__(self, not_sums: Mapping[str, Combine] | None = None) -> None:
        """``not_sums``: how gauges of several processes are combined whose sum means nothing, by their full names."""
        self._not_sums = not_sums or {}
        self._tables: dict[Metric, Table] = {}
        self.processes: dict[int, Process] = {}

    def update(self, samples: Mapping[int, Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        """By group: each metric with its rows. ``samples``: by number of the worker."""
        known = self.processes
        self.processes = {
            number: known[number]
            if number in known and known[number].pid == sample["process"]["pid"]
            else Process(sample["process"]["pid"])
            for number, sample in samples.items()
        }
        if any(self.processes.get(number) is not one for number, one in known.items()):
            self._tables = {}  # what a process had counted has gone with it
        found: dict[Metric, Found] = {}
        for number, sample in samples.items():
            for metric, family, part, changed in self.processes[number].update(sample):
                if metric in found:
                    found[metric].add(family, part, changed)
                else:
                    found[metric] = Found(family, [part], changed, family["left"])
        self._tables = {metric: self._tables.get(metric) or self._begun(one) for metric, one in found.items()}
        groups: dict[str, list[dict[str, Any]]] = {}
        for metric, table in self._tables.items():
            groups.setdefault(metric[0], []).append(table.update(found[metric]))
        return groups

    def _begun(self, found: Found) -> Table:
        """A table that has no rows yet, so that all series are others."""
        for one in found.parts:
            found.changed |= one.series.keys()
        return Table(found.family, self._combine(found.family))

    def _combine(self, family: Mapping[str, Any]) -> Combine:
        return self._not_sums.get(PREFIX + family["name"], sum) if family["kind"] == "gauge" else sum


def added(counts: Iterable[Mapping[int, int]]) -> Mapping[int, int]:
    """The counts of several processes."""
    first, *others = counts
    if not others:
        return first
    total = dict(first)
    for one in others:
        for bits, number in one.items():
            total[bits] = total.get(bits, 0) + number
    return total


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


def rounded(rate: float | None) -> float | None:
    """A rate as it is shown."""
    return round(rate, 3) if rate is not None else None
