"""A broker, three sidecars that audit, producers and consumers, and faults on purpose: the pipeline names them.

Started by `make demo-pipeline`. Prints what was injected beside what was found; exit code 1: they differ.
The report is written to build/demo-pipeline/report.html.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from audit_faults import BUCKET_S, Site, inject_all
from audit_findings import Finding, compare
from audit_tables import Tables, run_pipeline
from harness.cluster import Cluster
from harness.versions import NEWEST
from rich.console import Console
from rich.table import Table

OUTPUT = Path("build/demo-pipeline")


def results(console: Console, findings: list[Finding]) -> int:
    table = Table("fault", "injected", "found", "", title="What was injected, and what the pipeline found")
    for one in findings:
        mark = "[green]same[/]" if one.is_same else "[bold red]DIFFERENT[/]"
        table.add_row(one.name, one.injected, one.found, mark)
    console.print(table)
    return 0 if all(one.is_same for one in findings) else 1


def run(console: Console, folder: Path) -> int:
    began = time.monotonic()
    with Cluster.start(NEWEST, 1) as cluster:
        site = Site(cluster, folder, console)
        inject_all(site)
        site.step("reconcile, then report")
        run_pipeline("reconcile", "--config", site.config, "--bootstrap-servers", cluster.direct)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    run_pipeline("report", "--config", site.config, "--output", OUTPUT)
    code = results(console, compare(site.injected, Tables(folder / "tables"), BUCKET_S * 1000))
    console.print(f"\nThe report is {OUTPUT}/report.html; this took {time.monotonic() - began:.0f} s.")
    return code


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="demo-pipeline-") as folder:
        return run(Console(width=None if sys.stdout.isatty() else 120), Path(folder))


if __name__ == "__main__":
    sys.exit(main())
