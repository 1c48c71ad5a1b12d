"""Sidecars that share a log in memory, and the exchanges of each, played by the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.serial import entity_reader
from support import oracle
from support.client import SOMEBODY

from kafka_sidecar.proxy.relay.exchange import Answer, Hold
from kafka_sidecar.proxy.topic_configs.configs import TopicConfigs
from kafka_sidecar.proxy.topic_configs.store import Reader, StoreError

CORRELATION_ID = 77


class MemoryLog:
    """What all sidecars of a test read and write."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.readers: list[Reader] = []
        self.fault: str | None = None  # why nothing can be written

    def append(self, key: bytes, value: bytes | None) -> None:
        self.records.append((key, value))
        for reader in self.readers:
            reader.read(key, value)


class MemoryStore:
    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.trouble: str | None = None

    async def start(self, reader: Reader) -> None:
        reader.began()
        for key, value in self._log.records:
            reader.read(key, value)
        self._log.readers.append(reader)
        reader.caught_up()

    async def stop(self) -> None:
        self._log.readers.clear()

    async def write(self, key: bytes, value: bytes | None) -> None:
        await asyncio.sleep(0)
        if self._log.fault is not None:
            raise StoreError(self._log.fault)
        self._log.append(key, value)


@dataclass
class World:
    """The cluster as the sidecars see it."""

    log: MemoryLog = field(default_factory=MemoryLog)
    ids: dict[str, bytes] = field(default_factory=dict)
    can_be_asked: bool = True
    asked: int = 0
    changed: list[str] = field(default_factory=list)
    stores: list[MemoryStore] = field(default_factory=list)

    async def topic_ids(self, names: Sequence[str]) -> Mapping[str, bytes]:
        self.asked += 1
        if not self.can_be_asked:
            raise OSError("no broker is known")
        return {name: self.ids[name] for name in names if name in self.ids}

    @asynccontextmanager
    async def sidecar(self, refresh_s: float = 60, write_limit_s: float = 5) -> AsyncIterator[TopicConfigs]:
        store = MemoryStore(self.log)
        self.stores.append(store)
        configs = TopicConfigs(store, self.topic_ids, check, self.changed.append, refresh_s, write_limit_s)
        await configs.start()
        await configs.wait_ready()
        try:
            yield configs
        finally:
            await configs.stop()


def check(text: str) -> None:
    if text == "broken":
        raise TypeError("a bug of the policy's")
    if text.startswith("bad"):
        raise ValueError(f"no policy is called {text!r}")


@pytest.fixture
def world() -> World:
    return World(ids={"orders": b"o" * 16, "payments": b"p" * 16})


@dataclass
class Said:
    """One request through an exchange: what the broker saw and what the client got."""

    broker: Any  # the request that the broker got; None: none
    client: Any  # the response that the client got
    same_request: bool = False  # the very bytes that came in
    same_response: bool = False


Speak = Callable[..., Any]


@pytest.fixture
def say() -> Speak:
    """``await say(configs, key, version, asked, answer)``: a client asks, the broker, if it is asked, answers."""
    return _say


async def _say(
    configs: TopicConfigs, key: int, version: int, asked: Mapping[str, Any], answer: Mapping[str, Any] | None = None
) -> Said:
    begin = configs.exchange(key, version)
    assert begin is not None
    frame = oracle.request_frame(oracle.request(key, version, **asked), CORRELATION_ID)
    exchange = begin(frame, 0, len(frame), SOMEBODY)
    assert exchange is not None
    step = exchange.request(frame)
    if isinstance(step, Answer):
        return Said(None, read(key, version, step.frame))
    assert isinstance(step, bytes)
    assert answer is not None, "the broker should not have been asked"
    got = oracle.response_frame(oracle.response(key, version, **answer), CORRELATION_ID)
    out: Any = exchange.response(got) if exchange.wants_response else got
    while isinstance(out, Hold):
        await out.wait()
        out = out.then()
    return Said(read_request(key, version, step), read(key, version, out), step is frame, out is got)


def read_request(key: int, version: int, frame: bytes) -> Any:
    kind = load_request_schema(key, version)
    header, size = entity_reader(kind.__header_schema__)(frame[4:], 0)
    request, end = entity_reader(kind)(frame[4 + size :], 0)
    assert (header.correlation_id, header.client_id) == (CORRELATION_ID, "app")
    assert 4 + size + end == len(frame) == 4 + int.from_bytes(frame[:4], "big")
    return request


def read(key: int, version: int, frame: bytes) -> Any:
    correlation_id, response = oracle.read_response(key, version, frame)
    assert correlation_id == CORRELATION_ID
    return response
