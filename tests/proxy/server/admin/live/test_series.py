"""Only series that move are computed again: with the same result as computing all of them each time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_sidecar.proxy.server.admin.live.series import WINDOW_S, Tables, quantile, rounded

NAMES = ("a", "b", "c")
Taken = dict[str, Any]  # values by name, as one process has them
COUNTS = st.dictionaries(st.integers(0, 3), st.integers(1, 4), max_size=2)
# What happens in a process from one sample to the next: what is counted, which gauges there are, what is measured.
STEPS = st.fixed_dictionaries({
    "counted": st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3), max_size=2),
    "gauges": st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2), max_size=2),
    "measured": st.dictionaries(st.sampled_from(NAMES), COUNTS, max_size=2),
    "ends": st.booleans() | st.just(False),
    "seconds": st.sampled_from([1.0, 1.0, 4.0]),
})  # fmt: skip


class Worker:
    """A process whose metrics are known."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.counted: Counter[str] = Counter()
        self.gauges: dict[str, int] = {}
        self.measured: dict[str, Counter[int]] = {}

    def step(self, what: Any) -> None:
        self.counted.update({name: number for name, number in what["counted"].items() if number})
        self.gauges = what["gauges"]
        for name, counts in what["measured"].items():
            self.measured.setdefault(name, Counter()).update(counts)

    def sample(self, at: float) -> dict[str, Any]:
        durations = {
            name: {"counts": sorted(map(list, counts.items())), "total_s": float(counts.total())}
            for name, counts in self.measured.items()
            if counts
        }
        metrics = [family("counter", self.counted), family("gauge", self.gauges), family("histogram", durations)]
        return {"at": at, "process": {"pid": self.pid, "cpu_s": 0.0}, "metrics": {"engine": metrics}}


def family(kind: str, values: Any) -> dict[str, Any]:
    samples = [[[name], value] for name, value in values.items()]
    return {"name": kind, "kind": kind, "about": "x", "labels": ["of"], "samples": samples, "left": 0}


def expected(samples: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows of one process after these samples, by kind and name: all computed from the samples as they are."""
    last, now = (samples[-2] if len(samples) > 1 else None), samples[-1]
    window = [one for one in samples if now["at"] - one["at"] <= WINDOW_S]
    # What the window begins with is the value that it had then: that of the sample before, if it is not a sample's.
    before = [one for one in samples if now["at"] - one["at"] >= WINDOW_S]
    first = before[-1] if before else window[0]
    rows: dict[str, dict[str, Any]] = {"counter": {}, "gauge": {}, "histogram": {}}
    for kind, name, value in values(now):
        was = value_of(last, kind, name) if last else None
        rate = None
        if kind == "gauge":
            rows[kind][name] = {"value": value, "rate": None}
        elif kind == "counter":
            rate = (value - (was or 0)) / (now["at"] - last["at"]) if last else None
            rows[kind][name] = {"value": value, "rate": rounded(rate)}
        else:
            counts, earlier = Counter(dict(value["counts"])), value_of(first, kind, name) if last else value
            in_window = counts - Counter(dict(earlier["counts"])) if earlier else counts
            if last:
                known = Counter(dict(was["counts"])).total() if was else 0
                rate = (counts.total() - known) / (now["at"] - last["at"])
            rows[kind][name] = {
                "value": counts.total(), "rate": rounded(rate), "p50_s": quantile(in_window, 0.5),
                "p99_s": quantile(in_window, 0.99), "mean_s": 1.0 if in_window.total() else None,
            }  # fmt: skip
    return rows


def values(sample: dict[str, Any]) -> Any:
    for one in sample["metrics"]["engine"]:
        for (name,), value in one["samples"]:
            yield one["kind"], name, value


def value_of(sample: dict[str, Any], kind: str, name: str) -> Any:
    return next((value for of, known, value in values(sample) if (of, known) == (kind, name)), None)


def rows_of(groups: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    return {
        one["kind"]: {row["of"][0]: {key: value for key, value in row.items() if key != "of"} for row in one["rows"]}
        for one in groups["engine"]
    }


@pytest.mark.bulk
@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=20))
def test_rows_are_those_that_all_samples_give(steps: list[Any]) -> None:
    tables, worker, at = Tables(), Worker(1), 100.0
    taken: list[dict[str, Any]] = []
    for what in steps:
        if what["ends"]:
            worker, taken = Worker(worker.pid + 1), []
        at += what["seconds"]
        worker.step(what)
        taken.append(worker.sample(at))
        assert rows_of(tables.update({0: taken[-1]})) == expected(taken)


@pytest.mark.bulk
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(STEPS, STEPS), min_size=1, max_size=12))
def test_several_processes_are_added_up_whatever_moves_in_each(steps: list[tuple[Any, Any]]) -> None:
    tables, workers, at = Tables(), [Worker(1), Worker(2)], 100.0
    taken: list[list[dict[str, Any]]] = [[], []]
    for both in steps:
        at += 1.0
        for number, what in enumerate(both):
            if what["ends"]:
                workers[number], taken[number] = Worker(workers[number].pid + 2), []
            workers[number].step(what)
            taken[number].append(workers[number].sample(at))
        found = rows_of(tables.update({number + 1: one[-1] for number, one in enumerate(taken)}))
        each = [expected(one) for one in taken]
        for kind in ("counter", "gauge", "histogram"):
            assert {name: row["value"] for name, row in found[kind].items()} == {
                name: sum(one[kind][name]["value"] for one in each if name in one[kind])
                for name in {*each[0][kind], *each[1][kind]}
            }
        for name, row in found["counter"].items():
            rates = [one["counter"][name]["rate"] for one in each if name in one["counter"]]
            known = [rate for rate in rates if rate is not None]
            assert row["rate"] == (sum(known) if known else None)


def test_a_metric_that_stands_still_keeps_its_rows_and_one_that_moves_gets_others() -> None:
    tables, worker = Tables(), Worker(1)
    worker.step({"counted": {"a": 1, "b": 2}, "gauges": {"a": 1}, "measured": {"a": {1: 1}}})
    for at in range(14):  # until nothing is in the window
        before = tables.update({0: worker.sample(float(at))})["engine"]
    still = tables.update({0: worker.sample(20.0)})["engine"]
    assert [one is other for one, other in zip(before, still, strict=True)] == [True, True, True]
    worker.step({"counted": {"a": 5}, "gauges": {"a": 1}, "measured": {}})
    moved = tables.update({0: worker.sample(21.0)})["engine"]
    assert [one is other for one, other in zip(still, moved, strict=True)] == [False, True, True]
    rows = {row["of"][0]: row for row in moved[0]["rows"]}
    assert rows["b"] is next(row for row in still[0]["rows"] if row["of"] == ["b"])
    assert (list(rows), rows["a"]) == (["a", "b"], {"of": ["a"], "value": 6, "rate": 5.0})


def test_nothing_is_kept_of_series_that_are_gone() -> None:
    tables, worker = Tables(), Worker(1)
    for at in range(200):
        worker.gauges = {f"name-{at}": 1}
        found = tables.update({0: worker.sample(float(at))})
    (gauge,) = [one for one in tables._tables.values() if one.value["kind"] == "gauge"]
    assert [row["of"] for row in found["engine"][1]["rows"]] == [["name-199"]]
    assert [len(kept) for kept in (gauge._numbers, gauge._order, gauge._rows)] == [1, 1, 1]
    assert len(tables.processes[0].metrics["engine", "gauge"].series) == 1
