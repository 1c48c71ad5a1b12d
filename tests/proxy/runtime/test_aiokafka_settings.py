"""The clients of the store connect from the configured address and create no topics; other clients of aiokafka do.

A reader's end is its failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import aiokafka.client
import aiokafka.conn
import pytest
from aiokafka.client import AIOKafkaClient
from kio.index import load_request_schema
from kio.serial import entity_reader
from support import oracle
from support.fake_broker import FakeBroker, Request, stall
from support.in_process import until

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.proxy.features.topic_configs.kafka_clients import KafkaClients
from kafka_sidecar.proxy.runtime import aiokafka_settings
from kafka_sidecar.proxy.runtime.aiokafka_settings import (
    CONNECTING,
    GO_ON,
    LONG_POLL_MS,
    NAMING_TOPICS,
    connect_with,
    create_no_topics,
    create_topic,
    usable_s,
)
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

SOURCE = "127.0.0.2"
TOPIC = "configs"


async def create_topics(broker: FakeBroker, request: Request) -> bytes:
    return framed(request, topics=[{"name": TOPIC}])


async def metadata(broker: FakeBroker, request: Request) -> bytes:
    brokers = [{"node_id": broker.node_id, "host": broker.host, "port": broker.port}]
    partition = {"leader_id": broker.node_id, "replica_nodes": [1], "isr_nodes": [1]}
    return framed(request, brokers=brokers, controller_id=1, topics=[{"name": TOPIC, "partitions": [partition]}])


async def list_offsets(broker: FakeBroker, request: Request) -> bytes:
    return framed(request, topics=[{"name": TOPIC, "partitions": [{"offset": 0}]}])


async def produce(broker: FakeBroker, request: Request) -> bytes:
    return framed(request, responses=[{"name": TOPIC, "partition_responses": [{"base_offset": 5}]}])


async def ids(names: Sequence[str]) -> Mapping[str, bytes]:
    return {}


def framed(request: Request, **fields: Any) -> bytes:
    return oracle.response_frame(oracle.response(request.key, request.version, **fields), request.correlation_id)


async def connected(client: AIOKafkaClient) -> None:
    """First to a bootstrap server, then to a broker of the cluster."""
    await client.bootstrap()
    assert await client.ready(1)
    await client.close()


async def test_a_client_connects_from_the_address_and_others_do_not() -> None:
    async with FakeBroker(1) as broker:
        own, other = (AIOKafkaClient(bootstrap_servers=broker.address) for _ in range(2))
        connect_with(BrokerAccess(SOURCE), own)
        await connected(own)
        assert broker.clients == [SOURCE] * 2
        await connected(other)
        assert broker.clients[2:] == ["127.0.0.1"] * 2


async def test_every_client_of_the_store_connects_from_the_address() -> None:
    async with FakeBroker(1) as broker:
        broker.answers |= {ApiKey.CREATE_TOPICS: create_topics, ApiKey.METADATA: metadata, ApiKey.PRODUCE: produce}
        broker.answers |= {ApiKey.LIST_OFFSETS: list_offsets, ApiKey.FETCH: stall}
        clients = KafkaClients([broker.address], TOPIC, 1, BrokerAccess(SOURCE), ids)
        async with clients.reading(create=True):
            read = len(broker.clients)
        assert await clients.write(b"k", b"v") == 5
        await clients.stop()
        assert 2 <= read < len(broker.clients)  # the admin client and the consumer, then the producer
        assert set(broker.clients) == {SOURCE}


async def test_nothing_of_aiokafka_itself_changes() -> None:
    modules = (aiokafka.client, aiokafka.conn)
    before = [dict(vars(one)) for one in (*modules, AIOKafkaClient, aiokafka.conn.AIOKafkaConnection)]
    async with FakeBroker(1) as broker:
        own = AIOKafkaClient(bootstrap_servers=broker.address)
        connect_with(BrokerAccess(SOURCE), own)
        create_no_topics(own)
        await connected(own)
    assert [dict(vars(one)) for one in (*modules, AIOKafkaClient, aiokafka.conn.AIOKafkaConnection)] == before


async def test_no_client_of_the_store_lets_brokers_create_a_topic() -> None:
    async with FakeBroker(1) as broker:
        broker.answers |= {ApiKey.METADATA: metadata, ApiKey.PRODUCE: produce}
        broker.answers |= {ApiKey.LIST_OFFSETS: list_offsets, ApiKey.FETCH: stall}
        clients = KafkaClients([broker.address], TOPIC, 1, BrokerAccess(), ids)
        async with clients.reading(create=False):
            pass
        await clients.write(b"k", b"v")
        await clients.stop()
        asked = [read_request(one) for one in broker.requests if one.key == ApiKey.METADATA]
        assert [TOPIC] in [[topic.name for topic in one.topics or ()] for one in asked]
        assert not any(one.allow_auto_topic_creation for one in asked if one.topics)
        assert not any(one.key == ApiKey.CREATE_TOPICS for one in broker.requests)


async def test_a_failure_while_no_broker_is_there_is_not_replaced_by_a_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aiokafka_settings, "RETRY_MS", 60_000)  # the fetch waits when the consumer is stopped
    before = asyncio.all_tasks()
    async with FakeBroker(1) as broker:
        broker.answers |= {ApiKey.METADATA: metadata, ApiKey.LIST_OFFSETS: list_offsets, ApiKey.FETCH: stall}
        clients = KafkaClients([broker.address], TOPIC, 1, BrokerAccess(), ids)
        with pytest.raises(OSError, match="no answer"):
            await fail_without_broker(clients, broker)
    assert asyncio.all_tasks() == before


async def fail_without_broker(clients: KafkaClients, broker: FakeBroker) -> None:
    async with clients.reading(create=False):
        await until(lambda: any(one.key == ApiKey.FETCH for one in broker.requests))
        await broker.stop()
        await until(lambda: any(is_waiting(task) for task in asyncio.all_tasks()))
        raise OSError("no answer")


def is_waiting(task: asyncio.Task[Any]) -> bool:
    """Whether it is a fetch that has failed."""
    stack = task.get_stack()
    return bool(stack) and stack[0].f_code.co_name == "_proc_fetch_request" and "err" in stack[0].f_locals


def read_request(request: Request) -> Any:
    kind = load_request_schema(request.key, request.version)
    _, size = entity_reader(kind.__header_schema__)(request.frame[4:], 0)
    return entity_reader(kind)(request.frame[4 + size :], 0)[0]


@pytest.mark.parametrize(("name", "methods"), [("create_conn", CONNECTING), ("MetadataRequest", NAMING_TOPICS)])
def test_aiokafka_still_does_it_where_it_is_changed(name: str, methods: tuple[str, ...]) -> None:
    """With another release it may do so elsewhere: then the setting would be ignored silently."""
    using = {
        method
        for method, own in vars(AIOKafkaClient).items()
        if name in getattr(getattr(own, "__code__", None), "co_names", ())
    }
    assert using - {"bootstrap"} == set(methods) - {"bootstrap"}  # which names no topics


@pytest.mark.parametrize(("lifetime_s", "usable"), [(3600.0, 3060.0), (10.0, 7.0), (4.0, 1.0), (2.0, 0.5)])
def test_requests_are_sent_so_early_that_a_long_poll_before_them_ends_within_the_lifetime(
    lifetime_s: float, usable: float
) -> None:
    assert usable_s(lifetime_s) == pytest.approx(usable)
    assert usable + LONG_POLL_MS / 1000 < lifetime_s or lifetime_s <= LONG_POLL_MS / 1000


class Admin:
    def __init__(self, code: int) -> None:
        self.code = code
        self.wanted: list[Any] = []
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append("start")

    async def close(self) -> None:
        self.calls.append("close")

    async def create_topics(self, topics: list[Any], timeout_ms: int) -> Any:
        self.wanted += topics
        return SimpleNamespace(topic_errors=[(topics[0].name, self.code, "why")])


@pytest.mark.parametrize("code", sorted(GO_ON))
async def test_a_topic_is_created_unless_it_exists_or_may_not_be(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(code)
    monkeypatch.setattr(aiokafka_settings, "create_client", lambda kind, access, **settings: admin)
    found = await create_topic(BrokerAccess(), "events", -1, -1, {"cleanup.policy": "compact"}, request_timeout_ms=1000)
    (wanted,) = admin.wanted
    assert (found, admin.calls) == (code, ["start", "close"])
    assert (wanted.name, wanted.num_partitions, wanted.replication_factor) == ("events", -1, -1)
    assert wanted.topic_configs == {"cleanup.policy": "compact"}


async def test_a_topic_that_cannot_be_created_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(ErrorCode.INVALID_CONFIG)
    monkeypatch.setattr(aiokafka_settings, "create_client", lambda kind, access, **settings: admin)
    with pytest.raises(OSError, match=r"the topic events cannot be created: why$"):
        await create_topic(BrokerAccess(), "events", 1, 9, {}, request_timeout_ms=1000)
    assert admin.calls == ["start", "close"]
