"""Dead letter topics without brokers: what is created, what is refused, what is dropped, and what waits."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import (
    InvalidTimestampError,
    KafkaConnectionError,
    NotLeaderForPartitionError,
    OutOfOrderSequenceNumber,
    TopicAuthorizationFailedError,
)
from aiokafka.protocol.admin import DescribeConfigsRequest
from support.in_process import until
from support.letters import parcel

from kafka_sidecar.codec.records import batches
from kafka_sidecar.dead_letters.parcels import Parcel
from kafka_sidecar.proxy.features.dead_letters import kafka_topics as module
from kafka_sidecar.proxy.features.dead_letters.held import HeldLanes
from kafka_sidecar.proxy.features.dead_letters.kafka_topics import Creation, LetterTopics
from kafka_sidecar.proxy.runtime import aiokafka_settings
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

UNKNOWN_TOPIC, AUTHORIZATION, POLICY, REPLICATION, CONFIG, EXISTS = 3, 29, 44, 38, 40, 36


@dataclass
class Brokers:
    """What brokers have and answer."""

    topics: dict[str, int] = field(default_factory=dict)  # partitions
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)  # of metadata
    creates: dict[str, int] = field(default_factory=dict)  # error codes of CreateTopics
    created: dict[str, Any] = field(default_factory=dict)
    answer: Callable[[str, int], Exception | None] = lambda topic, partition: None
    silent: set[tuple[str, int]] = field(default_factory=set)  # partitions that do not answer
    written: defaultdict[str, list[bytes | None]] = field(default_factory=lambda: defaultdict(list))
    sequences: list[int] = field(default_factory=list)
    down: bool = False
    producers: int = 0
    admin_error: Exception | None = None

    # As aiokafka's client, producer and admin client.

    def get_random_node(self) -> int:
        return 1

    async def send(self, node: int, request: Any) -> Any:
        if self.down:
            raise KafkaConnectionError("no broker")
        if isinstance(request, DescribeConfigsRequest):
            (resource,) = request._resources
            entries = [(name, value, False) for name, value in self.configs.get(resource[1], {}).items()]
            return SimpleNamespace(resources=[(0, "", 2, resource[1], entries)])
        (name,) = request._topics
        code = self.errors.get(name, 0 if name in self.topics else UNKNOWN_TOPIC)
        partitions = [
            {"partition": number, "leader": -1 if (name, number) in self.silent else 1, "replicas": [1], "isr": [1]}
            for number in range(0 if code else self.topics[name])
        ]
        return SimpleNamespace(to_object=lambda: {"topics": [{"error_code": code, "partitions": partitions}]})

    async def _wait_on_metadata(self, name: str) -> None:
        assert name in self.topics

    async def close(self) -> None:
        """It has nothing to close."""

    async def start(self) -> None:
        if self.admin_error is not None:
            raise self.admin_error

    async def create_topics(self, wanted: Sequence[Any], timeout_ms: int) -> Any:
        (topic,) = wanted
        code = self.creates.get(topic.name, EXISTS if topic.name in self.topics else 0)
        self.created[topic.name] = topic
        if not code:
            self.topics[topic.name] = max(topic.num_partitions, 1)
            self.configs[topic.name] = dict(topic.topic_configs)
        return SimpleNamespace(topic_errors=[(topic.name, code, "the cluster says why")])


class Producer:
    def __init__(self, brokers: Brokers) -> None:
        self.client = self._brokers = brokers
        self._txn_manager = SimpleNamespace(_sequence_numbers=defaultdict(int))
        self._sender = SimpleNamespace(sender_task=None)
        self._closed = False

    async def send_batch(self, builder: Any, topic: str, partition: int) -> Any:
        numbers = self._txn_manager._sequence_numbers
        (at,) = {one for one in numbers if (one.topic, one.partition) == (topic, partition)}
        builder._set_producer_state(7, 0, numbers[at])
        numbers[at] += builder.record_count()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def answer() -> None:
            await until(lambda: (topic, partition) not in self._brokers.silent)
            error = self._brokers.answer(topic, partition)
            if error is not None:
                future.set_exception(error)
                return
            (batch,) = batches(builder._build())
            self._brokers.sequences.append(batch.header.base_sequence)
            self._brokers.written[topic] += [record.key for record in batch.records()]
            future.set_result(SimpleNamespace(offset=0))

        self._task = asyncio.ensure_future(answer())
        return future


@dataclass
class Site:
    brokers: Brokers
    topics: LetterTopics
    lanes: HeldLanes
    dropped: list[tuple[str, str, int, str]]
    held: list[Parcel]
    has_room: bool = True

    async def write(self, *parcels: Parcel) -> tuple[list[Parcel], str | None]:
        return await self.topics.write(list(parcels))


@pytest.fixture
def creation() -> Creation | None:
    return None


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch, creation: Creation | None) -> Site:
    brokers, lanes = Brokers(), HeldLanes()
    dropped: list[tuple[str, str, int, str]] = []
    held: list[Parcel] = []

    async def start_producer(access: object, **settings: object) -> Producer:
        if brokers.down:
            raise KafkaConnectionError("no broker")
        brokers.producers += 1
        return Producer(brokers)

    monkeypatch.setattr(module, "start_producer", start_producer)
    monkeypatch.setattr(aiokafka_settings, "create_client", lambda kind, access, **settings: brokers)
    monkeypatch.setattr(module, "ATTEMPT_S", 0.1)
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    monkeypatch.setattr(module, "RETRY_MS", 10)
    monkeypatch.setattr(module, "WATCH_S", 0.05)

    async def hold(parcels: Sequence[Parcel]) -> bool:
        if found.has_room:
            held.extend(parcels)
        return found.has_room

    topics = LetterTopics(
        ["kafka:9092"], BrokerAccess(), lambda: creation, lambda topic: None,
        lambda *values: dropped.append(values), lambda topic, letters: None, lanes, hold,
    )  # fmt: skip
    found = Site(brokers, topics, lanes, dropped, held)
    return found


def to(topic: str, partition: int = 0) -> Parcel:
    return replace(parcel("k"), topic=topic, partition=partition)


async def test_letters_are_written_to_the_partition_of_their_own_modulo_the_partitions(site: Site) -> None:
    site.brokers.topics = {"a.dlq": 2}
    asked: list[int] = []
    site.brokers.answer = lambda topic, partition: asked.append(partition)
    assert await site.write(to("a.dlq", 0), to("a.dlq", 5), to("a.dlq", 3)) == ([], None)
    assert sorted(asked) == [0, 1]
    assert len(site.brokers.written["a.dlq"]) == 3


async def test_a_topic_that_does_not_exist_costs_its_own_letters_and_no_others(site: Site) -> None:
    site.brokers.topics = {"a.dlq": 1}
    assert await site.write(to("gone.dlq"), to("a.dlq")) == ([], None)
    assert site.dropped == [("gone.dlq", "no_topic", 1, module.MISSING)]
    assert len(site.brokers.written["a.dlq"]) == 1
    assert await site.topics.check(["a.dlq", "gone.dlq"]) == {"gone.dlq": module.MISSING}


@pytest.mark.parametrize(
    ("code", "why"),
    [(AUTHORIZATION, "the brokers do not let the sidecar use it"), (17, "brokers accept no topic of this name")],
)
async def test_a_topic_that_the_sidecar_may_not_see_is_named_with_the_reason(site: Site, code: int, why: str) -> None:
    site.brokers.topics, site.brokers.errors = {"a.dlq": 1, "b.dlq": 1}, {"a.dlq": code}
    assert await site.write(to("a.dlq"), to("b.dlq")) == ([], None)
    assert site.dropped == [("a.dlq", "no_topic", 1, why)]


@pytest.mark.parametrize("creation", [Creation(3, 2, {"retention.ms": "5"})])
async def test_a_missing_topic_is_created_with_its_settings_and_room_for_large_letters(site: Site) -> None:
    assert await site.write(to("a.dlq")) == ([], None)
    made = site.brokers.created["a.dlq"]
    assert (made.num_partitions, made.replication_factor) == (3, 2)
    assert made.topic_configs == {"max.message.bytes": str(2 << 20), "retention.ms": "5"}
    assert len(site.brokers.written["a.dlq"]) == 1


@pytest.mark.parametrize("creation", [Creation()])
async def test_a_topic_that_exists_with_other_settings_is_used_as_it_is(site: Site) -> None:
    site.brokers.topics, site.brokers.configs = {"a.dlq": 5}, {"a.dlq": {"max.message.bytes": "50"}}
    assert await site.write(to("a.dlq")) == ([], None)
    assert site.brokers.created == {}
    assert [one[:3] for one in site.dropped] == [("a.dlq", "too_large", 1)]
    assert site.dropped[0][3].endswith("max.message.bytes of the topic is 50")


@pytest.mark.parametrize("creation", [Creation()])
async def test_a_topic_that_another_program_creates_meanwhile_is_used(site: Site) -> None:
    site.brokers.creates = {"a.dlq": EXISTS}

    async def appear() -> None:
        await asyncio.sleep(0.02)
        site.brokers.topics["a.dlq"] = 1

    appearing = asyncio.ensure_future(appear())
    assert await site.write(to("a.dlq")) == ([], None)
    await appearing
    assert len(site.brokers.written["a.dlq"]) == 1


@pytest.mark.parametrize("creation", [Creation()])
@pytest.mark.parametrize(
    ("code", "why"),
    [
        (POLICY, "the topic a.dlq cannot be created: the cluster says why"),
        (CONFIG, "the topic a.dlq cannot be created: the cluster says why"),
        (AUTHORIZATION, "the brokers do not let the sidecar create it"),
        (31, "the brokers do not let the sidecar create it"),
    ],
)
async def test_a_creation_that_is_refused_holds_up_no_other_topic_and_is_not_tried_each_time(
    site: Site, code: int, why: str
) -> None:
    site.brokers.topics, site.brokers.creates = {"b.dlq": 1}, {"a.dlq": code}
    assert await site.write(to("a.dlq"), to("b.dlq")) == ([], None)
    assert site.dropped == [("a.dlq", "no_topic", 1, why)]
    assert await site.topics.check(["a.dlq"]) == {"a.dlq": why}
    site.brokers.created.clear()
    assert await site.write(to("a.dlq")) == ([], None)
    assert (site.brokers.created, len(site.dropped)) == ({}, 2)


@pytest.mark.parametrize("creation", [Creation()])
async def test_a_creation_that_may_succeed_later_drops_nothing(site: Site) -> None:
    site.brokers.creates = {"a.dlq": REPLICATION}
    with pytest.raises(OSError, match="cannot be created"):
        await site.write(to("a.dlq"))
    assert site.dropped == []
    del site.brokers.creates["a.dlq"]
    assert await site.write(to("a.dlq")) == ([], None)


@pytest.mark.parametrize("creation", [Creation()])
@pytest.mark.parametrize("error", [TimeoutError(), KafkaConnectionError("no controller")])
async def test_an_admin_client_that_cannot_connect_drops_nothing(site: Site, error: Exception) -> None:
    site.brokers.admin_error = error
    with pytest.raises(site.topics.failures):
        await site.write(to("a.dlq"))
    assert site.dropped == []


async def test_brokers_that_are_down_are_a_failure_that_keeps_all(site: Site) -> None:
    site.brokers.down = True
    with pytest.raises(KafkaConnectionError):
        await site.write(to("a.dlq"))
    assert site.dropped == []


async def test_a_letter_that_is_refused_is_dropped_and_its_sequence_number_used_by_the_next(site: Site) -> None:
    site.brokers.topics = {"a.dlq": 1}
    answers: list[Exception | None] = [InvalidTimestampError(), None]
    site.brokers.answer = lambda topic, partition: answers.pop(0)
    assert await site.write(to("a.dlq")) == ([], None)
    assert [one[:3] for one in site.dropped] == [("a.dlq", "refused", 1)]
    assert await site.write(to("a.dlq")) == ([], None)
    assert site.brokers.sequences == [0]


async def test_a_topic_that_may_not_be_written_costs_its_letters_with_one_request(site: Site) -> None:
    site.brokers.topics = {"a.dlq": 1, "b.dlq": 1}
    asked: list[str] = []

    def answer(topic: str, _: int) -> Exception | None:
        asked.append(topic)
        return TopicAuthorizationFailedError(topic) if topic == "a.dlq" else None

    site.brokers.answer = answer
    assert await site.write(to("a.dlq"), to("a.dlq"), to("a.dlq"), to("b.dlq")) == ([], None)
    assert [one[:3] for one in site.dropped] == [("a.dlq", "refused", 3)]
    assert asked.count("a.dlq") == 1


async def test_an_error_that_passes_is_tried_again_with_the_same_sequence_number(site: Site) -> None:
    site.brokers.topics = {"a.dlq": 1}
    answers: list[Exception | None] = [NotLeaderForPartitionError(), NotLeaderForPartitionError(), None]
    site.brokers.answer = lambda topic, partition: answers.pop(0)
    assert await site.write(to("a.dlq")) == ([], None)
    assert (site.brokers.sequences, site.brokers.producers, site.dropped) == ([0], 1, [])


async def test_an_epoch_that_is_over_needs_another_producer_and_loses_nothing(site: Site) -> None:
    site.brokers.topics = {"a.dlq": 1}
    answers: list[Exception | None] = [OutOfOrderSequenceNumber(), None]
    site.brokers.answer = lambda topic, partition: answers.pop(0)
    left, failure = await site.write(to("a.dlq"))
    assert (len(left), failure is not None) == (1, True)
    assert await site.write(*left) == ([], None)
    assert (site.brokers.producers, len(site.brokers.written["a.dlq"])) == (2, 1)


async def test_a_partition_that_takes_nothing_is_held_and_the_others_are_written(site: Site) -> None:
    site.brokers.topics, site.brokers.silent = {"a.dlq": 2}, {("a.dlq", 1)}
    assert await site.write(to("a.dlq", 0), to("a.dlq", 1)) == ([], None)
    assert (site.lanes.count, len(site.held), len(site.brokers.written["a.dlq"])) == (1, 1, 1)
    assert await site.write(to("a.dlq", 2)) == ([], None)
    site.brokers.silent.clear()
    await until(lambda: site.lanes.have_ended)
    (lane,) = site.lanes.begin()
    assert (lane.removed, len(site.brokers.written["a.dlq"])) == (1, 3)
    await site.topics.stop()


async def test_without_room_for_what_would_have_to_wait_all_wait(site: Site) -> None:
    site.brokers.topics, site.brokers.silent, site.has_room = {"a.dlq": 1}, {("a.dlq", 0)}, False
    left, failure = await site.write(to("a.dlq"))
    assert (len(left), failure, site.lanes.count) == (1, module.NOT_TAKEN, 0)
    site.brokers.silent.clear()
    await until(lambda: site.brokers.written["a.dlq"] != [])
    assert await site.write(*left) == ([], None)
    assert len(site.brokers.written["a.dlq"]) == 1


async def test_brokers_that_do_not_answer_hold_no_partition(site: Site) -> None:
    site.brokers.topics, site.brokers.silent = {"a.dlq": 1}, {("a.dlq", 0)}
    writing = asyncio.ensure_future(site.write(to("a.dlq")))
    await until(lambda: site.topics.unsent is not None)
    site.brokers.down = True
    left, failure = await writing
    assert (len(left), failure, site.lanes.count) == (1, module.NOT_TAKEN, 0)
    await site.topics.stop()


async def test_a_topic_that_is_deleted_while_its_letters_wait_gives_its_lanes_up(site: Site) -> None:
    site.brokers.topics, site.brokers.silent = {"a.dlq": 1}, {("a.dlq", 0)}
    assert await site.write(to("a.dlq")) == ([], None)
    assert site.lanes.count == 1
    del site.brokers.topics["a.dlq"]
    await until(lambda: site.lanes.have_ended)
    assert [lane.removed for lane in site.lanes.begin()] == [0]
    site.lanes.end()
    assert await site.write(*site.held) == ([], None)
    assert site.dropped == [("a.dlq", "no_topic", 1, module.MISSING)]
    await site.topics.stop()


async def test_a_compacted_topic_is_named_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.brokers.topics, site.brokers.configs = {"a.dlq": 1}, {"a.dlq": {"cleanup.policy": "compact,delete"}}
    with caplog.at_level(logging.WARNING):
        await site.topics.check(["a.dlq"])
        site.topics._topics.clear()
        await site.topics.check(["a.dlq"])
    assert [one.message for one in caplog.records] == ["dead letter topic is compacted"]
