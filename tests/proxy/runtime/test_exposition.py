"""The metrics of threads, as Prometheus' own reader has them."""

from __future__ import annotations

import threading

from prometheus_client.parser import text_string_to_metric_families

from kafka_sidecar.proxy.runtime.exposition import collect
from kafka_sidecar.proxy.runtime.threads import Threads
from kafka_sidecar.proxy.server.admin.exposition import render
from kafka_sidecar.proxy.telemetry.metrics import Metrics


def samples(threads: Threads) -> dict[str, float]:
    page = render(Metrics(features=[lambda: collect(threads)])).decode()
    return {
        sample.name.removeprefix("kafka_sidecar_"): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.labels in ({}, {"le": "+Inf"}, {"stage": "validation", "waited_for": "work"})
    }


def test_threads_what_they_do_and_what_waits_for_them_are_counted() -> None:
    threads, began, go_on = Threads(1), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        go_on.wait(5.0)

    jobs = [threads.submit("a", work)]
    assert began.wait(5.0)
    jobs.append(threads.submit("b", work))
    threads.time_limits["validation", "work"] = 3
    found = samples(threads)
    assert {name: found[f"threads{name}"] for name in ("", "_busy", "_stuck", "_queue")} == {
        "": 1, "_busy": 1, "_stuck": 0, "_queue": 1,
    }  # fmt: skip
    assert found["time_limits_total"] == 3
    assert found["thread_wait_seconds_count"] == found["thread_wait_seconds_bucket"] == 1
    go_on.set()
    for job in jobs:
        job.future.result(5.0)
    assert samples(threads)["thread_wait_seconds_count"] == 2
