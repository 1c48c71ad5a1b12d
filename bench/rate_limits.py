"""How close to their limit clients are that are held to 1 MB/s: five producers, then five consumers, of a real broker.

usage: rate_limits.py [--seconds S] [--rate BYTES] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness import admin_pages
from harness.cluster import Cluster
from harness.sidecar import NODE_PORTS, Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.rate_limits.bulk_clients import SIZE, Ask, Done, consumers, producers
from integration.scenarios.target import create_topic
from prometheus_client.parser import text_string_to_metric_families

TOPIC = "limited"
WITHIN = 0.05
SETTLE_S, AFTER_S = 2.0, 3.0  # before and after the seconds that are measured
POLL_S = 0.2
NAMES = ("java", "librdkafka", "aiokafka", "kafka-python", "franz-go")
Look = tuple[float, Mapping[tuple[str, str], float]]  # when, and the bytes by limit and direction
HEADINGS = ("client", "direction", "MB/s", "of the limit", "errors", "within 5 %")


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one client."""

    client: str
    direction: str
    rate: float  # bytes a second
    limit: float
    done: Done

    @property
    def is_met(self) -> bool:
        return abs(self.rate / self.limit - 1) <= WITHIN and not self.done.failed

    def cells(self) -> tuple[str, ...]:
        share, errors = self.rate / self.limit, ", ".join(sorted(set(self.done.failed))) or "none"
        met = "met" if self.is_met else "MISSED"
        return self.client, self.direction, f"{self.rate / 1e6:.3f}", f"{100 * share:.1f} %", errors, met


def configuration(rate: int) -> str:
    """A limit for each client, which tells their bytes apart."""
    rates = f"produce_bytes: {rate}, consume_bytes: {rate}"
    limits = "".join(f'  - {{name: {name}, client_ids: ["{name}-*"], topics: [{TOPIC}], {rates}}}\n' for name in NAMES)
    return f"nodes: {{ports: {NODE_PORTS}}}\nrate_limits:\n{limits}"


def look(sidecar: Sidecar) -> Look:
    families = text_string_to_metric_families(admin_pages.get(f"{sidecar.admin}/metrics").text)
    found = {
        (sample.labels["limit"], sample.labels["direction"]): sample.value
        for family in families
        if family.name == "kafka_sidecar_rate_limit_bytes"
        for sample in family.samples
    }
    return time.monotonic(), found


def rate_of(looks: Sequence[Look], key: tuple[str, str], seconds: float) -> float:
    """Bytes a second, from some seconds after the first bytes on."""
    began = next(at for at, found in looks if found[key] > looks[0][1][key])
    inside = [(at, found[key]) for at, found in looks if SETTLE_S <= at - began <= SETTLE_S + seconds]
    (first, before), (last, after) = inside[0], inside[-1]
    return (after - before) / (last - first)


def measure(
    sidecar: Sidecar, runs: Mapping[str, Callable[[Ask], Done]], direction: str, rate: int, seconds: float
) -> list[Row]:
    records = int(rate * (SETTLE_S + seconds + AFTER_S) / SIZE)
    looks = [look(sidecar)]
    with ThreadPoolExecutor(len(runs)) as pool:
        going = {
            name: pool.submit(run, Ask(sidecar.bootstrap, TOPIC, f"{name}-{direction}", records))
            for name, run in runs.items()
        }
        while not all(one.done() for one in going.values()):
            time.sleep(POLL_S)
            looks.append(look(sidecar))
    return [
        Row(name, direction, rate_of(looks, (name, direction), seconds), rate, one.result())
        for name, one in going.items()
    ]


def table(rows: Sequence[Row]) -> str:
    lines = [HEADINGS, ("---", "---", "---:", "---:", "---", "---"), *(row.cells() for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="that are measured; default: %(default)s")
    parser.add_argument("--rate", type=int, default=1_000_000, help="bytes a second; default: %(default)s")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="rate-limits-") as folder,
        Cluster.start(NEWEST, 1) as cluster,
        ToolHost(NEWEST) as java,
    ):
        config = Path(folder) / "sidecar.yaml"
        config.write_text(configuration(options.rate))
        create_topic(cluster.direct, TOPIC, 1)
        with Sidecar.start(cluster.bootstrap, Path(folder) / "log", ["--config", str(config)]) as sidecar:
            rows = []
            for direction, runs in (("produce", producers(java)), ("consume", consumers(java))):
                here = {name: run for name, run in runs.items() if name != "franz-go" or shutil.which("go")}
                rows += measure(sidecar, here, direction, options.rate, options.seconds)
    text = table(rows)
    print(text, end="")
    if options.markdown:
        options.markdown.write_text(text)


if __name__ == "__main__":
    main()
