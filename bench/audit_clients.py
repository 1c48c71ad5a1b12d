"""The cost of auditing with Kafka's own clients: its performance tools against a real broker, through two sidecars.

usage: audit_clients.py [--records N] [--rounds N] [--reps N] [--before PROGRAM] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from harness.cluster import Cluster
from harness.sidecar import COMMAND, Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from json_values import value
from prometheus_client.parser import text_string_to_metric_families
from rig import report, versions
from rig.process import cpu_ns

RECORD_BYTES, PARTITIONS = 1 << 10, 3
CODECS = ("none", "lz4")
PRODUCE, FETCH = "Produce", "Fetch"
NONE, AUDITED = "no auditing", "audited"
CONFIGS = {NONE: "{}\n", AUDITED: "audit: {topic: audit-events}\n"}
BEFORE = ", before"
TARGET = 1.10


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a tool: what it cost the sidecar."""

    cpu_us_per_record: float
    requests: float


class Rig:
    """A broker, one JVM for the tools, and the sidecars, which are others in each round."""

    sidecars: Mapping[str, Sidecar]

    def __init__(self, cluster: Cluster, tools: ToolHost, folder: Path, before: str | None) -> None:
        self.cluster = cluster
        self._tools = tools
        self._folder = folder
        self._before = before
        self._values = folder / "values"
        self._groups = 0

    @contextmanager
    def with_sidecars(self) -> Iterator[None]:
        """Start sidecars for one round: two processes of a program differ by a few percent for as long as they live."""
        with ExitStack() as stack:
            self.sidecars = {
                name: stack.enter_context(self._sidecar(name, command))
                for name, command in columns(self._before).items()
            }
            yield

    def _sidecar(self, name: str, command: Path) -> AbstractContextManager[Sidecar]:
        config = self._folder / f"{name}.yaml"
        config.write_text(CONFIGS[name.removesuffix(BEFORE)])
        return Sidecar.start(self.cluster.bootstrap, self._folder / f"{name}.log", ["--config", str(config)], command)

    def create_topics(self) -> None:
        for codec in CODECS:
            self._run(
                "TopicCommand", "--create", "--topic", codec, "--partitions", PARTITIONS, bootstrap=self.cluster.direct
            )

    def measure(self, api: str, codec: str, name: str, records: int) -> Run:
        sidecar = self.sidecars[name]
        requests = requests_of(sidecar, api)
        before = cpu_ns(sidecar.program.pid)
        (self._produce if api == PRODUCE else self._fetch)(codec, sidecar.bootstrap, records)
        spent = cpu_ns(sidecar.program.pid) - before
        return Run(spent / 1e3 / records, requests_of(sidecar, api) - requests)

    def _produce(self, codec: str, bootstrap: str, records: int) -> None:
        self._tools.run(
            "org.apache.kafka.tools.ProducerPerformance", "--topic", codec, "--num-records", records,
            "--payload-file", self._values, "--throughput", -1,
            "--producer-props", f"bootstrap.servers={bootstrap}", f"compression.type={codec}",
        )  # fmt: skip

    def _fetch(self, codec: str, bootstrap: str, records: int) -> None:
        self._groups += 1
        self._run(
            "ConsumerPerformance", "--topic", codec, "--messages", records, "--group", f"bench-{self._groups}",
            "--timeout", 10_000, bootstrap=bootstrap,
        )  # fmt: skip

    def _run(self, tool: str, *arguments: object, bootstrap: str) -> None:
        self._tools.run(f"org.apache.kafka.tools.{tool}", "--bootstrap-server", bootstrap, *arguments)


@contextmanager
def rig(folder: Path, before: str | None) -> Iterator[Rig]:
    chance = random.Random(1)
    values = folder / "values"
    values.write_bytes(b"\n".join(value(RECORD_BYTES, chance) for _ in range(2000)))
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster.start(NEWEST))
        yield Rig(cluster, stack.enter_context(ToolHost(NEWEST)), folder, before)


def columns(before: str | None) -> dict[str, Path]:
    """The sidecars by name: of this version, and with ``before`` those of another one."""
    found = dict.fromkeys(CONFIGS, COMMAND)
    return found | {name + BEFORE: Path(before) for name in CONFIGS} if before else found


def requests_of(sidecar: Sidecar, api: str) -> float:
    with urllib.request.urlopen(f"{sidecar.admin}/metrics", timeout=10) as page:
        families = text_string_to_metric_families(page.read().decode())
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "kafka_sidecar_client_to_proxy_request_total" and sample.labels["api_key"] == api
    )


Case = tuple[str, str, str]  # api, codec, column
Runs = dict[Case, list[Run]]


def measure_all(options: argparse.Namespace, rig: Rig) -> Runs:
    """In each repetition the columns take turns, in shuffled order; the first one of a round only warms up."""
    chance = random.Random(options.seed)
    runs: Runs = {}
    rig.create_topics()
    for number in range(options.rounds):
        with rig.with_sidecars():
            for rep in range(options.reps + 1):
                for case, run in measure_each(chance, rig, options.records):
                    if rep:
                        runs.setdefault(case, []).append(run)
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    return runs


def measure_each(chance: random.Random, rig: Rig, records: int) -> Iterator[tuple[Case, Run]]:
    for codec in CODECS:
        for api in (PRODUCE, FETCH):
            for name in chance.sample(list(rig.sidecars), len(rig.sidecars)):
                yield (api, codec, name), rig.measure(api, codec, name, records)


def row(api: str, codec: str, names: list[str], runs: Runs, records: int) -> report.Row:
    cells = {}
    for name in names:
        results = runs[api, codec, name]
        least = min(run.cpu_us_per_record for run in results)
        middle = median(run.cpu_us_per_record for run in results)
        cells[name] = f"{middle:.3f}, at least {least:.3f}"
        if name.startswith(AUDITED):
            plain = runs[api, codec, name.replace(AUDITED, NONE)]
            ratio = median(on.cpu_us_per_record / off.cpu_us_per_record for on, off in zip(results, plain, strict=True))
            best = least / min(run.cpu_us_per_record for run in plain)
            cells[name] += f" ({ratio:.2f}x, {best:.2f}x) {'met' if ratio <= TARGET else 'MISSED'}"
    requests = median(run.requests for run in runs[api, codec, NONE])
    title = f"{api}, {codec}, {records / requests:.0f} records a request: CPU us/record"
    return report.Row(title, cells, f"<= {TARGET}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000, help="of each run; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="each with new sidecars; default: %(default)s")
    parser.add_argument("--reps", type=int, default=3, help="repetitions in a round; default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of the order of runs")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    versions.add_arguments(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="audit-bench-") as folder, rig(Path(folder), options.before) as started:
        runs = measure_all(options, started)
        names = list(columns(options.before))
    rows = [row(api, codec, names, runs, options.records) for codec in CODECS for api in (PRODUCE, FETCH)]
    about = (
        f"{options.rounds} rounds of {options.reps} repetitions of {options.records} records of 1 KB; client, broker "
        "and sidecars share all cores."
    )
    report.publish(options, about, report.table(rows, names), versions.described(options).partition(". ")[0])


if __name__ == "__main__":
    main()
