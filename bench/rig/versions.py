"""Two versions of kafka-sidecar in one run: each of our columns has a twin, run with another checkout's program."""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from rig import report
from rig.driver import Result, Workload
from rig.peers import Peer, Setting, found, sidecar_program
from rig.target import Target

Renamed = Sequence[tuple[str, str]]  # settings: (name today, name in the other version)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--before",
        type=_program,
        metavar="PROGRAM",
        help="compare with another version: the kafka-sidecar of its checkout",
    )
    parser.add_argument("--renamed", nargs=2, action="append", default=[], metavar=("NEW", "OLD"),
                        help="a word of the configuration that the other version spells OLD; repeatable")  # fmt: skip


def with_twins(peers: Sequence[Peer], options: argparse.Namespace) -> list[Peer]:
    """The peers, and with ``--before`` for each kafka-sidecar its twin of the other version."""
    if options.before is None:
        return list(peers)
    twins = [twin(peer, options.before, options.renamed) for peer in peers if peer.program == sidecar_program()]
    return [*peers, *twins]


def twin(peer: Peer, program: str, renamed: Renamed = ()) -> Peer:
    """The peer with the same flags and configuration, except for ``renamed`` words, run with another program."""

    def command(setting: Setting) -> list[str]:
        words = [program, *peer.command(setting)[1:]]
        if "--config" in words:
            config = Path(words[words.index("--config") + 1])
            config.write_text(_in_old_words(config.read_text(), renamed))
        return words

    return replace(peer, name=f"{peer.name}, before", command=command, program=program, twin_of=peer.name)


def without_twins(targets: Sequence[Target]) -> list[Target]:
    return [target for target in targets if target.name == target.column]


def comparison(workloads: Sequence[Workload], targets: Sequence[Target], runs: report.Runs) -> str:
    """A table of the cost of each of our columns before and after; empty without twins.

    A ratio is the median of the ratios within a repetition.
    """
    twins = {target.column: target.name for target in targets if target.name != target.column}
    if not twins:
        return ""
    rows = []
    for load in workloads:
        pairs = {name: (runs[load.title, other], runs[load.title, name]) for name, other in twins.items()}
        cells = {name: _cpu(before, after) for name, (before, after) in pairs.items()}
        rows.append(report.Row(f"{load.title}: CPU us/request", cells))
    memory = {name: f"{_peak_mb(runs, other):.1f} -> {_peak_mb(runs, name):.1f}" for name, other in twins.items()}
    rows.append(report.Row("resident memory at most, MB", memory))
    return report.table(rows, list(twins))


def described(options: argparse.Namespace) -> str:
    """The two versions, as printed by their programs: a compiled and an interpreted one would not be comparable."""
    if options.before is None:
        return ""
    before, after = (
        subprocess.run([program, "version"], capture_output=True, text=True, check=True).stdout.strip()
        for program in (options.before, sidecar_program())
    )
    return f"Before: {before}; after: {after}. Before -> after, and after / before within a repetition:"


def _program(text: str) -> str:
    path = found(text)
    if path is None:
        raise argparse.ArgumentTypeError(f"{text} is not a program; name another checkout's .venv/bin/kafka-sidecar")
    return path


def _in_old_words(config: str, renamed: Renamed) -> str:
    for new, old in renamed:
        config = re.sub(rf"\b{re.escape(new)}\b", old, config)
    return config


def _cpu(before: Sequence[Result], after: Sequence[Result]) -> str:
    was, now = (median(run.cpu_us_per_request for run in results) for results in (before, after))
    return f"{_short(was)} -> {_short(now)} ({report.cpu_ratio(after, before):.2f}x)"


def _short(figure: float) -> str:
    return f"{figure:.0f}" if figure >= 100 else f"{figure:.3g}"


def _peak_mb(runs: report.Runs, name: str) -> float:
    return max(run.peak_rss_bytes for (_, peer), results in runs.items() if peer == name for run in results) / 1e6
