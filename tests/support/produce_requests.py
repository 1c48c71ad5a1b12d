"""Produce requests and their answers as kio writes and reads them, and rules in a few words."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any

from kio.index import load_request_schema
from kio.serial import entity_reader

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.plugins.effects import Need, TimeLimit, Work
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import MAX_REJECTIONS
from kafka_sidecar.proxy.exchanges.produce import ProduceExchange
from kafka_sidecar.proxy.features.validation.rules import Rules, TopicRule
from kafka_sidecar.proxy.features.validation.stage import PolicyFetch, Terms, ValidationRun
from kafka_sidecar.proxy.features.validation.stats import ValidationStats
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.exchange import TopicNames
from kafka_sidecar.proxy.runtime.performer import PlugInFetches
from support import old_requests, oracle
from support.client import FAKE_CLIENT
from support.driven import Driven, Step
from support.fake_broker import FakeBroker, Request
from support.policies import Stub

VERSIONS = range(3, 14)
FIRST_WITH_RECORD_ERRORS = 8
FIRST_WITH_IDS = 13
CORRELATION_ID = 7
LIMIT = 1 << 20
NO_TIME_LIMIT = TimeLimit("validation", inf, inf)

Topics = Mapping[str, Mapping[int, bytes | None]]  # name -> partition -> records


def batch(*values: str, **header: Any) -> bytes:
    """A batch of records with these values."""
    return build_batch([NewRecord(value.encode()) for value in values], **header)


GOOD, BAD = batch("good"), batch("good", "bad one", "good", "bad two")


def topic_id(name: str) -> bytes:
    return name.encode().rjust(16, b"\1")


def produce_request(version: int, topics: Topics, acks: int = -1, correlation_id: int = CORRELATION_ID) -> bytes:
    """A request."""
    if version < VERSIONS.start:
        return old_requests.produce_request(version, topics, acks, correlation_id)
    data = [
        {
            "name": name,
            "topic_id": topic_id(name),
            "partition_data": [{"index": index, "records": records} for index, records in partitions.items()],
        }
        for name, partitions in topics.items()
    ]
    request = oracle.request(ApiKey.PRODUCE, version, acks=acks, transactional_id="tx", topic_data=data)
    return oracle.request_frame(request, correlation_id)


def produce_response(
    version: int, topics: Mapping[str, Mapping[int, int]], correlation_id: int = CORRELATION_ID
) -> bytes:
    """A broker's answer: at which offset."""
    data = [
        {
            "name": name,
            "topic_id": topic_id(name),
            "partition_responses": [{"index": at, "base_offset": offset} for at, offset in partitions.items()],
        }
        for name, partitions in topics.items()
    ]
    return oracle.response_frame(oracle.response(ApiKey.PRODUCE, version, responses=data), correlation_id)


def read(version: int, frame: bytes, correlation_id: int = CORRELATION_ID) -> Any:
    """An answer, all of it."""
    found, response = oracle.read_response(ApiKey.PRODUCE, version, frame)
    assert found == correlation_id
    return response


def without_id(message: str) -> str:
    """An error message without its last part, by which an operator finds the rejection."""
    text, found = re.subn(r" \(kafka-sidecar explain [0-9a-hjkmnp-tv-z]{6}-[0-9a-f]+\)\Z", "", message)
    assert found == 1, message
    return text


def results(version: int, frame: Step, correlation_id: int = CORRELATION_ID) -> list[tuple[str, int, int, int]]:
    """(topic, partition, error code, base offset), in the order of the response."""
    assert isinstance(frame, bytes)
    return [
        (_name(topic, version), partition.index, int(partition.error_code), partition.base_offset)
        for topic in read(version, frame, correlation_id).responses
        for partition in topic.partition_responses
    ]


def _name(topic: Any, version: int) -> str:
    if version < FIRST_WITH_IDS:
        return str(topic.name)
    assert isinstance(topic.topic_id, uuid.UUID)
    return topic.topic_id.bytes.lstrip(b"\1").decode()


