"""Sends spoilt requests of all APIs to a sidecar with all features, in front of a real broker, with an honest client
beside: ``python tests/fuzz/sidecar.py SECONDS [SEED]``.

A line that names a bug, an unexpected end, a record of the honest client that is lost or twice, or a long turn of the
event loop ends it with exit code 1. Requests that were sent before a long turn are kept in ``build/fuzz``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka import Consumer, Producer
from harness import admin_pages, json_lines
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST, ROOT
from hostile.watch import Watch
from integration.raw import Raw
from integration.scenarios.target import create_topic

from fuzz.batches import sample_batch, spoilt
from fuzz.mutations import mutated
from fuzz.samples import roots, sample, versions
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import encode_request
from kafka_sidecar.codec.message import Message, Struct, replace_fields
from kafka_sidecar.codec.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

HONEST = "honest"
TOPICS = {"orders": 3, "large": 3, "masked": 3, HONEST: 1}
CONFIG = """
authorization:
  rules:
    - {permission: deny, topics: [honest], apis: [DeleteTopics, DeleteRecords, AlterConfigs, IncrementalAlterConfigs]}
    - {topics: ["*"], groups: ["*"], transactional_ids: ["*"]}
    - {cluster: true, operations: [describe, describe_configs, create, idempotent_write]}
topic_configs: {topic: __topic_configs}
policies:
  small: {type: cel, expression: "value != null"}
topics:
  - {name: orders, policy: json}
  - {name: masked, policy: small, mode: shadow}
interceptors:
  - {type: add_header, topics: [orders, masked], headers: {tenant: acme}}
  - {type: mask_fields, topics: [masked], fields: [$.card]}
  - {type: commit_metadata}
  - {type: skip_identical_commits}
  - {type: latency}
large_messages:
  topics: [{name: large}, {name: orders, accept_segments: true}]
