"""What an open tap costs the sidecar: its CPU at a fixed rate of records, without a tap and with one of each kind.

usage: tap.py [--rate N] [--seconds S] [--reps N] [--consume]

The cluster is the mock inside librdkafka, in a process of its own; so are producer and consumer. How to read it:
bench/README.md
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from harness.sidecar import Sidecar  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
TAPS = {
    "records": "kind=records",
    "records of another topic": "kind=records&topic=other",
    "requests": "kind=requests",
    "rejections": "kind=rejections",
}
WARM_UP_S = 3.0
PRODUCER = """
import sys, time
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1], "client.id": "bench", "linger.ms": 5, "log_level": 0})
VALUE = b'{"number": 1, "note": "' + b"." * 76 + b'"}'
rate, began, sent = int(sys.argv[2]), time.monotonic(), 0
while True:
    due = int((time.monotonic() - began) * rate)
    for _ in range(due - sent):
        producer.produce("bench", VALUE)
    sent = due
    producer.poll(0.002)
"""
CONSUMER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "bench", "log_level": 0})
consumer.subscribe(["bench"])
while True:
    consumer.consume(1000, 0.1)
"""


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def tapped(sidecar: Sidecar, query: str) -> Iterator[list[int]]:
    """An open tap; the bytes that were read of it."""
    ended, sizes = threading.Event(), [0]

    def read() -> None:
        with urllib.request.urlopen(f"{sidecar.admin}/tap?{query}") as response:
            while not ended.is_set():
                sizes[0] += len(response.read1(1 << 16))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield sizes
    finally:
        ended.set()
        thread.join(10)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def share(pid: int, seconds: float) -> float:
    """Of one CPU."""
    before, began = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_s(pid) - before) / (time.monotonic() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=50_000, help="records a second; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of one run; default: %(default)s")
    parser.add_argument("--reps", type=int, default=5, help="repetitions; default: %(default)s")
    parser.add_argument("--checked", action="store_true", help="with the policy json on the topic")
    parser.add_argument("--consume", action="store_true", help="a consumer reads them, too")
    options = parser.parse_args()
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in TAPS}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cluster = stack.enter_context(running(str(ROOT / "examples" / "mock_cluster.py")))
        assert cluster.stdout is not None
        brokers = cluster.stdout.readline().strip()
        config = Path(folder) / "sidecar.yaml"
        config.write_text("topics: [{name: bench, policy: json}]\n" if options.checked else "log: {level: info}\n")
        flags = ["--config", str(config)]
        sidecar = stack.enter_context(Sidecar.start(brokers, Path(folder) / "sidecar.log", flags))
        stack.enter_context(running("-c", PRODUCER, sidecar.bootstrap, str(options.rate)))
        if options.consume:
            stack.enter_context(running("-c", CONSUMER, sidecar.bootstrap))
        pid = sidecar.program.popen.pid
        time.sleep(WARM_UP_S)
        for _ in range(options.reps):
            for name, query in TAPS.items():
                without = share(pid, options.seconds)
                with tapped(sidecar, query):
                    time.sleep(1)
                    runs[name].append((without, share(pid, options.seconds)))
    print(f"{options.rate:,} records/s; CPU of the sidecar without a tap, and with one:")
    for name, pairs in runs.items():
        without, opened = (statistics.median(one) for one in zip(*pairs, strict=True))
        ratio = statistics.median(after / before for before, after in pairs)
        print(f"{name}: {without:.3f}, {opened:.3f}: {ratio:.2f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
