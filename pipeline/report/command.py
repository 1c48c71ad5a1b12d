"""`report` from its settings: the page, and each section as Parquet beside it."""

from __future__ import annotations

from pathlib import Path

from pyarrow import parquet

from kafka_sidecar.pipeline.reconcile.job import wall_clock
from kafka_sidecar.pipeline.report.page import render
from kafka_sidecar.pipeline.report.sections import compute
from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.proxy.config.loading import Config

PAGE = "report.html"


def report(config: Config, output: Path, last_s: float | None, replay: str | None) -> Path:
    """Write them into ``output``; with ``last_s`` only about buckets of so many seconds. Returns the page."""
    now = wall_clock()
    spark = start_session(config.pipeline, "report", uses_kafka=False)
    try:
        since = 0 if last_s is None else now - round(1000 * last_s)
        found = compute(spark, config.pipeline.reconcile.path, since, replay)
    finally:
        spark.stop()
    output.mkdir(parents=True, exist_ok=True)
    for name, table in found.sections.items():
        parquet.write_table(table, output / f"{name}.parquet")
    page = output / PAGE
    page.write_text(render(found, now), encoding="utf-8")
    return page
