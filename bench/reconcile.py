"""How `reconcile` grows with events and cores: a Spark standalone cluster of two workers on loopback.

usage: reconcile.py [--events N,N] [--hours N] [--cores N,N] [--forms batch,stream] [--steps N] [--json FILE]

Each worker has one core; the job is started by spark-submit, unchanged. "batch" is one run over all events, "stream" is
`--watch`, to which they come in so many steps. CPU seconds are those that tasks have taken, by Spark's event log, and
those of all processes of the executors, with compiling and garbage collection; so they may be compared between runs on
a busy machine. How to read it: docs/reference/pipeline.md
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import pyspark

from kafka_sidecar.pipeline.reconcile.rows import ROWS
from kafka_sidecar.pipeline.reconcile.tables import Tables
from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.proxy.config.sections import Pipeline

ROOT = Path(__file__).parents[1]
TICKS = os.sysconf("SC_CLK_TCK")
WORKERS, DAEMON_MEMORY = 2, "256m"
LINE = re.compile(r"batch (\d+): (\d+) new events, (\d+) hours computed, rows: (.*); alerts")
# Each copy of the generator's traffic ends long before; what is silent is silent for good.
NOW = "2030-01-01T00:00:00"


@dataclass(frozen=True, slots=True)
class Run:
    events: int
    cores: int
    form: str
    wall_s: float
    batches: int
    task_cpu_s: float
    executor_cpu_s: float
    driver_cpu_s: float
    spilled_mb: float
    shuffled_mb: float
    tables_mb: float
    peak_mb: float  # execution memory of the task that took most
    by_step: dict[str, float]  # CPU seconds of tasks by what the job does
    by_batch: list[tuple[int, float]]  # events, CPU seconds of tasks
    states: str


@dataclass(frozen=True, slots=True)
class Cluster:
    master: str
    workers: Sequence[subprocess.Popen[bytes]]
    log: IO[bytes]


def environment() -> dict[str, str]:
    return os.environ | {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
        "KAFKA_SIDECAR__PIPELINE__RECONCILE__LATENESS": "20m",
        "KAFKA_SIDECAR__PIPELINE__RECONCILE__CLOCK_SKEW": "30s",
        "KAFKA_SIDECAR__PIPELINE__RECONCILE__RETENTION": "3650d",
    }


@contextlib.contextmanager
def cluster(work: Path, memory: str) -> Iterator[Cluster]:
    """A master and its workers, until the end of the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = work / "cluster.log"
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    master = f"spark://127.0.0.1:{port}"
    started = []
    with log.open("wb") as output:
        try:
            for words in (
                ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
                *(
                    ["worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", memory,
                     "--work-dir", str(work / f"worker-{number}"), master]
                    for number in range(WORKERS)
                ),
            ):  # fmt: skip
                words[0] = f"org.apache.spark.deploy.{words[0]}"
                started.append(subprocess.Popen([*command, *words], env=environment(), stdout=output, stderr=output))
            deadline = time.monotonic() + 60
            while log.read_text(errors="replace").count("Successfully registered") < WORKERS:
                if time.monotonic() > deadline:
                    sys.exit(log.read_text(errors="replace")[-3000:])
                time.sleep(0.5)
            yield Cluster(master, started[1:], output)
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()


def run(on: Cluster, work: Path, events: int, cores: int, form: str, steps: int, memory: str) -> Run:
    """One run of the job over the generated events."""
    source, tables, logs = work / "in", work / "tables", work / "logs"
    for folder in (source, tables, logs):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    files = sorted((work / "events").glob("*.parquet"))
    steps = min(steps, len(files)) if form == "stream" else 1
    waiting = [files[len(files) * step // steps : len(files) * (step + 1) // steps] for step in range(steps)]
    ended, begun = ended_cpu(on), time.monotonic()
    usage = os.times()
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", on.master, "--total-executor-cores", str(cores)),
        *("--executor-memory", memory, "--driver-memory", memory, "--conf", "spark.eventLog.enabled=true"),
        *("--conf", f"spark.eventLog.dir=file://{logs}", "--conf", "spark.eventLog.compress=false"),
        *("--conf", "spark.eventLog.rolling.enabled=false", str(ROOT / "pipeline" / "__main__.py"), "reconcile"),
        *("--input", str(source), "--input-format", "parquet", "--path", str(tables), "--now", NOW),
        *(("--watch", "--interval", "0") if form == "stream" else ()),
    ]  # fmt: skip
    feed(source, waiting.pop(0))
    job = subprocess.Popen(
        command, cwd=work, env=environment(), stdout=subprocess.PIPE, stderr=on.log, text=True, start_new_session=True
    )
    lines = []
    try:
        for line in job.stdout or ():
            if found := LINE.match(line):
                lines.append(found)
                if int(found[2]) and waiting:
                    feed(source, waiting.pop(0))
                elif int(found[2]) and form == "stream":
                    os.killpg(job.pid, signal.SIGINT)
        if job.wait() and form == "batch":
            sys.exit((work / "cluster.log").read_text(errors="replace")[-3000:])
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGTERM)
    wall, after = time.monotonic() - begun, os.times()
    driver = after.children_user + after.children_system - usage.children_user - usage.children_system
    tasks = read_log(logs)
    by_step: dict[str, float] = {
        name: round(value, 1) for name, value in sorted(tasks.by_step.items(), key=lambda one: -one[1])
    }
    by_batch = [(int(found[2]), round(tasks.by_batch[found[1]], 1)) for found in lines]
    return Run(
        events, cores, form, wall, len(lines), sum(tasks.by_step.values()), ended_cpu(on) - ended, driver,
        tasks.spilled / 1e6, tasks.shuffled / 1e6, megabytes(tables),
        tasks.peak / 1e6, by_step, by_batch, states_of(tables),
    )  # fmt: skip


