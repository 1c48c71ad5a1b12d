"""Samples become one value: sums, rates and quantiles, of one process and of several."""

from __future__ import annotations

import json
from typing import Any

from kafka_sidecar.proxy.server.admin.live.series import MAX_SERIES_SHOWN, quantile
from kafka_sidecar.proxy.server.admin.live.snapshot import Histories, merged


def sample(at: float, *families: dict[str, Any], pid: int = 1, cpu_s: float = 0.0, **parts: Any) -> dict[str, Any]:
    process = {
        "pid": pid, "version": "1", "python": "3", "build": "compiled", "cpu_s": cpu_s, "memory_bytes": 1000,
        "uptime_s": 9.5,
    }  # fmt: skip
    sidecar = {"ready": True, "connections": {"open": 2}, "configuration": {"hash": "abc"}, "nodes": [{"port": at}]}
    metrics = {"engine": list(families)}
    return {"at": at, "process": process, "sidecar": sidecar, "features": {}, "metrics": metrics, **parts}


def counter(value: float, name: str = "requests", of: str = "Produce") -> dict[str, Any]:
    return family("counter", name, [[[of], value]])


def family(kind: str, name: str, samples: list[Any], label: str = "api_key") -> dict[str, Any]:
    return {"name": name, "kind": kind, "about": "x", "labels": [label], "samples": samples, "left": 0}


def row(snapshot: dict[str, Any], name: str = "requests") -> dict[str, Any]:
    (found,) = [one for one in snapshot["metrics"]["engine"] if one["name"] == name]
    (only,) = found["rows"]
    return dict(only)


def test_rates_are_the_difference_of_two_samples() -> None:
    histories = Histories()
    first = histories.snapshot({0: sample(10.0, counter(100))})
    assert (row(first)["rate"], first["interval_s"], first["workers"][0]["cpu"]) == (None, None, None)
    second = histories.snapshot({0: sample(12.0, counter(150), cpu_s=1.0)})
    assert (row(second), second["interval_s"]) == ({"of": ["Produce"], "value": 150, "rate": 25.0}, 2.0)
    assert second["workers"][0]["cpu"] == 0.5


def test_a_series_that_is_new_has_begun_at_zero() -> None:
    histories = Histories()
    histories.snapshot({0: sample(1.0)})
    assert row(histories.snapshot({0: sample(2.0, counter(7))}))["rate"] == 7.0


def test_workers_are_added_up_and_each_is_shown() -> None:
    histories = Histories()
    histories.snapshot({1: sample(1.0, counter(10), pid=1), 2: sample(5.0, counter(20), pid=2)})
    found = histories.snapshot({1: sample(2.0, counter(13), pid=1), 2: sample(6.0, counter(25), pid=2)})
    assert row(found) == {"of": ["Produce"], "value": 38, "rate": 8.0}
    assert [one["worker"] for one in found["workers"]] == [1, 2]
    assert found["sidecar"]["connections"]["open"] == 4
    assert found["sidecar"]["configuration"]["hash"] == "abc"
    assert found["sidecar"]["nodes"] == [{"port": 2.0, "worker": 1}, {"port": 6.0, "worker": 2}]


def test_a_worker_that_was_started_again_counts_from_zero_and_takes_nothing_from_others() -> None:
    histories = Histories()
    histories.snapshot({1: sample(1.0, counter(1000), pid=1), 2: sample(1.0, counter(20), pid=2)})
    found = histories.snapshot({1: sample(2.0, counter(5), pid=9), 2: sample(2.0, counter(25), pid=2)})
    assert row(found)["rate"] == 5.0


def test_gauges_whose_sum_means_nothing_are_combined_as_metrics_are() -> None:
    ready = family("gauge", "cluster_reached", [[["x"], 1]]), family("gauge", "cluster_reached", [[["x"], 0]])
    found = Histories({"kafka_sidecar_cluster_reached": min}).snapshot({1: sample(1, ready[0]), 2: sample(1, ready[1])})
    assert row(found, "cluster_reached")["value"] == 0


def durations(*counts: tuple[int, int], total_s: float = 1.0) -> dict[str, Any]:
    value = {"counts": [list(one) for one in counts], "total_s": total_s}
    return family("histogram", "latency", [[["Produce"], value]])


def test_quantiles_are_those_of_the_last_ten_seconds_alone() -> None:
    histories = Histories()
    histories.snapshot({0: sample(0.0, durations((20, 1000)))})
    for second in range(1, 12):
        found = histories.snapshot(
            {0: sample(float(second), durations((20, 1000), (10, 10 * second), total_s=1 + second))}
        )
    latency = row(found, "latency")
    assert (latency["value"], latency["rate"]) == (1110, 10.0)
    assert 0.0005 < latency["p50_s"] <= latency["p99_s"] <= 0.001024
    assert latency["mean_s"] == 0.1


def test_the_slowest_of_a_hundred_is_beyond_its_99th_percentile() -> None:
    assert quantile({10: 99, 20: 1}, 0.99) == 0.001024
    assert (quantile({10: 98, 20: 2}, 0.99) or 0) > 0.5


def test_a_metric_with_very_many_series_is_cut_and_says_so() -> None:
    many = family("counter", "requests", [[[str(number)], number] for number in range(MAX_SERIES_SHOWN + 10)])
    (found,) = Histories().snapshot({0: sample(1.0, many)})["metrics"]["engine"]
    assert (len(found["rows"]), found["not_shown"]) == (MAX_SERIES_SHOWN, 10)
    assert found["rows"][0]["of"] == [str(MAX_SERIES_SHOWN + 9)]


def test_what_differs_between_workers_is_shown_by_worker() -> None:
    assert merged({1: "a", 2: "b"}) == {"1": "a", "2": "b"}
    assert merged({1: {"oldest_seconds": 9.0}, 2: {"oldest_seconds": 5.0}}) == {"oldest_seconds": 9.0}
    assert merged({1: True, 2: False}) == {"1": True, "2": False}
    assert merged({1: ["x"], 2: ["x", "y"]}) == ["x", "y"]


def test_lists_of_workers_are_joined_with_trouble_and_the_newest_first() -> None:
    def connections(number: int, oldest: float | None, ended: str) -> dict[str, Any]:
        rows = [{"session": number, "pauses": [], "oldest_s": oldest}]
        return {"open": 1, "rows": rows, "closed": [{"session": number, "ended": ended}]}

    found = Histories().snapshot({
        1: sample(1.0, connections=connections(1, None, "2026-01-01"), rejections=[{"id": "a", "timestamp": "1"}]),
        2: sample(1.0, connections=connections(2, 9.0, "2026-01-02"), rejections=[{"id": "b", "timestamp": "2"}]),
    })  # fmt: skip
    assert found["connections"]["open"] == 2
    assert [one["session"] for one in found["connections"]["rows"]] == [2, 1]
    assert [one["session"] for one in found["connections"]["closed"]] == [2, 1]
    assert [(one["id"], one["worker"]) for one in found["rejections"]] == [("b", 2), ("a", 1)]


def test_without_a_worker_there_is_a_snapshot_without_rates() -> None:
    found = Histories().snapshot({})
    assert (found["workers"], found["interval_s"]) == ([], None)
    json.dumps(found)
