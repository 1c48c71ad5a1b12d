"""A sidecar in which records pass at a fixed rate, as what is read at its admin port is measured.

The cluster is the mock inside librdkafka, in a process of its own; so are producer and consumer.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rig.process import cpu_ns

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from harness.sidecar import Sidecar  # noqa: E402

MOCK_CLUSTER = ROOT / "examples" / "mock_cluster.py"
WARM_UP_S = 3.0
END_S = 10.0  # for readers to see that they have ended
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
    """A program in Python."""
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def mock_cluster() -> Iterator[str]:
    """Its bootstrap.servers."""
    with running(str(MOCK_CLUSTER)) as cluster:
        assert cluster.stdout is not None
        yield cluster.stdout.readline().strip()


@contextmanager
def loaded(rate: int, is_checked: bool, consumes: bool = False) -> Iterator[Sidecar]:
    """A sidecar that is warm.

    Args:
        rate: records of 100 bytes a second.
        is_checked: with the policy json on their topic.
        consumes: a consumer reads them, too.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        brokers = stack.enter_context(mock_cluster())
        config = Path(folder) / "sidecar.yaml"
        config.write_text("topics: [{name: bench, policy: json}]\n" if is_checked else "log: {level: info}\n")
        flags = ["--config", str(config)]
        sidecar = stack.enter_context(Sidecar.start(brokers, Path(folder) / "sidecar.log", flags))
        stack.enter_context(running("-c", PRODUCER, sidecar.bootstrap, str(rate)))
        if consumes:
            stack.enter_context(running("-c", CONSUMER, sidecar.bootstrap))
        time.sleep(WARM_UP_S)
        yield sidecar


@contextmanager
def reading(addresses: Sequence[str]) -> Iterator[None]:
    """A reader of each stream, as fast as it comes."""
    ended = threading.Event()
    threads = [threading.Thread(target=_read, args=(one, ended), daemon=True) for one in addresses]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(END_S)


def _read(address: str, ended: threading.Event) -> None:
    with urllib.request.urlopen(address) as response:
        while not ended.is_set():
            response.read1(1 << 16)


def share(pid: int, seconds: float) -> float:
    """What a process takes of one CPU."""
    before, began = cpu_ns(pid), time.perf_counter_ns()
    time.sleep(seconds)
    return (cpu_ns(pid) - before) / (time.perf_counter_ns() - began)