def states_of(tables: Path) -> str:
    """The rows of `reconcile` by state: a batch reports those that it has computed, not those of earlier ones."""
    spark = start_session(Pipeline(), "count", uses_kafka=False)
    try:
        rows = Tables(spark, str(tables)).read("reconcile", ROWS).groupBy("state").count().collect()
    finally:
        spark.stop()
    return ", ".join(f"{row[1]} {row.state}" for row in sorted(rows))


def feed(source: Path, files: Sequence[Path]) -> None:
    for file in files:
        os.link(file, source / file.name)


def ended_cpu(on: Cluster) -> float:
    """CPU of the executors that have ended. They are children of their workers."""
    time.sleep(2)  # a worker waits for its executor's end a moment after the application's
    fields = (Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split() for one in on.workers)
    return sum((int(each[13]) + int(each[14])) / TICKS for each in fields)


@dataclass(slots=True)
class Tasks:
    by_step: defaultdict[str, float]
    by_batch: defaultdict[str, float]
    spilled: int = 0
    shuffled: int = 0
    peak: int = 0


def read_log(folder: Path) -> Tasks:
    """What the tasks of one application have taken."""
    tasks = Tasks(defaultdict(float), defaultdict(float))
    steps: dict[int, tuple[str, str]] = {}
    (file,) = folder.iterdir()
    for line in file.open():
        if '"SparkListenerJobStart"' in line:
            event: dict[str, Any] = json.loads(line)
            about = event["Properties"]
            step = about.get("spark.job.description", "").partition("\n")[0]
            steps |= dict.fromkeys(event["Stage IDs"], (step, about.get("streaming.sql.batchId", "")))
        elif '"SparkListenerTaskEnd"' in line:
            event = json.loads(line)
            metrics = event.get("Task Metrics")
            if metrics:
                step, batch = steps[event["Stage ID"]]
                cpu = (metrics["Executor CPU Time"] + metrics["Executor Deserialize CPU Time"]) / 1e9
                tasks.by_step[step] += cpu
                tasks.by_batch[batch] += cpu
                tasks.spilled += metrics["Disk Bytes Spilled"]
                tasks.peak = max(tasks.peak, metrics["Peak Execution Memory"])
                tasks.shuffled += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
    return tasks


def megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def generate(work: Path, events: int, hours: int) -> dict[str, Any]:
    program = ROOT / "tests/pipeline/reconcile/generate.py"
    command = [sys.executable, str(program), str(work / "events"), str(events), str(hours)]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    truth: dict[str, Any] = json.loads(done.stdout)
    return truth


def row(result: Run) -> str:
    per_event = 1e6 * result.executor_cpu_s / result.events
    return (
        f"| {result.events:,} | {result.cores} | {result.form} | {result.batches} | {result.wall_s:.0f} s | "
        f"{result.task_cpu_s:.0f} s | {result.executor_cpu_s:.0f} s | {result.driver_cpu_s:.0f} s | "
        f"{per_event:.0f} µs | {result.shuffled_mb:,.0f} MB | {result.spilled_mb:,.0f} MB | "
        f"{result.peak_mb:,.0f} MB | {result.tables_mb:,.0f} MB |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", default="100000,1000000")
    parser.add_argument("--hours", type=int, default=24, help="of event time")
    parser.add_argument("--cores", default="1,2")
    parser.add_argument("--forms", default="batch,stream")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--memory", default="2g", help="of driver and of each executor")
    parser.add_argument("--json", type=Path)
    flags = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing goes on after `timeout`
    results = []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        with cluster(work, flags.memory) as on:
            for events in map(int, flags.events.split(",")):
                truth = generate(work, events, flags.hours)
                expected = ", ".join(f"{count} {state}" for state, count in truth["states"].items())
                for form in flags.forms.split(","):
                    for cores in map(int, flags.cores.split(",")):
                        results.append(run(on, work, events, cores, form, flags.steps, flags.memory))
                        print(row(results[-1]), flush=True)
                        print("  ", results[-1].by_step, results[-1].by_batch, results[-1].states, expected, flush=True)
                        if form == "batch" and results[-1].states != expected:
                            sys.exit("these are not the states of the truth")
                        if flags.json:
                            flags.json.write_text(json.dumps([asdict(one) for one in results], indent=2))


if __name__ == "__main__":
    main()