def rules(*topics: TopicRule, fail_open: bool = False) -> tuple[Rules, Stub]:
    """Rules whose policies are called "stub", "other" and "headers", and the first of them."""
    settings = {
        "stub": PolicySettings("support.policies:Stub", fail_open=fail_open),
        "other": PolicySettings("support.policies:Stub", settings={"refused": "worse"}),
        "headers": PolicySettings("support.policies:HeadersOnly"),
    }
    before = len(Stub.opened)
    made = Rules(PolicyCatalog(settings), topics or (TopicRule("*", "stub", "enforce", 100),), None)
    return made, Stub.opened[before]


class Validating:
    """Rules, and what becomes of requests that are validated by them."""

    def __init__(
        self,
        *topics: TopicRule,
        fail_open: bool = False,
        names: Sequence[str] = (),
        limit: int = LIMIT,
        time_limit: TimeLimit = NO_TIME_LIMIT,
    ) -> None:
        self.rules, self.policy = rules(*topics, fail_open=fail_open)
        self.names = TopicNameCache(self._ask)
        self.names.remember((topic_id(name), name) for name in names)
        self.hidden: set[str] = set()  # names that the cluster knows and the sidecar does not yet
        self.cluster_answers = True
        self.asked_for: list[bytes] = []
        self.stats = ValidationStats(lambda: self.now)
        self.now = 1000.0
        self.limit = limit
        self.time_limit = time_limit
        self.max_record_errors = MAX_REJECTIONS
        self.fetches = PlugInFetches("policy")
        self.configs_are_known = True
        self.needs: list[Need] = []

    async def _ask(self, wanted: Collection[bytes]) -> Mapping[bytes, str]:
        self.asked_for += sorted(wanted)
        if not self.cluster_answers:
            raise OSError("no broker")
        return {topic_id(name): name for name in self.hidden if topic_id(name) in wanted}

    def run(self) -> ValidationRun:
        terms = Terms(self.rules, self.stats, self.limit, self.names.id_of, self.time_limit, self.max_record_errors)
        return ValidationRun(terms, FAKE_CLIENT, not self.configs_are_known)

    def exchange(self, version: int) -> Driven:
        return Driven(ProduceExchange([self.run()], self.names.name_of, version))

    def validated(self, version: int, topics: Topics, acks: int = -1) -> tuple[Driven, Step]:
        """What becomes of a request, or what is needed first."""
        exchange = self.exchange(version)
        return exchange, exchange.request(produce_request(version, topics, acks))

    async def finished(self, version: int, topics: Topics, acks: int = -1) -> tuple[Driven, Step]:
        """What becomes of a request in the end."""
        exchange, step = self.validated(version, topics, acks)
        return exchange, await exchange.finish(step, self.perform)

    async def perform(self, need: Need) -> object:
        """What a running sidecar does."""
        self.needs.append(need)
        assert len(self.needs) < 50, "asks for ever"
        async with asyncio.timeout(10):
            if isinstance(need, Work):
                return await asyncio.to_thread(need.run)
            if isinstance(need, TopicNames):
                with suppress(OSError):
                    await self.names.resolve(need.topic_ids)
            elif isinstance(need, PolicyFetch):
                await self.fetches.resolve(need.rule.name, need.rule.policy, need.key)
            else:
                raise AssertionError(f"{need} is not expected")
        return None


async def stores(broker: FakeBroker, request: Request) -> bytes | None:
    """A broker that stores everything: the offset of each batch is how many it has stored before."""
    kind = load_request_schema(request.key, request.version)
    _, size = entity_reader(kind.__header_schema__)(request.frame[4:], 0)
    wanted: Any = entity_reader(kind)(request.frame[4 + size :], 0)[0]
    if not wanted.acks:
        return None
    before = sum(sent.key == ApiKey.PRODUCE for sent in broker.requests) - 1
    topics = {_name(topic, request.version): topic.partition_data for topic in wanted.topic_data}
    offsets = {name: {one.index: before for one in partitions} for name, partitions in topics.items()}
    return produce_response(request.version, offsets, request.correlation_id)


NAMES = ("orders", "payments", "free", "words")
INVALID_RECORD, CORRUPT_MESSAGE, UNKNOWN_TOPIC_ID, UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT = 87, 2, 100, -1, 7
GUARDED = (TopicRule("orders", "stub", "enforce", 100), TopicRule("payments", "other", "enforce", 100))


def validating(*topics: TopicRule, **settings: object) -> Validating:
    return Validating(*(topics or GUARDED), names=NAMES, **settings)  # type: ignore[arg-type]
