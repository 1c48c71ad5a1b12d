"""The faults of the audit demo: what is done wrong on purpose, and what is known of it without any audit."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from audit_traffic import LIMIT_S, Sent, begin_at_start, produce, producer_of, read, read_shared, send, stored
from confluent_kafka import TopicPartition
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from integration.scenarios.target import admin_client, create_topic
from rich.console import Console

BUCKET_S = 5
# The hole of a killed sidecar touches what was counted within this time of it.
CLOCK_SKEW_S = 1
CONFIG = f"""\
connections: {{{{drain_timeout: 5s}}}}
audit:
  topic: kafka-sidecar-audit
  emitter_id: {{name}}
  auditor.reporting.interval.ms: {{interval_ms}}
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
    stored: int = 0  # records of refunds, copies included
    copies: set[int] = field(default_factory=set)
    past_sidecar: set[int] = field(default_factory=set)
    reread: int = 0
    late: int = 0
    killed_at: float = 0
    unknown: set[int] = field(default_factory=set)
    shared: int = 0
    released: int = 0
    without_group: int = 0


class Site:
    """The cluster and its two sidecars."""

    def __init__(self, cluster: Cluster, folder: Path, console: Console) -> None:
        self.cluster, self.folder, self.console = cluster, folder, console
        for topic in ("orders", "payments", "clicks", "refunds", "invoices", "visits", "news"):
            create_topic(cluster.direct, topic, 1)
        self.tables = folder / "tables"
        self.config = folder / "pod-1.yaml"
        self.first, self.second = (self.sidecar(name, interval_ms=1000) for name in ("pod-1", "pod-2"))
        self.injected = Injected()

    def sidecar(self, name: str, interval_ms: int) -> Sidecar:
        config = self.folder / f"{name}.yaml"
        config.write_text(CONFIG.format(name=name, tables=self.tables, interval_ms=interval_ms))
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
    # What is sent again has to be the same batch: librdkafka puts records together in other batches.
    hasty = {"socket.timeout.ms": 1500, "request.timeout.ms": 1500, "linger.ms": 300}
    producer = producer_of(site.second.bootstrap, "till", **hasty)
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
    first = {value: offset for offset, value in sorted(log.items(), reverse=True)}
    site.injected.stored, site.injected.copies = len(log), log.keys() - set(first.values())
    assert site.injected.copies, "the producer has not sent again"
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


def kill_at_first_contact(site: Site) -> None:
    site.step(
        "invoices: a sidecar that has reported another topic is killed before it reports what it has sent of this"
    )
    name, interval_ms = "pod-3", 86_400_000  # so that it reports where it ends in good order
    with site.sidecar(name, interval_ms) as third:
        send(third.bootstrap, "shop", "news", 10, Sent(), age_s=30)  # long before the hole
        assert third.stop() == 0
    sent = Sent()
    send(site.first.bootstrap, "shop", "invoices", 50, sent)
    read(site.first.bootstrap, "ledger", "invoices", 49)
    send(site.first.bootstrap, "shop", "invoices", 50, sent)
    with site.sidecar(name, interval_ms) as third:
        read(third.bootstrap, "ledger", "invoices", 99)
        third.restart()
        assert third.stop() == 0
    send(site.first.bootstrap, "shop", "invoices", 50, sent)
    read(site.first.bootstrap, "ledger", "invoices", 149)
    site.injected.unknown = set(range(50, 100))


def share(site: Site) -> None:
    site.step("visits: a share group releases 5 records and gets them again; a consumer without a group reads all")
    send(site.first.bootstrap, "shop", "visits", 30, Sent())
    begin_at_start(site.cluster.direct, "workers")
    site.injected.shared = read_shared(site.first.bootstrap, "workers", "visits", 30, releases=5)
    site.injected.released = 5
    site.injected.without_group = len(stored(site.second.bootstrap, "visits"))


FAULTS = (seek_past, delete_unread, send_late, share, repeat, kill, kill_at_first_contact)


def inject_all(site: Site) -> None:
    """Do all that is wrong, and stop the sidecars."""
    with site.first, site.second:
        for inject in FAULTS:
            inject(site)
        time.sleep(BUCKET_S)  # the last bucket ends
        assert [site.first.stop(), site.second.stop()] == [0, 0]
