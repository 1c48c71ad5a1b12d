"""The cost of one request through kafka-sidecar, haproxy and socat, and without a proxy.

usage: relay.py [--only TEXT] [--reps N] [--seconds S] [--peer NAME COMMAND] [--before PROGRAM]
                [--json FILE] [--markdown FILE]
       relay.py --profile FILE [--only TEXT]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import pstats
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rig import report, versions
from rig.connection import Loop
from rig.driver import BenchError, Workload
from rig.peers import PEERS, Peer, found, from_command_line, profiled
from rig.target import Target

KB, MB = 1 << 10, 1 << 20
WARM_UP_S, SETTLE_S = 0.2, 3.0
APART = "proxy on one core, load on another"
NOISY = 0.1  # of a core, taken by other programs

WORKLOADS = (
    Workload("Produce 1 KB, 8 connections, 1 in flight", 8, 1, produce_bytes=KB, target=1.5),
    Workload("Produce 1 KB, 8 connections, 5 in flight", 8, 5, produce_bytes=KB, target=2.0),
    Workload("Produce 1 KB, 1 connection, 1 in flight", 1, 1, produce_bytes=KB, is_latency=True),
    Workload("Produce 64 KB, 8 connections, 2 in flight", 8, 2, produce_bytes=64 * KB, target=0.9),
    Workload("Produce 1 MB, 4 connections, 2 in flight", 4, 2, produce_bytes=MB, target=0.8),
    Workload("Fetch 1 MB, 4 connections, 1 in flight", 4, 1, fetch_bytes=MB, target=0.8),
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [peer.name for peer in PEERS]
    parser.add_argument("--peers", default=",".join(names), help="comma separated; default: %(default)s")
    parser.add_argument("--peer", nargs=2, action="append", default=[], metavar=("NAME", "COMMAND"),
                        help="one more peer; COMMAND may use {listen}, {port} and {broker}")  # fmt: skip
    parser.add_argument("--only", default="", metavar="TEXT", help="only workloads with this in their name")
    parser.add_argument("--reps", type=int, default=9, help="repetitions; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=0.6, help="length of one run; default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of the order of runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="instead: load kafka-sidecar under cProfile and write the profile"
    )
    versions.add_arguments(parser)
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Workload]:
    return [workload for workload in WORKLOADS if options.only in workload.title]


def installed(peers: Sequence[Peer]) -> list[Peer]:
    present = [peer for peer in peers if found(peer.program)]
    for peer in peers:
        if peer not in present:
            print(f"{peer.name} is skipped, it is not installed: {peer.remedy}", file=sys.stderr)
    return present


def start_all(targets: Sequence[Target], reps: int, core: int | None, chance: random.Random) -> None:
    """Start every proxy ``reps`` times; the last start keeps running. Measures idle memory, checks addresses."""
    for rep in range(1, reps + 1):
        for target in chance.sample(targets, len(targets)):
            target.start(core)
            if rep < reps:
                target.stop()
    settled = time.monotonic() + SETTLE_S
    while time.monotonic() < settled:
        targets[0].driver.loop.poll(0.01)
    for target in targets:
        if target.process:
            target.idle_bytes = target.process.rss_bytes()
        target.check_addresses()


def run_all(
    workloads: Sequence[Workload], targets: Sequence[Target], options: argparse.Namespace, chance: random.Random
) -> report.Runs:
    runs: report.Runs = {(workload.title, target.name): [] for workload in workloads for target in targets}
    for rep in range(1, options.reps + 1):
        for workload in workloads:
            for target in chance.sample(targets, len(targets)):
                try:
                    result = target.run(workload, WARM_UP_S, options.seconds)
                except (BenchError, AssertionError) as error:
                    sys.exit(f"{target.name}, {workload.title}: {error}\n{target.log_tail()}")
                runs[workload.title, target.name].append(result)
        print(f"repetition {rep} of {options.reps} done", file=sys.stderr)
    return runs


def describe(options: argparse.Namespace, pinned: bool, runs: report.Runs) -> str:
    where = APART if pinned else "NOT PINNED: fewer than two cores, unreliable"
    results = [result for each in runs.values() for result in each]
    others = sum(result.others_s for result in results) / sum(result.wall_s for result in results)
    noise = " (too much: repeat this on a quiet machine)" if others > NOISY else ""
    return (
        f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}; {os.cpu_count()} cores, {cpu_model()}, "
        f"Linux {platform.release()}, Python {platform.python_version()}; {where}; "
        f"medians of {options.reps} repetitions of {options.seconds} s; "
        f"other programs took {others:.0%} of a core{noise}."
    )


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def compare(options: argparse.Namespace, folder: Path, loop: Loop, cores: tuple[int | None, bool]) -> None:
    core, pinned = cores
    chance = random.Random(options.seed)
    peers = [peer for peer in PEERS if peer.name in options.peers.split(",")]
    peers += [from_command_line(*words) for words in options.peer]
    peers = installed(versions.with_twins(peers, options))
    targets = [Target.direct(loop), *(Target.through(peer, loop, folder) for peer in peers)]
    try:
        start_all(targets, options.reps, core, chance)
        runs = run_all(chosen(options), targets, options, chance)
    except BenchError as error:
        sys.exit(str(error))
    finally:
        for target in targets:
            target.stop()
    shown = versions.without_twins(targets)
    rows = report.rows(chosen(options), shown, runs)
    about, text = describe(options, pinned, runs), report.table(rows, [target.name for target in shown])
    compared = versions.comparison(chosen(options), targets, runs)
    report.publish(options, about, text, versions.described(options), compared)
    if options.json:
        options.json.write_text(json.dumps(_as_json(about, targets, runs), indent=1))


def _as_json(about: str, targets: Sequence[Target], runs: report.Runs) -> dict[str, object]:
    return {
        "about": about,
        "peers": {
            target.name: {name: getattr(target, name) for name in ("starts_s", "idle_bytes", "rewrites")}
            for target in targets
        },
        "runs": [
            {"workload": workload, "peer": name, "rep": rep, **asdict(result)}
            for (workload, name), results in runs.items()
            for rep, result in enumerate(results, 1)
        ],
    }


def profile(options: argparse.Namespace, folder: Path, loop: Loop, core: int | None) -> None:
    """Profile kafka-sidecar. The profiler makes Python code several times slower, so only shares are meaningful."""
    target = Target.through(profiled(options.profile), loop, folder)
    target.start(core)
    try:
        target.check_addresses()
        for workload in chosen(options):
            target.run(workload, WARM_UP_S, options.seconds * 2)
    finally:
        target.stop()
    pstats.Stats(str(options.profile)).sort_stats("tottime").print_stats(25)


def main() -> None:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that started programs are stopped too
    cores = sorted(os.sched_getaffinity(0))
    pinned = len(cores) >= 2
    if pinned:
        os.sched_setaffinity(0, {cores[1]})
    core = cores[0] if pinned else None
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        if options.profile:
            profile(options, Path(folder), Loop(), core)
        else:
            compare(options, Path(folder), Loop(), (core, pinned))


if __name__ == "__main__":
    main()
