"""What open pages cost the sidecar: its CPU at a fixed rate of records, without a reader of /live and with ten.

usage: page.py [--rate N] [--readers N] [--seconds S] [--reps N]

The cluster is the mock inside librdkafka, in a process of its own; so is the producer. How to read it: bench/README.md
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
from rig.process import cpu_ns  # noqa: E402

# As the views ask: Now, Topics, Rejections, Connections, and the others.
PARTS = ("?with=traffic", "?with=topics,traffic", "?with=rejections", "?with=connections", "")
LEASE_S = 3.5  # until nothing is counted for the readers before
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


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def read(address: str, ended: threading.Event) -> None:
    """One open page."""
    with urllib.request.urlopen(address) as response:
        while not ended.is_set():
            response.read1(1 << 16)


@contextmanager
def readers(sidecar: Sidecar, count: int) -> Iterator[None]:
    ended = threading.Event()
    addresses = [f"{sidecar.admin}/live{PARTS[number % len(PARTS)]}" for number in range(count)]
    threads = [threading.Thread(target=read, args=(one, ended), daemon=True) for one in addresses]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(5)


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def share(pid: int, seconds: float) -> float:
    """Of one CPU."""
    before, began = cpu_ns(pid), time.perf_counter_ns()
    time.sleep(seconds)
    return (cpu_ns(pid) - before) / (time.perf_counter_ns() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=50_000, help="records a second; default: %(default)s")
    parser.add_argument("--readers", type=int, default=10, help="open pages; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of one run; default: %(default)s")
    parser.add_argument("--reps", type=int, default=7, help="repetitions; default: %(default)s")
    parser.add_argument("--checked", action="store_true", help="with the policy json on the topic")
    options = parser.parse_args()
    runs: dict[str, list[float]] = {"none": [], "open": []}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cluster = stack.enter_context(running(str(ROOT / "examples" / "mock_cluster.py")))
        assert cluster.stdout is not None
        brokers = cluster.stdout.readline().strip()
        config = Path(folder) / "sidecar.yaml"
        config.write_text("topics: [{name: bench, policy: json}]\n" if options.checked else "log: {level: info}\n")
        flags = ["--config", str(config)]
        sidecar = stack.enter_context(Sidecar.start(brokers, Path(folder) / "sidecar.log", flags))
        stack.enter_context(running("-c", PRODUCER, sidecar.bootstrap, str(options.rate)))
        pid = sidecar.program.popen.pid
        time.sleep(WARM_UP_S)
        for _ in range(options.reps):
            runs["none"].append(share(pid, options.seconds))
            with readers(sidecar, options.readers):
                time.sleep(1)
                runs["open"].append(share(pid, options.seconds))
            time.sleep(LEASE_S)
        print(f"{options.rate:,} records/s, {options.readers} open pages, memory at the end {memory(pid) >> 20} MB")
    none, opened = (statistics.median(one) for one in runs.values())
    ratio = statistics.median(after / before for before, after in zip(runs["none"], runs["open"], strict=True))
    print(f"CPU without a page {none:.3f}, with them {opened:.3f}: {ratio:.2f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
