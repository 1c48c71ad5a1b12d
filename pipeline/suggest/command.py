"""`kafka-sidecar pipeline suggest-policy`: from flags to a configuration, and to what it would have rejected."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from kafka_sidecar.pipeline.records.kafka_log import Bound, LogError, Ranges, find_ranges
from kafka_sidecar.pipeline.records.segments import find_segments
from kafka_sidecar.pipeline.records.slices import cut_slices
from kafka_sidecar.pipeline.replay import command as replay
from kafka_sidecar.pipeline.replay.console import run_with_progress, show
from kafka_sidecar.pipeline.replay.job import Job as ReplayJob
from kafka_sidecar.pipeline.replay.report import Report
from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.pipeline.suggest.console import show_proposal
from kafka_sidecar.pipeline.suggest.files import write_files
from kafka_sidecar.pipeline.suggest.job import Job, summarize
from kafka_sidecar.pipeline.suggest.json_schema import Options
from kafka_sidecar.pipeline.suggest.proposal import Proposal, propose
from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.security.client_settings import client_settings

FAILURES = replay.FAILURES
REPORT = "report.json"
# Of the sidecar's configuration, for the replay of what is suggested.
KEPT = ("pipeline", "validation", "limits", "large_messages")


@dataclass(frozen=True, slots=True)
class Request:
    """What is read, and how much is said about it."""

    topic: str
    first: Bound | None = None
    end: Bound | None = None
    last: int | None = None  # records of each partition
    fraction: float = 1.0
    segments: Path | None = None
    options: Options = field(default_factory=Options)
    samples: int = 3
    path: str = "kafka-sidecar-suggestion"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What holds for a topic, the file that says it, and what that would have rejected."""

    proposal: Proposal
    file: Path
    seconds: float  # to read and to summarize
    replayed: Report | None  # None: no policy was found


def main(config: Config, request: Request, as_json: bool) -> None:
    """Run the job and print what it has found. Raises what `suggest` does."""
    found = suggest(config, request, Console(stderr=True))
    console = Console()
    if as_json:
        console.file.write(_json(found) + "\n")
        return
    show_proposal(found.proposal, found.seconds, console)
    if found.replayed is not None:
        show(found.replayed, None, console)
    console.print(f"configuration: {found.file}, report: {request.path}/{REPORT}", highlight=False, soft_wrap=True)


def suggest(config: Config, request: Request, console: Console) -> Suggestion:
    """Run the job, write the files, and replay what they say over the same records.

    Raises:
        ValueError: a flag or the configuration is wrong.
        One of `FAILURES`: the topic cannot be read, or a task has failed.
    """
    # Before Spark, which takes seconds to start.
    if request.segments is not None:
        slices, ranges = find_segments(request.segments, [request.topic]), {}
    else:
        settings = client_settings(config.bootstrap_servers, config.pipeline.kafka)
        found = find_ranges(settings, [request.topic], request.first, request.end)
        slices, ranges = [], _last(found, request.last)
        if all(first >= end for first, end in ranges.values()):
            raise LogError(f"{request.topic}: there is no record in this range")
    quiet = {"spark.ui.showConsoleProgress": "false"} | config.pipeline.spark
    spark = start_session(config.pipeline.model_copy(update={"spark": quiet}), "suggest-policy", uses_kafka=False)
    slices = slices or cut_slices(ranges, spark.sparkContext.defaultParallelism)
    begun = time.monotonic()
    job = Job(config, request.fraction)
    summary = run_with_progress(spark, "read", console, lambda: summarize(spark, job, slices))
    seconds = time.monotonic() - begun
    if not summary.records:
        raise LogError(f"{request.topic}: there is no record that can be read in this range, or none in the sample")
    proposal = propose(request.topic, summary, request.options)
    folder = Path(request.path)
    file = write_files(proposal, config.bootstrap_servers, folder)
    replayed = None
    if proposal.policies:
        again = ReplayJob(_with_policies(config, file.absolute()))
        policies, notes = replay.describe_policies(again, [request.topic])
        of_replay = replay.Request((request.topic,), samples=request.samples, path=f"{request.path}/replay")
        replayed = replay.run(spark, again, slices, of_replay, policies, notes, console)
    suggestion = Suggestion(proposal, file, seconds, replayed)
    (folder / REPORT).write_text(_json(suggestion) + "\n", "utf-8")
    return suggestion


def _last(ranges: Ranges, last: int | None) -> Ranges:
    if last is None:
        return ranges
    return {one: (max(first, end - last), end) for one, (first, end) in ranges.items()}


def _with_policies(config: Config, file: Path) -> Config:
    """What the file says, for the topic as it is read."""
    return load(file, {}, {}).model_copy(update={name: getattr(config, name) for name in KEPT})


def _json(suggestion: Suggestion) -> str:
    found: dict[str, Any] = asdict(suggestion)
    return json.dumps(found, indent=2, ensure_ascii=False, default=str)
