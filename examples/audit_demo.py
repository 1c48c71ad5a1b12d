"""A broker, two sidecars that audit, two producers, three consumers, and faults on purpose: the pipeline names them.

Started by `make demo-pipeline`. Prints what was injected beside what was found; exit code 1: they differ.
The report is written to build/demo-pipeline/report.html.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from audit_findings import Finding, compare
from audit_tables import Tables, run_pipeline
from audit_traffic import LIMIT_S, Sent, produce, producer_of, read, send, stored
from confluent_kafka import TopicPartition
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.scenarios.target import admin_client, create_topic
from rich.console import Console
from rich.table import Table

OUTPUT = Path("build/demo-pipeline")
BUCKET_S = 5
# The hole of a killed sidecar touches what was counted within this time of it.
CLOCK_SKEW_S = 1
CONFIG = f"""\
connections: {{{{drain_timeout: 5s}}}}
audit:
  topic: kafka-sidecar-audit
  emitter_id: {{name}}
  auditor.reporting.interval.ms: 1000
  auditor.reporting.delay.ms: 0
  auditor.bucket.ms: {BUCKET_S * 1000}
pipeline:
  master: local[2]
  spark: {{{{spark.sql.shuffle.partitions: "2"}}}}
  reconcile: {{{{path: {{tables}}, lateness: 20s, clock_skew: {CLOCK_SKEW_S}s}}}}
"""


@dataclass(slots=True)
class Injected:
    """What is done wrong on purpose, as the programs that do it know it."""

    lost: dict[str, set[int]] = field(default_factory=dict)  # group -> offsets
    copies: int = 0
    past_sidecar: set[int] = field(default_factory=set)
    reread: int = 0
    late: int = 0
    killed_at: float = 0


class Site:
    """The cluster and its two sidecars."""

    def __init__(self, cluster: Cluster, folder: Path, console: Console) -> None:
        self.cluster, self.folder, self.console = cluster, folder, console
        for topic in ("orders", "payments", "clicks", "refunds"):
            create_topic(cluster.direct, topic, 1)
        self.config = folder / "pod-1.yaml"
        self.first, self.second = (self._sidecar(name) for name in ("pod-1", "pod-2"))
        self.injected = Injected()

    def _sidecar(self, name: str) -> Sidecar:
        config = self.folder / f"{name}.yaml"
        config.write_text(CONFIG.format(name=name, tables=self.folder / "tables"))
        return Sidecar.start(self.cluster.bootstrap, self.folder / f"{name}.log", ["--config", str(config)])

    def step(self, words: str) -> None:
        self.console.print(words, style="dim")


def seek_past(site: Site) -> None:
    site.step("orders: the group search seeks past 50 records; the group billing reads all, then 100 again")
    sent = Sent()
    send(site.first.bootstrap, "shop", "orders", 100, sent)
    read(site.second.bootstrap, "search", "orders", 99)
    send(site.first.bootstrap, "shop", "orders", 150, sent)
    read(site.second.bootstrap, "search", "orders", 249, lambda _: 150)
    site.injected.lost["search"] = set(range(100, 150))
    read(site.first.bootstrap, "billing", "orders", 249)
    site.injected.reread = read(site.first.bootstrap, "billing", "orders", 249, lambda _: 150)


def delete_unread(site: Site) -> None:
    site.step("payments: 70 records are deleted before the group archive has read them")
    sent = Sent()
    send(site.first.bootstrap, "shop", "payments", 50, sent)
    read(site.first.bootstrap, "archive", "payments", 49)
    send(site.first.bootstrap, "shop", "payments", 150, sent)
    admin = admin_client(site.cluster.direct)
    for future in admin.delete_records([TopicPartition("payments", 0, 120)]).values():
        future.result(30)
    read(site.first.bootstrap, "archive", "payments", 199)
    site.injected.lost["archive"] = set(range(50, 120))


def send_late(site: Site) -> None:
    site.step("payments: 20 records are two minutes late")
    sent = Sent()
    send(site.first.bootstrap, "shop", "payments", 20, sent, age_s=120)
    read(site.first.bootstrap, "archive", "payments", 219)
    site.injected.late = len(sent.acked)


def repeat(site: Site) -> None:
    site.step("refunds: while the broker hangs, a producer without idempotence sends again; then 25 past the sidecar")
    sent = Sent()
    producer = producer_of(site.second.bootstrap, "till", **{"socket.timeout.ms": 1500, "request.timeout.ms": 1500})
    # A group that has begun gets all that follows, whoever sent it.
    produce(producer, "refunds", 10, sent)
    assert producer.flush(LIMIT_S) == 0
    read(site.second.bootstrap, "billing", "refunds", 9)
    broker = site.cluster.node(1)
    broker.stop()
    try:
        produce(producer, "refunds", 30, sent)
        producer.flush(2.5)  # longer than it waits for a response
    finally:
        broker.cont()
    assert producer.flush(LIMIT_S) == 0
    log = stored(site.cluster.direct, "refunds")
    assert len(log) > len(set(log.values())), "the producer has not sent again"
    site.injected.copies = len(log)
    past = Sent()
    send(site.cluster.direct, "till", "refunds", 25, past)
    site.injected.past_sidecar = {offset for _, _, offset in past.acked}
    read(site.second.bootstrap, "billing", "refunds", max(site.injected.past_sidecar))


def kill(site: Site) -> None:
    # What was counted before must not be within the hole.
    time.sleep(BUCKET_S + 3 * CLOCK_SKEW_S)
    site.step("clicks: a sidecar is killed with SIGKILL while it counts, and started again")
    sent = Sent()
    send(site.second.bootstrap, "shop", "clicks", 40, sent)
    site.injected.killed_at = time.time()
    site.second.restart()
    send(site.second.bootstrap, "shop", "clicks", 40, sent)
    read(site.second.bootstrap, "billing", "clicks", 79)


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
        with site.first, site.second:
            for inject in (seek_past, delete_unread, send_late, repeat, kill):
                inject(site)
            time.sleep(BUCKET_S)  # the last bucket ends
            assert [site.first.stop(), site.second.stop()] == [0, 0]
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
