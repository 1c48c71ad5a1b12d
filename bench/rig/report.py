"""One table of all runs: a row per measure, a column per peer, ratios to haproxy, targets met or missed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rig.driver import Result, Workload
from rig.target import Target

YARDSTICK = "haproxy"
NOISE = 0.02  # of a ratio of 1, from run to run
START_TARGET_MS, IDLE_TARGET_MB, P50_TARGET_US = 500.0, 45.0, 150.0

Runs = dict[tuple[str, str], list[Result]]  # (workload's title, target's name) -> one result per repetition


@dataclass(frozen=True, slots=True)
class Row:
    """One measure: a text per target, and the limit to meet."""

    measure: str
    cells: dict[str, str]
    target: str = ""


def rows(workloads: Sequence[Workload], targets: Sequence[Target], runs: Runs) -> list[Row]:
    found: list[Row] = []
    for workload in workloads:
        found.append(_cpu_row(workload, targets, runs))
        if workload.is_latency:
            found += (_p50_row(workload, targets, runs), _p99_row(workload, targets, runs))
        else:
            found.append(_rate_row(workload, targets, runs))
    return [*found, *_process_rows([target for target in targets if target.peer], runs)]


def _cpu_row(workload: Workload, targets: Sequence[Target], runs: Runs) -> Row:
    cells = {}
    yardstick = runs.get((workload.title, YARDSTICK), [])
    for target in targets:
        results = runs[workload.title, target.name]
        if target.peer is None:
            continue
        cpu_us = median(run.cpu_us_per_request for run in results)
        cell = f"{cpu_us:.{2 if cpu_us < 10 else 1 if cpu_us < 100 else 0}f}"
        if yardstick:
            ratio = cpu_ratio(results, yardstick)
            cell += f" ({ratio:.2f}x){_verdict(target, ratio, workload.target)}"
        cells[target.name] = cell
    limit = f"<= {workload.target:.1f}x {YARDSTICK}" if workload.target else ""
    return Row(f"{workload.title}: CPU us/request", cells, limit)


def compared_cells(
    workload: Workload, targets: Sequence[Target], runs: Runs, limits: Mapping[str, tuple[str, float | None]],
    per: int = 1,
) -> dict[str, str]:  # fmt: skip
    """CPU time of each target, and of those with a limit how many times that of another one it is.

    Args:
        workload: that of the row.
        targets: the columns.
        runs: all of them.
        limits: with what a target is compared, and the most that it may cost; None: it is shown alone.
        per: of how many, in one request.
    """
    cells = {}
    for target in targets:
        results = runs[workload.title, target.name]
        cells[target.name] = f"{median(run.cpu_us_per_request for run in results) / per:.3g}"
        if (compared := limits.get(target.name)) is not None:
            baseline, most = compared
            ratio = cpu_ratio(results, runs[workload.title, baseline])
            met = "" if most is None else " met" if ratio <= most + NOISE else " MISSED"
            cells[target.name] += f" ({ratio:.2f}x){met}"
    return cells


def cpu_ratio(results: Sequence[Result], yardstick: Sequence[Result]) -> float:
    """Median over the repetitions of the ratio within one: a disturbance of a whole repetition cancels out."""
    return median(
        ours.cpu_us_per_request / theirs.cpu_us_per_request for ours, theirs in zip(results, yardstick, strict=True)
    )


def _p50_row(workload: Workload, targets: Sequence[Target], runs: Runs) -> Row:
    direct = _latencies_us(runs[workload.title, "direct"], 0)
    cells = {}
    for target in targets:
        ours = _latencies_us(runs[workload.title, target.name], 0)
        cells[target.name] = f"{median(ours):.0f}"
        if target.peer:
            added = median(through - without for through, without in zip(ours, direct, strict=True))
            cells[target.name] += f" ({added:+.0f}){_verdict(target, added, P50_TARGET_US)}"
    return Row(f"{workload.title}: p50 us", cells, f"<= direct + {P50_TARGET_US:.0f}")


def _p99_row(workload: Workload, targets: Sequence[Target], runs: Runs) -> Row:
    cells = {target.name: f"{median(_latencies_us(runs[workload.title, target.name], 1)):.0f}" for target in targets}
    return Row(f"{workload.title}: p99 us", cells)


def _latencies_us(results: Sequence[Result], which: int) -> list[float]:
    return [run.latency_s[which] * 1e6 for run in results if run.latency_s]


def _rate_row(workload: Workload, targets: Sequence[Target], runs: Runs) -> Row:
    cells = {}
    for target in targets:
        results = runs[workload.title, target.name]
        cells[target.name] = f"{median(run.requests / run.wall_s for run in results):.0f}"
        if target.peer:
            cells[target.name] += f" ({median(run.cpu_s / run.wall_s for run in results):.0%} busy)"
    return Row(f"{workload.title}: requests/s", cells)


def _process_rows(proxies: Sequence[Target], runs: Runs) -> list[Row]:
    starts, idle, peak = {}, {}, {}
    for proxy in proxies:
        start_ms, idle_mb = median(proxy.starts_s) * 1e3, proxy.idle_bytes / 1e6
        starts[proxy.name] = f"{start_ms:.0f}{_verdict(proxy, start_ms, START_TARGET_MS)}"
        idle[proxy.name] = f"{idle_mb:.1f}{_verdict(proxy, idle_mb, IDLE_TARGET_MB)}"
        largest = max(
            run.peak_rss_bytes for (_, name), results in runs.items() if name == proxy.name for run in results
        )
        peak[proxy.name] = f"{largest / 1e6:.1f}"
    return [
        Row("start to first ApiVersions answer, ms", starts, f"<= {START_TARGET_MS:.0f}"),
        Row("resident memory idle, MB", idle, f"<= {IDLE_TARGET_MB:.0f}"),
        Row("resident memory at most, MB", peak),
        Row("rewrites addresses", {proxy.name: "yes" if proxy.rewrites else "no" for proxy in proxies}),
    ]


def _verdict(target: Target, figure: float, limit: float | None) -> str:
    if limit is None or target.peer is None or target.peer.is_yardstick:
        return ""
    return " met" if figure <= limit else " MISSED"


def table(found: Sequence[Row], names: Sequence[str]) -> str:
    """The rows as an aligned Markdown table; without the column of targets if no row has one."""
    lines = [["", *names, "target"]]
    lines += [[row.measure, *(row.cells.get(name, "") for name in names), row.target] for row in found]
    if not any(row.target for row in found):
        lines = [line[:-1] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    return "\n".join(
        "| "
        + " | ".join(
            _aligned(cell, width, left=not at) for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        + " |"
        for line in lines
    )


def publish(options: argparse.Namespace, *parts: str) -> None:
    """Print the report, and write it to the file of ``--markdown``; empty parts are omitted."""
    text = "\n\n".join(part for part in parts if part)
    print(f"\n{text}")
    if options.markdown:
        options.markdown.write_text(f"{text}\n")


def _aligned(cell: str, width: int, *, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)
