"""Sidecars that share a log in memory, and requests through their exchanges."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kio.index import load_request_schema
from kio.serial import entity_reader

from kafka_sidecar.plugins.effects import Need
from kafka_sidecar.proxy.features.topic_configs.configs import TopicConfigs
from kafka_sidecar.proxy.features.topic_configs.entries import ForgetConfigs, StoreConfigs
from kafka_sidecar.proxy.features.topic_configs.kafka_store import Reader, StoreError
from kafka_sidecar.proxy.relay.exchange import Respond, Send
from support import oracle
from support.client import FAKE_CLIENT
from support.driven import Driven, driven

CORRELATION_ID = 77
MORE = ("resource_type",)
POLICY = "record.validation.policy"


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
        self._reader: Reader | None = None
        self._failure: str | None = None
        self.lost: str | None = None

    @property
    def trouble(self) -> str | None:
        return self.lost or self._failure

    @trouble.setter
    def trouble(self, why: str | None) -> None:
        self._failure = why

    async def start(self, reader: Reader) -> None:
        self._reader = reader
        self.read_again()

    def lose(self, why: str, *records: tuple[bytes, bytes | None]) -> None:
        """The log is another one, with these records."""
        self.lost = why
        self._log.readers.clear()
        self._log.records = list(records)

    def accept(self) -> None:
        self.lost = None
        self.read_again()

    def read_again(self) -> None:
        """The log from its beginning, and on."""
        reader = self._reader
        assert reader is not None
        reader.began()
        for key, value in self._log.records:
            reader.read(key, value)
        if reader not in self._log.readers:
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
class Cluster:
    """The cluster as its sidecars see it."""

    log: MemoryLog = field(default_factory=MemoryLog)
    ids: dict[str, bytes] = field(default_factory=dict)
    answers: bool = True
    lookups: int = 0
    stores: list[MemoryStore] = field(default_factory=list)
    now: float = 0.0

    async def topic_ids(self, names: Sequence[str]) -> Mapping[str, bytes]:
        self.lookups += 1
        if not self.answers:
            raise OSError("no broker is known")
        return {name: self.ids[name] for name in names if name in self.ids}

    @asynccontextmanager
    async def sidecar(self) -> AsyncIterator[TopicConfigs]:
        store = MemoryStore(self.log)
        self.stores.append(store)
        configs = TopicConfigs(store, self.topic_ids, check, lambda: self.now)
        await configs.start_up()
        await configs.wait_ready()
        try:
            yield configs
        finally:
            await configs.shut_down()


def check(text: str) -> None:
    if text == "broken":
        raise TypeError("a bug of the policy's")
    if text.startswith("bad"):
        raise ValueError(f"no policy is called {text!r}")


@dataclass
class Exchanged:
    """One request through an exchange."""

    request: Any  # what the broker got; None: nothing
    asked: list[Any]  # what it was asked before, to validate only
    response: Any  # what the client got
    needs: list[Need]
    same_request: bool = False  # the same frame that came in
    same_response: bool = False


def begin(configs: TopicConfigs, key: int, version: int) -> Driven:
    exchange = driven(configs.stages().messages[key], version=version, client=FAKE_CLIENT)
    assert exchange is not None
    return exchange


async def send(
    configs: TopicConfigs, key: int, version: int, request: Mapping[str, Any], response: Mapping[str, Any] | None = None
) -> Exchanged:
    """A request of a client, and the broker's response where it gets the request."""
    exchange = begin(configs, key, version)
    frame = oracle.request_frame(oracle.request(key, version, **request), CORRELATION_ID)
    to_broker: Any = exchange.request(frame)
    asked = []
    while isinstance(to_broker, Send):
        (question,) = to_broker.frames
        asked.append(read_request(key, version, question))
        answer = oracle.response(key, version, **validated(asked[-1], response or {}))
        to_broker = exchange.answer((oracle.response_frame(answer, CORRELATION_ID),))
    if isinstance(to_broker, Respond):
        return Exchanged(None, asked, read_response(key, version, to_broker.frame), [])
    assert isinstance(to_broker, bytes)
    assert response is not None, "the broker gets the request"
    from_broker = oracle.response_frame(oracle.response(key, version, **response), CORRELATION_ID)
    needs: list[Need] = []
    to_client: Any = from_broker
    if exchange.wants_response:
        to_client = exchange.response(from_broker)
        while isinstance(to_client, Need):
            needs.append(to_client)
            to_client = exchange.answer(await perform(configs, to_client))
    return Exchanged(
        read_request(key, version, to_broker),
        asked,
        read_response(key, version, to_client),
        needs,
        to_broker is frame,
        to_client is from_broker,
    )


def validated(question: Any, response: Mapping[str, Any]) -> dict[str, Any]:
    """What the broker answers before: the results that it has for these resources, none of which is wrong otherwise."""
    assert question.validate_only
    array, name, more = ("topics", "name", ()) if hasattr(question, "topics") else ("responses", "resource_name", MORE)
    asked = question.topics if array == "topics" else question.resources
    given = {result[name]: result for result in response.get(array, ())}
    return {
        array: [{key: getattr(one, key) for key in (name, *more)} | given.get(getattr(one, name), {}) for one in asked]
    }


async def perform(configs: TopicConfigs, need: Need) -> Any:
    if isinstance(need, StoreConfigs):
        return await configs.store(need.changes)
    assert isinstance(need, ForgetConfigs)
    return await configs.forget(need.entries)


def read_request(key: int, version: int, frame: bytes) -> Any:
    kind = load_request_schema(key, version)
    header, size = entity_reader(kind.__header_schema__)(frame[4:], 0)
    request, end = entity_reader(kind)(frame[4 + size :], 0)
    assert (header.correlation_id, header.client_id) == (CORRELATION_ID, "app")
    assert 4 + size + end == len(frame) == 4 + int.from_bytes(frame[:4], "big")
    return request


def read_response(key: int, version: int, frame: bytes) -> Any:
    correlation_id, response = oracle.read_response(key, version, frame)
    assert correlation_id == CORRELATION_ID
    return response
