"""The audit topic without a broker: it is created before the first event, and each event has its own result."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaTimeoutError, MessageSizeTooLargeError

from kafka_sidecar.audit.outbox import Pending
from kafka_sidecar.proxy.features.auditing.kafka_topic import AuditTopic, KafkaTopic, partition_of
from kafka_sidecar.proxy.runtime import aiokafka_settings
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

EVENTS = [Pending(key, b"{}") for key in (b"0", b"1", b"2")]


class FakeClient:
    """An admin client and a producer."""

    def __init__(self, results: dict[bytes, BaseException]) -> None:
        self.results = results
        self.calls: list[str] = []
        self.sent: list[tuple[str, bytes, bytes]] = []
        self.fails_at = 0  # the number of the start that fails

    async def start(self) -> None:
        self.calls.append("start")
        if self.calls.count("start") == self.fails_at:
            raise OSError("no broker")

    async def create_topics(self, topics: list[Any], timeout_ms: int) -> Any:
        self.calls.append(f"create {topics[0].name}")
        return SimpleNamespace(topic_errors=[(topics[0].name, 0)])

    async def close(self) -> None:
        self.calls.append("close")

    async def stop(self) -> None:
        self.calls.append("stop")

    async def send(self, topic: str, value: bytes, key: bytes) -> asyncio.Future[None]:
        self.sent.append((topic, value, key))
        result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if key in self.results:
            result.set_exception(self.results[key])
        else:
            result.set_result(None)
        return result


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    client = FakeClient({})
    client_of = lambda kind, source, **settings: client.calls.append(kind.__name__) or client  # type: ignore[func-returns-value]  # noqa: E731
    monkeypatch.setattr(aiokafka_settings, "create_client", client_of)
    return client


def topic() -> KafkaTopic:
    return KafkaTopic(["a:1"], AuditTopic("audit"), BrokerAccess())


async def test_the_topic_is_created_once_before_the_first_event(client: FakeClient) -> None:
    audit = topic()
    assert await audit.write(EVENTS[:1]) == ([], None)
    assert await audit.write(EVENTS[1:]) == ([], None)
    await audit.stop()
    await topic().stop()
    assert client.sent == [("audit", b"{}", event.key) for event in EVENTS]
    assert client.calls == [
        "AIOKafkaAdminClient", "start", "create audit", "close", AIOKafkaProducer.__name__, "start", "stop",
    ]  # fmt: skip


async def test_only_what_failed_is_to_be_written_again_and_what_is_too_large_is_not(client: FakeClient) -> None:
    client.results = {b"0": KafkaTimeoutError(), b"1": MessageSizeTooLargeError()}
    audit = topic()
    unwritten, failure = await audit.write(EVENTS)
    assert (unwritten, audit.too_large) == (EVENTS[:1], 1)
    assert failure is not None
    assert "KafkaTimeoutError" in failure


async def test_a_bug_is_not_taken_for_a_failure_of_kafka(client: FakeClient) -> None:
    client.results = {b"0": KeyError("bug")}
    with pytest.raises(KeyError):
        await topic().write(EVENTS)


@pytest.mark.parametrize(("fails_at", "last"), [(1, "close"), (2, "stop")])
async def test_what_cannot_connect_is_closed_and_the_next_write_tries_again(
    fails_at: int, last: str, client: FakeClient
) -> None:
    audit = topic()
    client.fails_at = fails_at
    with pytest.raises(OSError, match="no broker"):
        await audit.write(EVENTS)
    assert client.calls[-1] == last
    assert await audit.write(EVENTS) == ([], None)


def test_an_event_goes_to_another_partition_if_its_own_has_no_leader() -> None:
    keys = [b"%d" % number for number in range(200)]
    usual = [partition_of(key, [0, 1, 2], [2, 0, 1]) for key in keys]
    assert set(usual) == {0, 1, 2}
    without = [partition_of(key, [0, 1, 2], [2, 0]) for key in keys]
    assert set(without) == {0, 2}
    assert all(before == after for before, after in zip(usual, without, strict=True) if before != 1)
    assert {partition_of(key, [0, 1, 2], []) for key in keys} == {0, 1, 2}
