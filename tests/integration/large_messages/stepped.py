"""Consumers of four client libraries that do what a test says, one step after the other, in one partition.

    poll, rest               the next record; all up to the end of the log
    commit [O [METADATA]]    the position, or an offset
    committed, position      what these are
    seek O, begin, end       also "seek_time T"

Each step with a result gives one line, as tests/jvm/java/SteppedConsumer.java prints it, which knows some more steps.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.structs import OffsetAndMetadata as AiokafkaOffset
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, SILENT, eventually, headers_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the way in which it reads its schemas
    from kafka import KafkaConsumer
    from kafka import OffsetAndMetadata as KafkaPythonOffset
    from kafka import TopicPartition as KafkaPythonPartition

WAIT_MS = 50  # for a Fetch that finds nothing
NONE = "none"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a consumer reads, and as which group it commits."""

    bootstrap: str
    topic: str
    group: str
    partition: int = 0
    reset: str = "earliest"
    client_id: str = "stepped"
    is_member: bool = False  # of the group, with automatic commits; the topic has one partition then


class Stepped(Protocol):
    """A consumer of one client library."""

    def __call__(self, place: Place, *steps: str) -> list[str]: ...


def clients(java_hosts: Mapping[str, ToolHost]) -> Mapping[str, Stepped]:
    """By the library's name."""
    return {
        "java": java(java_hosts),
        "librdkafka": lambda place, *steps: _run(_Librdkafka(place), steps),
        "aiokafka": lambda place, *steps: _run(_Aiokafka(place), steps),
        "kafka-python": lambda place, *steps: _run(_KafkaPython(place), steps),
    }


def offsets(lines: Iterable[str]) -> list[int]:
    """The offsets of the records among some results."""
    return [int(line.split("\t")[1]) for line in lines if line.startswith("record")]


def until_end(lines: Iterator[str]) -> list[int]:
    """The offsets of the records that one step "rest" has given; the results after it are left."""
    return offsets(takewhile(lambda line: not line.startswith("end"), lines))


def value(line: str) -> bytes | None:
    """The value of a record."""
    text = line.split("\t")[2]
    return None if text == "null" else bytes.fromhex(text)


def headers(line: str) -> list[tuple[str, bytes]]:
    """Its headers; none of them is null."""
    pairs = (header.split("=") for header in line.split("\t")[3:] if header)
    return [(bytes.fromhex(name).decode(), bytes.fromhex(content)) for name, content in pairs]


def java(hosts: Mapping[str, ToolHost]) -> Stepped:
    def run(place: Place, *steps: str) -> list[str]:
        settings = f"auto.offset.reset={place.reset},client.id={place.client_id},enable.auto.commit={place.is_member}"
        partition = -1 if place.is_member else place.partition
        arguments = (place.bootstrap, place.topic, partition, place.group, settings, *steps)
        return hosts[NEWEST].run("SteppedConsumer", *arguments).splitlines()

    return run


class _Client:
    """The steps, by what each library can do."""

    def fetch(self, limit_s: float) -> str | None:
        """The next record, None if none comes in this time."""
        raise NotImplementedError

    def at(self) -> int:
        raise NotImplementedError

    def edges(self) -> tuple[int, int]:
        """The first offset of the log, and the one after the last."""
        raise NotImplementedError

    def store(self, offset: int, metadata: str) -> None:
        raise NotImplementedError

    def stored(self) -> tuple[int, str] | None:
        raise NotImplementedError

    def move(self, offset: int) -> None:
        raise NotImplementedError

    def offset_of_time(self, ms: int) -> int:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def poll(self) -> Iterator[str]:
        yield self.fetch(LIMIT_S) or NONE

    def rest(self) -> Iterator[str]:
        end, deadline = self.edges()[1], time.monotonic() + LIMIT_S
        while self.at() < end and time.monotonic() < deadline:
            if (line := self.fetch(0.2)) is not None:
                yield line
        yield f"end\t{self.at()}"

    def position(self) -> Iterator[str]:
        yield str(self.at())

    def commit(self, offset: str = "", metadata: str = "") -> Iterable[str]:
        self.store(int(offset) if offset else self.at(), metadata)
        return ()

    def committed(self) -> Iterator[str]:
        yield "\t".join(map(str, self.stored() or (NONE,)))

    def seek(self, offset: str) -> Iterable[str]:
        self.move(int(offset))
        return ()

    def seek_time(self, ms: str) -> Iterable[str]:
        self.move(self.offset_of_time(int(ms)))
        return ()

    def begin(self) -> Iterable[str]:
        self.move(self.edges()[0])
        return ()

    def end(self) -> Iterable[str]:
        self.move(self.edges()[1])
        return ()


def _run(client: _Client, steps: Sequence[str]) -> list[str]:
    try:
        lines: list[str] = []
        for step in steps:
            name, *arguments = step.split(" ", 2)
            lines += getattr(client, name)(*arguments)
        return lines
    finally:
        client.close()


def _record(offset: int | None, content: bytes | None, pairs: Iterable[tuple[str, bytes | None]]) -> str:
    parts = [f"{name.encode().hex()}={_hex(one)}" for name, one in pairs]
    return "\t".join(("record", str(offset), _hex(content), "\t".join(parts)))


def _hex(data: bytes | None) -> str:
    return "null" if data is None else data.hex()


