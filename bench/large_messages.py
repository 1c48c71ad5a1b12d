"""The cost of large messages: stored in slices, compared with the same messages in a topic that allows them whole.

usage: large_messages.py [--messages N] [--reps N] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from audit_clients import requests_of
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.scenarios.target import SILENT, create_topic
from rig import report
from rig.process import cpu_ns

CONFIG = "large_messages: {topics: [{name: split}]}\n"
WHOLE, SPLIT = TOPICS = ("whole", "split")
LIMITS = {WHOLE: 64 << 20, SPLIT: 1 << 20}  # max.message.bytes
LARGE_BYTES, SMALL_BYTES = 10 << 20, 1 << 10
MIXED, MIXED_LARGE_BYTES, MIXED_PER_S = 2000, 2 << 20, 400  # messages of a run, each hundredth of them large
TIMEOUT_S = 60.0
MAX_RATIO, MAX_RATIO_OF_SMALL, MAX_FETCHES = 1.5, 1.2, 2.0


@dataclass(frozen=True, slots=True)
class Run:
    """What a message costs."""

    wall_ms: float
    cpu_ms: float  # of the sidecar
    fetches: float = 0.0  # of the client


class Rig:
    """A broker, a sidecar and values; each run has a topic of its own partition, from where it is."""

    def __init__(self, cluster: Cluster, sidecar: Sidecar) -> None:
        self.cluster, self.sidecar = cluster, sidecar
        self.value, self.mixed_value, self.small = map(os.urandom, (LARGE_BYTES, MIXED_LARGE_BYTES, SMALL_BYTES))
        self.ends = dict.fromkeys(TOPICS, 0)
        for topic in TOPICS:
            create_topic(cluster.direct, topic, 1, {"max.message.bytes": str(LIMITS[topic])})

    def produce(self, topic: str, messages: int) -> Run:
        """One message after the other is acknowledged."""
        producer = self._producer()
        self._send(producer, topic, self.small)  # connects
        with self._measured(messages) as run:
            for _ in range(messages):
                self._send(producer, topic, self.value)
        producer.close()
        return run()

    def consume(self, topic: str, messages: int) -> Run:
        """What the last `produce` has written."""
        consumer = Consumer({
            "bootstrap.servers": self.sidecar.bootstrap, "group.id": "bench", "logger": SILENT, "check.crcs": False,
        })  # fmt: skip
        end = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)[1]
        consumer.assign([TopicPartition(topic, 0, self.ends[topic])])
        before = requests_of(self.sidecar, "Fetch")
        found = 0
        with self._measured(messages) as run:
            while found < messages:
                (message,) = consumer.consume(1, TIMEOUT_S)
                assert message.error() is None, message.error()
                found += len(message.value() or b"") == LARGE_BYTES
        fetches = requests_of(self.sidecar, "Fetch") - before
        consumer.close()
        self.ends[topic] = end
        measured = run()
        return Run(measured.wall_ms, measured.cpu_ms, fetches / messages)

    def mixed(self, topic: str) -> list[float]:
        """Milliseconds until each small message is acknowledged, where one in a hundred is large."""
        producer, latencies = self._producer(), list[float]()
        began = time.monotonic()
        for number in range(MIXED):
            while (early := began + number / MIXED_PER_S - time.monotonic()) > 0:
                producer.poll(early)
            if number % 100 == 50:
                producer.produce(topic, self.mixed_value)
            else:
                producer.produce(topic, self.small, on_delivery=_noting(latencies))
            producer.poll(0)
        assert producer.flush(TIMEOUT_S) == 0
        producer.close()
        consumer = Consumer({"bootstrap.servers": self.cluster.direct, "group.id": "bench", "logger": SILENT})
        self.ends[topic] = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)[1]
        consumer.close()
        return latencies

    def _producer(self) -> Producer:
        return Producer({
            "bootstrap.servers": self.sidecar.bootstrap, "logger": SILENT, "linger.ms": 0, "enable.idempotence": True,
            "message.max.bytes": 2 * LARGE_BYTES,
        })  # fmt: skip

    def _send(self, producer: Producer, topic: str, value: bytes) -> None:
        producer.produce(topic, value)
        assert producer.flush(TIMEOUT_S) == 0

    @contextmanager
    def _measured(self, messages: int) -> Iterator[Callable[[], Run]]:
        pid = self.sidecar.program.pid
        cpu, wall = cpu_ns(pid), time.monotonic()
        spent: list[Run] = []
        yield lambda: spent[0]
        wall_s, cpu_spent = time.monotonic() - wall, cpu_ns(pid) - cpu
        spent.append(Run(wall_s * 1e3 / messages, cpu_spent / 1e6 / messages))


def _noting(latencies: list[float]) -> Callable[[KafkaError | None, Message], None]:
    began = time.monotonic()

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        latencies.append((time.monotonic() - began) * 1e3)

    return delivered


@contextmanager
def rig(folder: Path) -> Iterator[Rig]:
    config = folder / "sidecar.yaml"
    config.write_text(CONFIG)
    overrides = {"message.max.bytes": LIMITS[WHOLE], "replica.fetch.max.bytes": LIMITS[WHOLE]}
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster.start(NEWEST, 1, overrides))
        flags = ["--config", str(config)]
        sidecar = stack.enter_context(Sidecar.start(cluster.bootstrap, folder / "sidecar.log", flags))
        yield Rig(cluster, sidecar)


@dataclass(slots=True)
class Results:
    produced: dict[str, list[Run]]
    consumed: dict[str, list[Run]]
    small_p99: dict[str, list[float]]


def measure(options: argparse.Namespace, started: Rig) -> Results:
    """In each repetition the topics take turns, in shuffled order; the first one only warms up."""
    chance = random.Random(options.seed)
    found = Results({topic: [] for topic in TOPICS}, {topic: [] for topic in TOPICS}, {topic: [] for topic in TOPICS})
    for rep in range(options.reps + 1):
        for topic in chance.sample(TOPICS, len(TOPICS)):
            produced, consumed = started.produce(topic, options.messages), started.consume(topic, options.messages)
            p99 = quantiles(started.mixed(topic), n=100)[98]
            if rep:
                found.produced[topic].append(produced)
                found.consumed[topic].append(consumed)
                found.small_p99[topic].append(p99)
        print(f"repetition {rep} of {options.reps} done", file=sys.stderr)
    return found


def row(title: str, figures: dict[str, list[float]], target: float | None = None) -> report.Row:
    ratio = median(split / whole for split, whole in zip(figures[SPLIT], figures[WHOLE], strict=True))
    cells = {topic: f"{median(figures[topic]):.1f}" for topic in TOPICS}
    cells[SPLIT] += f" ({ratio:.2f}x)"
    if target is None:
        return report.Row(title, cells)
    cells[SPLIT] += " met" if ratio <= target else " MISSED"
    return report.Row(title, cells, f"<= {target}x")


def of(runs: dict[str, list[Run]], what: Callable[[Run], float]) -> dict[str, list[float]]:
    return {topic: [what(run) for run in runs[topic]] for topic in TOPICS}


def rows(found: Results) -> Sequence[report.Row]:
    fetches = {topic: median(run.fetches for run in found.consumed[topic]) for topic in TOPICS}
    cells = {topic: f"{count:.1f}" for topic, count in fetches.items()}
    cells[SPLIT] += " met" if fetches[SPLIT] <= MAX_FETCHES else " MISSED"
    return [
        row("Produce 10 MB: ms", of(found.produced, lambda run: run.wall_ms), MAX_RATIO),
        row("Produce 10 MB: CPU ms", of(found.produced, lambda run: run.cpu_ms)),
        row("Consume 10 MB: ms", of(found.consumed, lambda run: run.wall_ms), MAX_RATIO),
        row("Consume 10 MB: CPU ms", of(found.consumed, lambda run: run.cpu_ms)),
        report.Row("Consume 10 MB: fetches of the client", cells, f"<= {MAX_FETCHES:g}"),
        row("1 KB, produced beside 1 % of 2 MB: p99 ms", found.small_p99, MAX_RATIO_OF_SMALL),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=20, help="large ones of each run; default: %(default)s")
    parser.add_argument("--reps", type=int, default=5, help="repetitions; default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of the order of runs")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="large-bench-") as folder, rig(Path(folder)) as started:
        found = measure(options, started)
    about = f"{options.reps} repetitions of {options.messages} messages; client, broker and sidecar share all cores."
    report.publish(options, about, report.table(list(rows(found)), TOPICS))


if __name__ == "__main__":
    main()
