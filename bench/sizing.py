"""Cores and memory by what passes: prices of CPU, fitted to short runs, and the page that says how to add them up.

usage: sizing.py [--quick] [--reps N] [--seconds S]
       sizing.py --page

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from pricing import clients, loads, memory, model, page, results, runs
from relay import cpu_model
from rig.secured import write_certificate

QUICK_REPS, QUICK_SECONDS = 2, 0.2
CLIENTS_TIMES = 6  # a run of clients is so many times as long as one of the rig


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reps", type=int, default=5, help="repetitions; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of one run; default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="two short repetitions, whose figures are worth little")
    parser.add_argument("--json", type=Path, default=results.FILE, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--markdown", type=Path, default=page.PAGE, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--page", action="store_true", help="measure nothing: write the page from the JSON file")
    options = parser.parse_args()
    if options.quick:
        options.reps, options.seconds = QUICK_REPS, QUICK_SECONDS
    return options


def measured(options: argparse.Namespace, folder: Path, cores: Sequence[int]) -> results.Results:
    began = time.monotonic()
    core = cores[0] if len(cores) >= 2 else None
    os.sched_setaffinity(0, {cores[-1]})
    cases, kept = loads.cases(), loads.held_out()
    found = runs.measure([*cases, *kept], folder, core, options.reps, options.seconds)
    taken = memory.measure(folder, core, max(0.5, options.seconds * CLIENTS_TIMES))
    os.sched_setaffinity(0, set(cores))  # clients, cluster and sidecar share them
    fitted, unfitted = (
        [with_clients(run, folder, options, taken.idle_cpu_us) for run in each]
        for each in (clients.fitted(), clients.held_out())
    )
    observations = [*map(found.observation, cases), *fitted]
    prices = model.fit(observations)
    print(f"took {time.monotonic() - began:.0f} s", file=sys.stderr)
    return results.Results(
        about=about(options, found.others()),
        others=found.others(),
        is_quick=options.quick,
        prices=prices,
        connection_us={name: median(each) for name, each in sorted(found.connection_us.items())},
        memory=taken,
        fitted=results.check(prices, observations),
        held_out=results.check(prices, [*map(found.observation, kept), *unfitted]),
    )


def with_clients(run: clients.Paced, folder: Path, options: argparse.Namespace, idle_us: float) -> model.Observation:
    """For one Produce request, without what an idle process takes."""
    certificate, seconds = write_certificate(folder), max(1.0, options.seconds * CLIENTS_TIMES)
    each = [clients.measure(run, folder, certificate, seconds) for _ in range(max(1, options.reps // 2))]
    print(f"{run.title} done", file=sys.stderr)
    each.sort(key=lambda one: one.cpu_us / one.traffics[0].requests)
    middle = each[len(each) // 2]
    requests = middle.traffics[0].requests
    figures = [(one.cpu_us - idle_us) / one.traffics[0].requests for one in each]
    traffics = tuple(one.divided_by(requests) for one in middle.traffics)
    return model.Observation(
        f"{run.title}, real clients", traffics, (middle.cpu_us - idle_us) / requests, runs.spread(figures)
    )


def about(options: argparse.Namespace, others: float) -> str:
    machine = f"{os.cpu_count()} cores, {cpu_model()}, Linux {platform.release()}, Python {platform.python_version()}"
    return (
        f"{time.strftime('%Y-%m-%d', time.gmtime())}; {machine}; "
        f"medians of {options.reps} runs of {options.seconds} s; other programs took {others:.0%} of a core."
    )


def main() -> None:
    options = arguments()
    if options.page:
        found = results.Results.read(options.json)
    else:
        with tempfile.TemporaryDirectory(prefix="sizing-bench-") as folder:
            found = measured(options, Path(folder), sorted(os.sched_getaffinity(0)))
        found.write(options.json)
    options.markdown.write_text(page.written(options.markdown.read_text(), found))
    print(page.machine(found), page.prices(found.prices), page.checked(found), sep="\n")


if __name__ == "__main__":
    main()