audit: {topic: audited, auditor_reporting_interval_ms: 1000, auditor_reporting_delay_ms: 100}
"""
CONNECTIONS = 12
LONG_S = 0.25  # a turn of the event loop, where two cores are shared with the fuzzer, a broker and a client
QUIET_S = 0.2
# Those that could stop the cluster, or keep a broker busy for as long as they say.
SHORT = {"max_wait_ms": 100, "timeout_ms": 500, "rebalance_timeout_ms": 500, "session_timeout_ms": 6000}


def requests() -> list[type[Message]]:
    """Every declared request."""
    return [one for one in roots() if one.__name__.endswith("Request") and one.declaration_.api_key is not None]


def realistic(random: Random, value: Any, ids: Sequence[bytes]) -> Any:
    """A sample whose names, ids, partitions and records are mostly those of the cluster."""
    if not isinstance(value, Struct):
        return tuple(realistic(random, one, ids) for one in value) if isinstance(value, tuple) else value
    changed: dict[str, Any] = {}
    for about in value.declaration_.fields:
        old = getattr(value, about.name)
        if about.name in SHORT:
            changed[about.name] = SHORT[about.name]
        elif about.name == "topic_id" and random.random() < 0.7:
            changed[about.name] = random.choice(ids)
        elif about.name in ("index", "partition", "partition_index") and random.random() < 0.8:
            changed[about.name] = random.randrange(3)
        elif about.name in ("topic", "name", "topic_name", "resource_name") and isinstance(old, str):
            changed[about.name] = random.choice(["orders", "large", "masked", old])
        elif about.name == "records" and isinstance(old, bytes):
            batch = sample_batch(random)
            changed[about.name] = spoilt(random, batch) if random.random() < 0.3 else batch
        else:
            changed[about.name] = realistic(random, old, ids)
    return replace_fields(value, **changed)


class Fuzzer:
    """Connections that send requests, whole and spoilt, in pieces and pipelined."""

    def __init__(self, bootstrap: str, seed: int, ids: Sequence[bytes]) -> None:
        self.host, _, port = bootstrap.rpartition(":")
        self.port = int(port)
        self.random = Random(seed)
        self.ids = ids
        self.kinds = requests()
        self.sent: Counter[str] = Counter()
        self.connections = self.answered = 0
        self.last: deque[tuple[float, bytes]] = deque(maxlen=500)

    def frame(self) -> bytes:
        random = self.random
        kind = random.choice(self.kinds)
        version = random.choice(versions(kind))
        message = realistic(random, sample(random, kind, version), self.ids)
        client_id = random.choice(["app", None, "\udcff", "x" * 200])
        data = encode_request(message, version, random.randrange(1 << 20), client_id)
        self.sent[ApiKey(kind.declaration_.api_key or 0).name] += 1
        if random.random() < 0.5:
            data = mutated(random, data, data[4:])
            if random.random() < 0.8:  # a frame of its length
                data = (len(data) - 4).to_bytes(4, "big", signed=True) + data[4:] if len(data) > 4 else data
        self.last.append((time.time(), data))
        return data

    async def run(self, until: float) -> None:
        await asyncio.gather(*(self._connections(until) for _ in range(CONNECTIONS)))

    async def _connections(self, until: float) -> None:
        while time.time() < until:
            self.connections += 1
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._one()
            await asyncio.sleep(0)

    async def _one(self) -> None:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            for _ in range(self.random.choice((1, 3, 10))):
                data = b"".join(self.frame() for _ in range(self.random.choice((1, 1, 4))))
                cut = self.random.randrange(len(data) + 1)
                for piece in (data[:cut], data[cut:]):
                    writer.write(piece)
                    await writer.drain()
                    if self.random.random() < 0.2:
                        await asyncio.sleep(0.005)
                with suppress(TimeoutError):
                    while chunk := await asyncio.wait_for(reader.read(1 << 16), QUIET_S):
                        self.answered += len(chunk)
                        if self.random.random() < 0.3:
                            break
                if reader.at_eof():
                    break
        finally:
            if self.random.random() < 0.5:
                writer.transport.abort()
            writer.close()


@dataclass
class Honest:
    """A producer and a consumer of one topic."""

    bootstrap: str
    worst_ms: float = 0.0
    acked: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    over: threading.Event = field(default_factory=threading.Event)
    flushed: threading.Event = field(default_factory=threading.Event)  # no more is acknowledged

    def produce(self) -> None:
        producer, number = (
            Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 2}),
            0,
        )
        while not self.over.wait(0.02):
            began, own = time.perf_counter(), number

            def done(error: object, _: object, began: float = began, own: int = own) -> None:
                if error is not None:
                    self.errors[str(error)] += 1
                    return
                self.acked.append(own)
                self.worst_ms = max(self.worst_ms, (time.perf_counter() - began) * 1e3)

            producer.produce(HONEST, json.dumps({"number": own}).encode(), on_delivery=done)
            producer.poll(0)
            number += 1
        producer.flush(60)
        self.flushed.set()

    def consume(self) -> None:
        group = {"group.id": "honest", "auto.offset.reset": "earliest", "log_level": 2}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **group})
        consumer.subscribe([HONEST])
        deadline = None
        while deadline is None or (time.time() < deadline and len(self.read) < len(self.acked)):
            if deadline is None and self.flushed.is_set():
                deadline = time.time() + 60
            if (record := consumer.poll(0.2)) is not None and record.error() is None:
                self.read.append(json.loads(record.value() or b"")["number"])
        consumer.close()


class Keeper:
    """Keeps the requests that were sent before a long turn."""

    def __init__(self, fuzzer: Fuzzer, watch: Watch) -> None:
        self.folder = ROOT / "build" / "fuzz"
        self.turns: list[float] = []
        self._fuzzer, self._watch = fuzzer, watch

    async def run(self, until: float) -> None:
        while time.time() < until:
            await asyncio.sleep(0.5)
            worst, self._watch.delay.worst_s = self._watch.delay.worst_s, 0.0
            self.turns.append(worst)
            if worst > LONG_S:
                self.folder.mkdir(parents=True, exist_ok=True)
                name = self.folder / f"{time.time():.0f}-{worst * 1e3:.0f}ms.hex"
                since = time.time() - 2 - worst
                name.write_text("\n".join(data.hex() for at, data in self._fuzzer.last if at > since))


def fuzz(seconds: float, seed: int) -> int:
    """The exit code."""
    with tempfile.TemporaryDirectory() as work, Cluster.start(NEWEST, 1) as cluster:
        for name, partitions in TOPICS.items():
            create_topic(cluster.direct, name, partitions)
        (config := Path(work) / "sidecar.yaml").write_text(CONFIG)
        with Raw(cluster.direct) as raw:
            asked = MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in TOPICS if name != HONEST))
            ids = [one.topic_id for one in raw.ask(asked, 12, MetadataResponse).topics]
        log = Path(work) / "sidecar.log"
        with Sidecar.start(cluster.bootstrap, log, ["--config", str(config)]) as sidecar:
            found = attack(sidecar, seconds, seed, ids)
            is_alive = sidecar.program.is_running
            code = sidecar.stop()
        return report(found, log, is_alive, code)


@dataclass(frozen=True, slots=True)
class Found:
    """What a run has shown."""

    fuzzer: Fuzzer
    honest: Honest
    turns: list[float]
    resident_mb: tuple[float, float]
    files: tuple[int, int]
    delay: str


def attack(sidecar: Sidecar, seconds: float, seed: int, ids: Sequence[bytes]) -> Found:
    host, _, port = sidecar.admin.removeprefix("http://").rpartition(":")
    fuzzer, honest = Fuzzer(sidecar.bootstrap, seed, ids), Honest(sidecar.bootstrap)
    threads = [threading.Thread(target=one, daemon=True) for one in (honest.produce, honest.consume)]
    for thread in threads:
        thread.start()
    time.sleep(3)
    with Watch(sidecar.program.pid, (host, int(port))) as watch:
        before, files, keeper, until = (
            watch.resident_mb(),
            watch.open_files(),
            Keeper(fuzzer, watch),
            time.time() + seconds,
        )

        async def both() -> None:
            await asyncio.gather(fuzzer.run(until), keeper.run(until))

        asyncio.run(both())
        honest.over.set()
        for thread in threads:
            thread.join(90)
        time.sleep(5)
        metrics = admin_pages.get(f"{sidecar.admin}/metrics").text
        delay = "\n".join(line for line in metrics.splitlines() if line.startswith("kafka_sidecar_event_loop_delay"))
        return Found(
            fuzzer, honest, sorted(keeper.turns), (before, watch.resident_mb()), (files, watch.open_files()), delay
        )


def report(found: Found, log: Path, is_alive: bool, code: int) -> int:
    lines = json_lines.read(log)
    errors = Counter(line["message"] for line in lines if line.get("level") in ("error", "critical"))
    bugs = [line for line in lines if "bug" in line["message"] or "crashed" in line["message"]]
    blocked = [line for line in lines if line["message"] == "event loop blocked"]
    fuzzer, honest, turns = found.fuzzer, found.honest, found.turns
    print(f"{sum(fuzzer.sent.values()):,} requests of {len(fuzzer.sent)} APIs on {fuzzer.connections:,} connections")
    print(f"answers: {fuzzer.answered:,} bytes; resident {found.resident_mb} MB; files {found.files}")
    print(
        f"longest /livez in half a second: median {turns[len(turns) // 2] * 1e3:.0f} ms, worst {turns[-1] * 1e3:.0f} ms"
    )
    print(f"honest: {len(honest.acked):,} acknowledged, {len(honest.read):,} read, worst {honest.worst_ms:.0f} ms")
    print("errors of the honest client:", dict(honest.errors))
    print("error lines:", dict(errors))
    print(found.delay)
    for line in (*bugs[:5], *blocked[:5]):
        print(json.dumps(line)[:4000])
    is_whole = sorted(honest.acked) == sorted(honest.read)
    is_good = is_alive and code == 0 and not bugs and is_whole and not honest.errors and turns[-1] <= LONG_S
    print("alive" if is_alive else "ENDED", f"exit code {code}", "good" if is_good else "FAILED")
    return 0 if is_good else 1


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    print(f"seed {seed}")
    return fuzz(seconds, seed)


if __name__ == "__main__":
    sys.exit(main())
