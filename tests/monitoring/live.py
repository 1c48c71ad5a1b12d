"""Every query of the dashboard, run by a real Prometheus that scrapes four busy sidecars: `make dashboards-check`.

Exits with 1 if a query has no result, or if Prometheus cannot evaluate a rule. The results are written to
build/dashboards/results.json, from which `picture.py` draws docs/images/dashboard.png.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.cluster import Cluster
from harness.prometheus import Prometheus
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.scenarios.target import create_topic
from monitoring import limited, secured
from monitoring.traffic import STORE, clients
from rich.console import Console
from rich.table import Table
from support.monitoring.__main__ import RULES
from support.monitoring.panels import all_panels

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "build" / "dashboards" / "results.json"
SECONDS = 90
CONFIG = f"""\
log: {{max_rate: 1}}
connections: {{max_idle: 3s, frame_timeout: 2s, max_buffered: 2MiB, max_connections_per_ip: 60}}
limits: {{max_partitions: 50, max_record_errors: 2}}
threads: {{count: 1, max_wait: 1s}}
validation: {{timeout: 2s}}
policies:
  fails: {{type: "live_plugins:Fails", class_path: {Path(__file__).parent}}}
  sleeps: {{type: "live_plugins:Sleeps", class_path: {Path(__file__).parent}}}
topics:
  - {{name: orders, policy: "json, key"}}
  - {{name: trial, policy: json, mode: shadow}}
  - {{name: failing, policy: fails}}
  - {{name: slow, policy: sleeps}}
producers:
  - {{topics: [trial], mode: shadow, compression: [zstd], compress_from: 0}}
interceptors:
  - {{type: add_header, headers: {{source: shop}}, topics: [orders]}}
  - {{type: "live_plugins:Raises", name: raises, topics: [trial], max_failures: 5, pause: 5s,
     class_path: {Path(__file__).parent}}}
  - {{type: "live_plugins:Lingers", name: lingers, topics: [lingering], budget: 1ms, max_failures: 0,
     class_path: {Path(__file__).parent}}}
  - skip_identical_commits
  - commit_metadata
audit: {{topic: audit, auditor.reporting.interval.ms: 2000, auditor.reporting.delay.ms: 0, auditor.bucket.ms: 2000}}
topic_configs: {{topic: {STORE}, replication_factor: 1}}
"""
# What these clients do not bring about: damaged slices, and offsets that only look like those of li.
NOT_MADE = ("what may be a slice: {{reason}}", "not taken for li's: {{reason}}")
# As Grafana replaces the variables of the dashboard when "All" is chosen.
VARIABLES = {"$namespace": ".*", "$pod": ".*", "$instance": ".*", "$__rate_interval": "10s"}


def run(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The series of each query, by section, panel and legend; and what is wrong."""
    file = folder / "sidecar.yaml"
    file.write_text(CONFIG)
    (folder / "gateway.yaml").write_text("{workers: 2, nodes: {ports: 8}}\n")
    with Cluster.start(NEWEST, 1, secured.broker_properties(folder)) as cluster:
        for topic in ("orders", "trial", "failing", "lingering", "slow", "unchecked", *secured.TOPICS, *limited.TOPICS):
            create_topic(cluster.direct, topic, 30 if topic == "orders" else 1)
        secured.prepare(cluster)
        brokers = f"127.0.0.1:1,{cluster.direct}"  # at the first address nothing listens
        with (
            limited.registry() as registry,
            Sidecar.start(brokers, folder / "sidecar.log", ["--config", str(file)]) as first,
            Sidecar.start(cluster.direct, folder / "gateway.log", ["--config", str(folder / "gateway.yaml")]) as second,
            Sidecar.start(
                cluster.bootstrap, folder / "secured.log", ["--config", str(secured.configuration(folder))]
            ) as third,
            Sidecar.start(
                cluster.direct, folder / "limited.log", ["--config", str(limited.configuration(folder, registry))]
            ) as fourth,
            Prometheus(
                [one.admin.removeprefix("http://") for one in (first, second, third, fourth)],
                RULES,
                folder / "prometheus",
            ) as server,
            clients(first.bootstrap, second.bootstrap, third.bootstrap, folder, fourth.bootstrap, cluster.direct),
        ):
            started = time.time()
            time.sleep(SECONDS / 2)
            kill_a_worker(second)
            file.write_text(CONFIG + "unknown: true\n")
            time.sleep(SECONDS / 6)
            file.write_text(CONFIG)
            cluster.node(1).kill()
            time.sleep(4)
            cluster.node(1).start()
            time.sleep(SECONDS / 3)
            found = {
                f"{section.title}/{panel.title}/{query.legend}": ask(server, query.expression, started + 12)
                for section, panel in all_panels()
                for query in panel.queries
            }
            return found, [*problems(found), *broken_rules(server)]


def start(brokers: str, file: Path) -> Sidecar:
    return Sidecar.start(brokers, file.with_suffix(".log"), ["--config", str(file)])


def kill_a_worker(sidecar: Sidecar) -> None:
    pid = sidecar.program.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)


def ask(server: Prometheus, expression: str, start: float) -> list[dict[str, Any]]:
    """The series of a query, a value for each second."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return list(server.get("query_range", query=expression, start=start, end=time.time(), step=1)["result"])


def numbers(series: list[dict[str, Any]]) -> list[float]:
    return [float(value) for one in series for _, value in one["values"] if value != "NaN"]


def problems(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    silent = [name for name, series in found.items() if not numbers(series)]
    return [f"no result: {name}" for name in silent if not name.endswith(NOT_MADE)]


def broken_rules(server: Prometheus) -> list[str]:
    rules = [rule for group in server.get("rules")["groups"] for rule in group["rules"]]
    assert rules
    return [f"{rule['name']}: {rule.get('lastError')}" for rule in rules if rule["health"] != "ok"]


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="dashboards-") as folder:
        found, wrong = run(Path(folder))
    table = Table("query", "series", "highest", title="What the queries of the dashboard return")
    for name, series in found.items():
        values = numbers(series)
        table.add_row(name, str(len(series)), f"{max(values):.6g}" if values else "-")
    Console().print(table)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(found))
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
