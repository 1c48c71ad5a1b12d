"""Produce requests and their answers as kio writes and reads them, and rules in a few words."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kio.index import load_request_schema
from kio.serial import entity_reader

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.proxy.nodes.topic_names import TopicNames
from kafka_sidecar.proxy.relay.exchange import Hold, Step
from kafka_sidecar.proxy.validation.produce import ProduceExchange, Surroundings
from kafka_sidecar.proxy.validation.resolving import Resolving
from kafka_sidecar.proxy.validation.rules import Rules, TopicRule
from kafka_sidecar.proxy.validation.stats import Observed
from support import oracle
from support.fake_broker import FakeBroker, Request
from support.policies import Told

VERSIONS = range(3, 14)
FIRST_WITH_RECORD_ERRORS = 8
FIRST_WITH_IDS = 13
CORRELATION_ID = 7
LIMIT = 1 << 20

Topics = Mapping[str, Mapping[int, bytes | None]]  # name -> partition -> records


def batch(*values: str, **header: Any) -> bytes:
    """A batch of records with these values."""
    return build_batch([NewRecord(value.encode()) for value in values], **header)


GOOD, BAD = batch("good"), batch("good", "bad one", "good", "bad two")


def topic_id(name: str) -> bytes:
    return name.encode().rjust(16, b"\1")


def asked(version: int, topics: Topics, acks: int = -1, correlation_id: int = CORRELATION_ID) -> bytes:
    """A request."""
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


def stored(version: int, topics: Mapping[str, Mapping[int, int]], correlation_id: int = CORRELATION_ID) -> bytes:
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


def said(version: int, frame: bytes, correlation_id: int = CORRELATION_ID) -> list[tuple[str, int, int, int]]:
    """(topic, partition, error code, base offset), in the order of the answer."""
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


def rules(*topics: TopicRule, fail_open: bool = False) -> tuple[Rules, Told]:
    """Rules whose policies are called "told", "other" and "headers", and the first of them."""
    settings = {
        "told": PolicySettings("support.policies:Told", fail_open=fail_open),
        "other": PolicySettings("support.policies:Told", settings={"refused": "worse"}),
        "headers": PolicySettings("support.policies:HeadersOnly"),
    }
    before = len(Told.opened)
    made = Rules(PolicyCatalog(settings), topics or (TopicRule("*", "told", "enforce", 100),), None)
    return made, Told.opened[before]


async def in_thread(work: Callable[[], None]) -> None:
    await asyncio.to_thread(work)


class Judging:
    """What is around an exchange, and what becomes of requests in it."""

    def __init__(
        self, *topics: TopicRule, fail_open: bool = False, names: Sequence[str] = (), limit: int = LIMIT
    ) -> None:
        self.rules, self.policy = rules(*topics, fail_open=fail_open)
        self.names = TopicNames(self._ask)
        self.names.remember((topic_id(name), name) for name in names)
        self.hidden: set[str] = set()  # names that the cluster knows and the sidecar does not yet
        self.cluster_answers = True
        self.asked_for: list[bytes] = []
        self.observed = Observed(lambda: self.now)
        self.now = 1000.0
        self.around = Surroundings(
            self.names.known, self.names.ask, in_thread, Resolving().resolve, self.observed, limit
        )
        self.waits = 0

    async def _ask(self, wanted: Collection[bytes]) -> Mapping[bytes, str]:
        self.asked_for += sorted(wanted)
        if not self.cluster_answers:
            raise OSError("no broker")
        return {topic_id(name): name for name in self.hidden if topic_id(name) in wanted}

    def exchange(self, version: int) -> ProduceExchange:
        return ProduceExchange(self.rules, self.around, version)

    def judged(self, version: int, topics: Topics, acks: int = -1) -> tuple[ProduceExchange, Step]:
        """What becomes of a request, where nothing has to be waited for."""
        exchange = self.exchange(version)
        return exchange, exchange.request(asked(version, topics, acks))

    async def waited(self, version: int, topics: Topics, acks: int = -1) -> tuple[ProduceExchange, Step]:
        """What becomes of a request in the end."""
        exchange, step = self.judged(version, topics, acks)
        while isinstance(step, Hold):
            self.waits += 1
            assert self.waits < 50, "waits for ever"
            async with asyncio.timeout(10):
                await step.wait()
            step = step.then()
        return exchange, step


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
    return stored(request.version, offsets, request.correlation_id)


NAMES = ("orders", "payments", "free", "words")
INVALID_RECORD, CORRUPT_MESSAGE, UNKNOWN_TOPIC_ID, UNKNOWN_SERVER_ERROR = 87, 2, 100, -1
GUARDED = (TopicRule("orders", "told", "enforce", 100), TopicRule("payments", "other", "enforce", 100))


def judging(*topics: TopicRule, **around: object) -> Judging:
    return Judging(*(topics or GUARDED), names=NAMES, **around)  # type: ignore[arg-type]
