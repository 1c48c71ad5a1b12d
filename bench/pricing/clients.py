"""Runs with real clients: librdkafka's producer and consumer, and the mock cluster inside it, each a process.

They pause between requests and share the cores with the sidecar, as clients do: a request then costs more than one of
the rig, because the sidecar has slept and its memory has left the caches.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from rig.process import cpu_ns
from rig.steady import mock_cluster, running

from pricing import model
from pricing.loads import KB, MB, TOPIC, config

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from harness.sidecar import Sidecar  # noqa: E402

WARM_UP_S: Final = 1.5
RECORD_HEAD: Final = 10  # bytes of a record beside its value, about
COUNTED: Final = (
    ("client_to_proxy_request", "Produce"), ("client_to_proxy_request_size_bytes", "Produce"),
    ("client_to_proxy_request", "Fetch"), ("proxy_to_client_response_size_bytes", "Fetch"),
)  # fmt: skip
PRODUCER = """
import json, random, sys, time
from confluent_kafka import Producer
sys.path.append(sys.argv[3])
from pricing.loads import json_value
options = json.loads(sys.argv[2])
producer = Producer({"bootstrap.servers": sys.argv[1], "client.id": "bench", "log_level": 0,
                     "batch.num.messages": options["batch"], "linger.ms": options["linger_ms"],
                     "batch.size": 10_000_000, "message.max.bytes": 20_000_000,
                     "queue.buffering.max.kbytes": 200_000, "compression.type": options["codec"], **options["more"]})
chance = random.Random(1)
is_large = options["size"] > 100_000  # JSON of that size would take seconds to make
values = [chance.randbytes(options["size"])] if is_large else [json_value(options["size"], chance) for _ in range(500)]
began, sent = time.monotonic(), 0
while True:
    due = int((time.monotonic() - began) * options["rate"])
    for number in range(sent, due):
        producer.produce(options["topic"], values[number % len(values)], partition=0)
    sent = due
    producer.poll(0.002)
"""
CONSUMER = """
import json, sys
from confluent_kafka import OFFSET_END, Consumer, TopicPartition
options = json.loads(sys.argv[2])
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "bench", "client.id": "bench", "log_level": 0,
                     "auto.offset.reset": "latest", **options["more"]})
consumer.assign([TopicPartition(options["topic"], 0, OFFSET_END)])
while True:
    consumer.consume(1000, 0.1)
"""


@dataclass(frozen=True, slots=True)
class Paced:
    """Clients at a fixed rate of records, through a sidecar with these features."""

    features: frozenset[str]
    rate: int  # records a second
    size: int  # of a record
    batch: int  # records in a batch, at most
    codec: str = "none"
    consumed: bool = False  # a consumer reads them too

    @property
    def title(self) -> str:
        what = " + ".join(sorted(self.features)) or "relay"
        size = f"{self.size // KB} KB" if self.size >= KB else f"{self.size} B"
        ends = "produced and consumed" if self.consumed else "produced"
        return f"{what}, {self.rate:,}/s of {size} by {self.batch}, {ends}, {self.codec}"


@dataclass(frozen=True, slots=True)
class Measured:
    """One run, in a second of it."""

    cpu_us: float
    traffics: tuple[model.Traffic, ...]  # of producers, and of consumers


def fitted() -> list[Paced]:
    """What the price of a client's pauses is fitted to: relayed alone, so that little else is in it."""
    relay: frozenset[str] = frozenset()
    return [Paced(relay, 500, KB, 1), Paced(relay, 5_000, KB, 16)]


def held_out() -> list[Paced]:
    return [
        Paced(frozenset({model.JSON}), 10_000, KB, 30, "lz4"),
        Paced(frozenset({model.TLS_CLIENTS, model.JSON, model.ADD_HEADER}), 3_000, KB, 15, "zstd", consumed=True),
        Paced(frozenset({model.LIMITS}), 20_000, 100, 150),
    ]


@contextmanager
def sidecar_with(
    features: frozenset[str], brokers: str, folder: Path, certificate: Path, more: str = ""
) -> Iterator[Sidecar]:
    path = folder / "clients.yaml"
    path.write_text(more + config(features, folder, certificate))
    with Sidecar.start(brokers, folder / "clients.log", ["--config", str(path)]) as sidecar:
        yield sidecar


@contextmanager
def clients(run: Paced, sidecar: Sidecar) -> Iterator[None]:
    tls = model.TLS_CLIENTS in run.features
    more = {"security.protocol": "ssl", "enable.ssl.certificate.verification": False} if tls else {}
    options = {"topic": TOPIC, "rate": run.rate, "size": run.size, "batch": run.batch, "codec": run.codec, "more": more,
               "linger_ms": 0 if run.batch == 1 else 1000}  # fmt: skip
    words = ["-c", PRODUCER, sidecar.bootstrap, json.dumps(options), str(ROOT / "bench")]
    with ExitStack() as stack:
        stack.enter_context(running(*words))
        if run.consumed:
            stack.enter_context(running("-c", CONSUMER, sidecar.bootstrap, json.dumps(options)))
        yield


def measure(run: Paced, folder: Path, certificate: Path, seconds: float) -> Measured:
    with mock_cluster() as brokers, sidecar_with(run.features, brokers, folder, certificate) as sidecar:
        pid = sidecar.program.popen.pid
        with clients(run, sidecar):
            time.sleep(WARM_UP_S)
            before, before_ns, began = Counts.of(sidecar), cpu_ns(pid), time.monotonic()
            time.sleep(seconds)
            after_ns, took, after = cpu_ns(pid), time.monotonic() - began, Counts.of(sidecar)
    return Measured((after_ns - before_ns) / 1e3 / took, traffics(run, (after - before) / took))


@dataclass(frozen=True, slots=True)
class Counts:
    """What a sidecar has counted."""

    produces: float
    produced_bytes: float
    fetches: float
    fetched_bytes: float

    @classmethod
    def of(cls, sidecar: Sidecar) -> Counts:
        with urllib.request.urlopen(f"{sidecar.admin}/metrics", timeout=10) as page:
            families = list(text_string_to_metric_families(page.read().decode()))
        found = {
            (sample.name, sample.labels.get("api_key")): sample.value for one in families for sample in one.samples
        }
        return cls(*(found.get((f"kafka_sidecar_{name}_total", api), 0.0) for name, api in COUNTED))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __truediv__(self, seconds: float) -> Counts:
        return Counts(*(one / seconds for one in astuple(self)))


def traffics(run: Paced, counts: Counts) -> tuple[model.Traffic, ...]:
    """In a second. What consumers read is relayed: no feature of `Paced` looks into it."""
    plain_mb = run.rate * (run.size + RECORD_HEAD) / MB
    paced = run.features | {model.PACED}
    produced = model.Traffic(counts.produces, run.rate, counts.produced_bytes / MB, plain_mb, run.codec, paced)
    if not run.consumed:
        return (produced,)
    relayed = frozenset({model.PACED}) | run.features & {model.TLS_CLIENTS, model.TLS_BROKERS}
    return (produced, model.Traffic(counts.fetches, run.rate, counts.fetched_bytes / MB, plain_mb, "none", relayed))
