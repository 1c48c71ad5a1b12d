"""Clients that produce or consume so many records as fast as they can, each as its users would write it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Message, Producer
from harness.tool_host import ToolHost
from harness.versions import ROOT
from integration.scenarios.target import SILENT
from kafka import KafkaConsumer, KafkaProducer

SIZE = 1000  # bytes of a value
LIMIT_S = 180.0
BUILD_LIMIT_S = 600
SOURCES, BUILT = ROOT / "tests" / "clients" / "go", ROOT / ".cache" / "clients"
TOOLS = "org.apache.kafka.tools"


@dataclass(frozen=True, slots=True)
class Ask:
    """What a client is asked to do."""

    bootstrap: str
    topic: str
    client_id: str
    records: int


@dataclass(frozen=True, slots=True)
class Done:
    """What became of it."""

    arrived: int  # records
    failed: tuple[str, ...]  # errors that the application has seen
    seconds: float  # from the first record to the last response


def timed(run: Callable[[], tuple[int, list[str]]]) -> Done:
    began = time.monotonic()
    arrived, failed = run()
    return Done(arrived, tuple(failed), time.monotonic() - began)


def java_produces(host: ToolHost, ask: Ask, *properties: str) -> Done:
    """Kafka's own ProducerPerformance, whose last line has the records that were acknowledged, and their rate."""
    printed = host.run(
        f"{TOOLS}.ProducerPerformance", "--topic", ask.topic, "--num-records", ask.records, "--record-size", SIZE,
        "--throughput", -1, "--producer-props", f"bootstrap.servers={ask.bootstrap}", f"client.id={ask.client_id}",
        *properties, limit_s=LIMIT_S,
    )  # fmt: skip
    count, rate = re.findall(r"^(\d+) records sent, ([\d.]+) records/sec", printed, re.MULTILINE)[-1]
    errors = [line for line in printed.splitlines() if "Exception" in line]
    return Done(int(count), tuple(errors), int(count) / float(rate))


def java_consumes(host: ToolHost, ask: Ask) -> Done:
    def run() -> tuple[int, list[str]]:
        printed = host.run(
            f"{TOOLS}.ConsumerPerformance", "--bootstrap-server", ask.bootstrap, "--topic", ask.topic,
            "--num-records", ask.records, "--group", ask.client_id, "--timeout", 30_000,
            "--command-property", f"client.id={ask.client_id}", limit_s=LIMIT_S,
        )  # fmt: skip
        line = printed.strip().splitlines()[-1].split(", ")
        return int(line[4]), [one for one in printed.splitlines() if "Exception" in one]

    return timed(run)


def librdkafka_produces(ask: Ask, **settings: str | int) -> Done:
    failed: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error.name())

    def run() -> tuple[int, list[str]]:
        producer = Producer(
            {"bootstrap.servers": ask.bootstrap, "client.id": ask.client_id, "logger": SILENT, **settings}
        )
        for _ in range(ask.records):
            while True:
                try:
                    producer.produce(ask.topic, bytes(SIZE), on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        left = producer.flush(LIMIT_S)
        return ask.records - len(failed) - left, failed

    return timed(run)


def librdkafka_consumes(ask: Ask) -> Done:
    def run() -> tuple[int, list[str]]:
        consumer = Consumer(
            {
                "bootstrap.servers": ask.bootstrap, "client.id": ask.client_id, "group.id": ask.client_id,
                "auto.offset.reset": "earliest", "logger": SILENT,
            }
        )  # fmt: skip
        consumer.subscribe([ask.topic])
        read, failed, until = 0, [], time.monotonic() + LIMIT_S
        while read < ask.records and time.monotonic() < until:
            for message in consumer.consume(500, 1.0):
                if (error := message.error()) is None:
                    read += 1
                else:
                    failed.append(error.name())
        consumer.close()
        return read, failed

    return timed(run)


async def _aiokafka_produces(ask: Ask) -> tuple[int, list[str]]:
    failed: list[str] = []
    async with AIOKafkaProducer(bootstrap_servers=ask.bootstrap, client_id=ask.client_id) as producer:
        sent = [await producer.send(ask.topic, bytes(SIZE)) for _ in range(ask.records)]
        results = await asyncio.gather(*sent, return_exceptions=True)
        failed += [type(one).__name__ for one in results if isinstance(one, BaseException)]
    return ask.records - len(failed), failed


async def _aiokafka_consumes(ask: Ask) -> tuple[int, list[str]]:
    consumer = AIOKafkaConsumer(
        ask.topic, bootstrap_servers=ask.bootstrap, client_id=ask.client_id, group_id=ask.client_id,
        auto_offset_reset="earliest",
    )  # fmt: skip
    read = 0
    async with consumer, asyncio.timeout(LIMIT_S):
        while read < ask.records:
            read += sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))
    return read, []