class _Librdkafka(_Client):
    def __init__(self, place: Place) -> None:
        self._place = TopicPartition(place.topic, place.partition)
        self._consumer = Consumer({
            "bootstrap.servers": place.bootstrap, "logger": SILENT, "group.id": place.group,
            "auto.offset.reset": place.reset, "enable.auto.commit": place.is_member, "enable.partition.eof": True,
            "client.id": place.client_id, "fetch.wait.max.ms": WAIT_MS, "check.crcs": True,
        })  # fmt: skip
        offset, _ = eventually(self._committed, bool, "a coordinator") or (-1, "")
        self._at = offset if offset >= 0 else self.edges()[place.reset == "latest"]
        if place.is_member:
            self._consumer.subscribe([place.topic])
        else:
            self._consumer.assign([self._here(self._at)])

    def _here(self, offset: int, metadata: str = "") -> TopicPartition:
        return TopicPartition(self._place.topic, self._place.partition, offset, metadata)

    def fetch(self, limit_s: float) -> str | None:
        deadline = time.monotonic() + limit_s
        while (left := deadline - time.monotonic()) > 0:
            message = self._consumer.poll(left)
            if message is None:
                return None
            offset, error = message.offset(), message.error()
            assert offset is not None
            if error is None:
                self._at = offset + 1
                return _record(offset, message.value(), headers_of(message))
            assert error.code() == KafkaError._PARTITION_EOF, error
            self._at = offset  # its `position` stays after the last record
        return None

    def at(self) -> int:
        return self._at

    def edges(self) -> tuple[int, int]:
        found: tuple[int, int] = self._consumer.get_watermark_offsets(self._place, LIMIT_S)
        return found

    def store(self, offset: int, metadata: str) -> None:
        (done,) = self._consumer.commit(offsets=[self._here(offset, metadata)], asynchronous=False)
        assert done.error is None

    def stored(self) -> tuple[int, str] | None:
        found = self._committed()
        return found if found is not None and found[0] >= 0 else None

    def _committed(self) -> tuple[int, str] | None:
        """None while a cluster that is new has no coordinator."""
        try:
            (found,) = self._consumer.committed([self._place], LIMIT_S)
        except KafkaException:
            return None
        return found.offset, (found.metadata or "").removesuffix("\0")

    def move(self, offset: int) -> None:
        self._at = offset
        self._consumer.seek(self._here(offset))

    def offset_of_time(self, ms: int) -> int:
        offset: int = self._consumer.offsets_for_times([self._here(ms)], LIMIT_S)[0].offset
        return offset

    def close(self) -> None:
        self._consumer.close()


class _Aiokafka(_Client):
    def __init__(self, place: Place) -> None:
        self._place = AiokafkaPartition(place.topic, place.partition)
        self._runner = asyncio.Runner()

        async def start() -> Any:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=place.bootstrap, group_id=place.group, auto_offset_reset=place.reset,
                enable_auto_commit=place.is_member, client_id=place.client_id, fetch_max_wait_ms=WAIT_MS,
            )  # fmt: skip
            await consumer.start()
            consumer.subscribe([place.topic]) if place.is_member else consumer.assign([self._place])
            return consumer

        self._consumer = self._wait(start())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(asyncio.wait_for(work, LIMIT_S))

    def fetch(self, limit_s: float) -> str | None:
        found = self._wait(self._consumer.getmany(timeout_ms=int(limit_s * 900), max_records=1))
        for (record,) in found.values():
            return _record(record.offset, record.value, record.headers)
        return None

    def at(self) -> int:
        return int(self._wait(self._consumer.position(self._place)))

    def edges(self) -> tuple[int, int]:
        first = self._wait(self._consumer.beginning_offsets([self._place]))[self._place]
        return first, self._wait(self._consumer.end_offsets([self._place]))[self._place]

    def store(self, offset: int, metadata: str) -> None:
        self._wait(self._consumer.commit({self._place: AiokafkaOffset(offset, metadata)}))

    def stored(self) -> tuple[int, str] | None:
        offset = self._wait(self._consumer.committed(self._place))  # without the metadata
        return None if offset is None else (offset, "")

    def move(self, offset: int) -> None:
        self._consumer.seek(self._place, offset)

    def offset_of_time(self, ms: int) -> int:
        return int(self._wait(self._consumer.offsets_for_times({self._place: ms}))[self._place].offset)

    def close(self) -> None:
        self._wait(self._consumer.stop())
        self._runner.close()


class _KafkaPython(_Client):
    def __init__(self, place: Place) -> None:
        self._place = KafkaPythonPartition(place.topic, place.partition)
        self._consumer = KafkaConsumer(
            bootstrap_servers=place.bootstrap.split(","), group_id=place.group, auto_offset_reset=place.reset,
            enable_auto_commit=place.is_member, client_id=place.client_id, fetch_max_wait_ms=WAIT_MS,
        )  # fmt: skip
        if place.is_member:
            self._consumer.subscribe([place.topic])
        else:
            self._consumer.assign([self._place])

    def fetch(self, limit_s: float) -> str | None:
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            for (record,) in self._consumer.poll(timeout_ms=100, max_records=1).values():
                return _record(record.offset, record.value, record.headers)
        return None

    def at(self) -> int:
        return int(self._consumer.position(self._place))

    def edges(self) -> tuple[int, int]:
        first = self._consumer.beginning_offsets([self._place])[self._place]
        return first, self._consumer.end_offsets([self._place])[self._place]

    def store(self, offset: int, metadata: str) -> None:
        self._consumer.commit({self._place: KafkaPythonOffset(offset, metadata, -1)})

    def stored(self) -> tuple[int, str] | None:
        found = self._consumer.committed(self._place, metadata=True)
        return None if found is None else (found.offset, found.metadata or "")

    def move(self, offset: int) -> None:
        self._consumer.seek(self._place, offset)

    def offset_of_time(self, ms: int) -> int:
        return int(self._consumer.offsets_for_times({self._place: ms})[self._place].offset)

    def close(self) -> None:
        self._consumer.close()
