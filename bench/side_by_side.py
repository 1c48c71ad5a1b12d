"""What the benches of validation, interceptors and auditing share: sidecars side by side under the same workloads."""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from relay import describe, installed, run_all, start_all
from rig import report, versions
from rig.connection import Loop
from rig.cores import on_two_cores
from rig.driver import BenchError, Workload
from rig.peers import Peer
from rig.target import Target

Rows = Callable[[Sequence[Workload], Sequence[Target], report.Runs], list[report.Row]]
RowOf = Callable[[Workload, Sequence[Target], report.Runs], report.Row]


def each(row: RowOf) -> Rows:
    """A table with one row for each workload."""
    return lambda loads, targets, runs: [row(load, targets, runs) for load in loads]


@dataclass(frozen=True, slots=True)
class Bench:
    """One bench: what is compared under which load, and which rows its table has."""

    name: str
    peers: Callable[[Path], list[Peer]]  # in a folder for their files
    workloads: Callable[[], list[Workload]]
    rows: Rows
    check: Callable[[Target], None] = lambda target: None
    """Before the measurement: raises BenchError for a target that does not do what its column says."""

    def main(self, doc: str | None) -> None:
        options = self._arguments(doc)
        on_two_cores(self.name, lambda folder, core: self._compare(options, folder, core))

    def _arguments(self, doc: str | None) -> argparse.Namespace:
        parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
        parser.add_argument("--only", default="", metavar="TEXT", help="only workloads with this in their name")
        parser.add_argument("--reps", type=int, default=9, help="repetitions; default: %(default)s")
        parser.add_argument("--seconds", type=float, default=0.6, help="length of one run; default: %(default)s")
        parser.add_argument("--seed", type=int, default=1, help="of the order of runs")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write every run")
        parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
        versions.add_arguments(parser)
        return parser.parse_args()

    def _compare(self, options: argparse.Namespace, folder: Path, core: int | None) -> None:
        chance, loop = random.Random(options.seed), Loop()
        loads = [load for load in self.workloads() if options.only in load.title]
        peers = installed(versions.with_twins(self.peers(folder), options))
        targets = [Target.through(peer, loop, folder) for peer in peers]
        try:
            start_all(targets, 1, core, chance)
            for target in targets:
                self.check(target)
            runs = run_all(loads, targets, options, chance)
        except BenchError as error:
            sys.exit(str(error))
        finally:
            for target in targets:
                target.stop()
        shown = versions.without_twins(targets)
        text = report.table(self.rows(loads, shown, runs), [target.name for target in shown])
        about = describe(options, core is not None, runs)
        report.publish(options, about, text, versions.described(options), versions.comparison(loads, targets, runs))
        if options.json:
            options.json.write_text(json.dumps({"about": about, "runs": _as_json(runs)}, indent=1))


def _as_json(runs: report.Runs) -> list[dict[str, object]]:
    each = ((title, name, result) for (title, name), results in runs.items() for result in results)
    return [{"workload": title, "peer": name, **asdict(result)} for title, name, result in each]