def aiokafka_produces(ask: Ask) -> Done:
    return timed(lambda: asyncio.run(_aiokafka_produces(ask)))


def aiokafka_consumes(ask: Ask) -> Done:
    return timed(lambda: asyncio.run(_aiokafka_consumes(ask)))


def kafka_python_produces(ask: Ask) -> Done:
    def run() -> tuple[int, list[str]]:
        failed: list[str] = []
        producer = KafkaProducer(bootstrap_servers=ask.bootstrap, client_id=ask.client_id, max_block_ms=LIMIT_S * 1000)
        sent = [producer.send(ask.topic, bytes(SIZE)) for _ in range(ask.records)]
        for one in sent:
            try:
                one.get(LIMIT_S)
            except Exception as error:  # noqa: BLE001 - whatever it raises is what an application sees
                failed.append(type(error).__name__)
        producer.close()
        return ask.records - len(failed), failed

    return timed(run)


def kafka_python_consumes(ask: Ask) -> Done:
    def run() -> tuple[int, list[str]]:
        consumer = KafkaConsumer(
            ask.topic, bootstrap_servers=ask.bootstrap, client_id=ask.client_id, group_id=ask.client_id,
            auto_offset_reset="earliest",
        )  # fmt: skip
        read, until = 0, time.monotonic() + LIMIT_S
        while read < ask.records and time.monotonic() < until:
            read += sum(map(len, consumer.poll(1000).values()))
        consumer.close()
        return read, []

    return timed(run)


@cache
def franz_go() -> Path:
    """Builds the program; its version of franz-go is that of go.mod."""
    BUILT.mkdir(parents=True, exist_ok=True)
    program = BUILT / "bulk-franz-go"
    words: list[str | Path] = ["go", "build", "-o", program, "./bulk/franz-go"]
    subprocess.run(words, cwd=SOURCES, check=True, timeout=BUILD_LIMIT_S)
    return program


def _franz_go(what: str, ask: Ask) -> Done:
    program = franz_go()

    def run() -> tuple[int, list[str]]:
        ended = subprocess.run(
            [program, what, ask.bootstrap, ask.topic, ask.client_id, str(ask.records), str(SIZE)],
            capture_output=True, text=True, check=True, timeout=LIMIT_S,
        )  # fmt: skip
        return int(ended.stdout.split()[0]), ended.stderr.splitlines()

    return timed(run)


def franz_go_produces(ask: Ask) -> Done:
    return _franz_go("produce", ask)


def franz_go_consumes(ask: Ask) -> Done:
    return _franz_go("consume", ask)


def producers(host: ToolHost) -> Mapping[str, Callable[[Ask], Done]]:
    """By name."""
    return {
        "java": lambda ask: java_produces(host, ask),
        "librdkafka": librdkafka_produces,
        "aiokafka": aiokafka_produces,
        "kafka-python": kafka_python_produces,
        "franz-go": franz_go_produces,
    }


def consumers(host: ToolHost) -> Mapping[str, Callable[[Ask], Done]]:
    """By name."""
    return {
        "java": lambda ask: java_consumes(host, ask),
        "librdkafka": librdkafka_consumes,
        "aiokafka": aiokafka_consumes,
        "kafka-python": kafka_python_consumes,
        "franz-go": franz_go_consumes,
    }
