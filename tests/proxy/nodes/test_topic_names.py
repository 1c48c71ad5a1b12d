"""Names of topics by id: learned from responses, requested once when unknown."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Collection, Mapping

import pytest
from support import oracle
from support.in_process import until

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.nodes import topic_names as topics_module
from kafka_sidecar.proxy.nodes.topic_names import MAX_ID_AGE_S, MAX_LEARNED_BYTES, UNKNOWN_S, TopicNameCache, learnt

ORDERS, BILLS = b"o" * 16, b"b" * 16


class Cluster:
    """Responds once it may, and records the requests."""

    def __init__(self, **names: bytes) -> None:
        self.names = {topic_id: name for name, topic_id in names.items()}
        self.requested: list[list[bytes]] = []
        self.may_respond = asyncio.Event()
        self.error: Exception | None = None

    async def request_names(self, topic_ids: Collection[bytes]) -> Mapping[bytes, str]:
        self.requested.append(sorted(topic_ids))
        await self.may_respond.wait()
        if self.error is not None:
            raise self.error
        return {topic_id: self.names[topic_id] for topic_id in topic_ids if topic_id in self.names}


async def name(topics: TopicNameCache, topic_id: bytes) -> str | None:
    await topics.resolve([topic_id])
    return topics.name_of(topic_id)


def metadata(version: int, **names: bytes) -> bytes:
    listed = [
        {"topic_id": topic_id, "name": name, "error_code": 0 if topic_id != NO_ID else 3}
        for name, topic_id in names.items()
    ]
    return oracle.encoded(oracle.response(3, version, topics=listed))


@pytest.mark.parametrize("version", range(10, 14))
def test_names_are_learned_from_metadata(version: int) -> None:
    topics = TopicNameCache(Cluster().request_names)
    topics.learn(learnt(b"head" + metadata(version, orders=ORDERS, bills=BILLS), 4, version))
    assert (topics.name_of(ORDERS), topics.name_of(BILLS), len(topics)) == ("orders", "bills", 2)


@pytest.mark.parametrize("version", range(10))
def test_metadata_without_ids_has_no_names(version: int) -> None:
    topics = TopicNameCache(Cluster().request_names)
    topics.learn(learnt(metadata(version, orders=ORDERS), 0, version))
    assert len(topics) == 0


def test_topics_without_id_or_name_are_ignored() -> None:
    topics = TopicNameCache(Cluster().request_names)
    topics.learn(learnt(metadata(12, orders=bytes(16)), 0, 12))
    topics.learn(learnt(oracle.encoded(oracle.response(3, 12, topics=[{"topic_id": ORDERS, "name": None}])), 0, 12))
    assert len(topics) == 0


def test_an_id_that_a_client_has_put_beside_a_name_is_not_learned_from_the_error_that_repeats_both() -> None:
    topics = TopicNameCache(Cluster().request_names)
    repeated = [{"topic_id": ORDERS, "name": "bills", "error_code": 42}, {"topic_id": BILLS, "name": "bills"}]
    topics.learn(learnt(oracle.encoded(oracle.response(3, 11, topics=repeated)), 0, 11))
    assert (topics.name_of(ORDERS), topics.name_of(BILLS), topics.id_of("bills")) == (None, "bills", BILLS)


@pytest.mark.parametrize("error_code", [29, 5, 17, 42])
def test_what_a_client_may_not_see_is_there_for_others(error_code: int) -> None:
    topics = TopicNameCache(Cluster().request_names)
    topics.learn(learnt(metadata(12, orders=ORDERS), 0, 12))
    denied = [{"topic_id": NO_ID, "name": "orders", "error_code": error_code}]
    topics.learn(learnt(oracle.encoded(oracle.response(3, 12, topics=denied)), 0, 12))
    assert topics.id_of("orders") == ORDERS


def test_a_response_that_would_block_the_loop_is_not_read() -> None:
    topics = TopicNameCache(Cluster().request_names)
    body = metadata(12, orders=ORDERS)
    topics.learn(learnt(body + bytes(MAX_LEARNED_BYTES - len(body)), 0, 12))
    assert len(topics) == 1
    topics = TopicNameCache(Cluster().request_names)
    topics.learn(learnt(body + bytes(MAX_LEARNED_BYTES - len(body) + 1), 0, 12))
    assert len(topics) == 0


def test_invalid_metadata_is_an_error() -> None:
    with pytest.raises(CodecError):
        TopicNameCache(Cluster().request_names).learn(learnt(metadata(12, orders=ORDERS)[:-9], 0, 12))


def test_the_oldest_name_is_evicted_and_none_by_learning_a_known_one_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics_module, "MAX_NAMES", 3)
    topics = TopicNameCache(Cluster().request_names)
    ids = [bytes([1 + n]) * 16 for n in range(5)]
    for n in (0, 1, 2, 2, 1):
        topics.remember([(ids[n], f"t{n}")])
    assert [topics.name_of(topic_id) for topic_id in ids] == ["t0", "t1", "t2", None, None]
    topics.remember([(ids[3], "t3"), (ids[4], "t4")])
    assert [topics.name_of(topic_id) for topic_id in ids] == [None, None, "t2", "t3", "t4"]


def test_the_id_of_a_name_is_that_of_the_last_response_for_five_minutes() -> None:
    now = 1000.0
    topics = TopicNameCache(Cluster().request_names, lambda: now)
    assert topics.id_of("orders") == NO_ID
    topics.learn(learnt(metadata(12, orders=ORDERS), 0, 12))
    topics.learn(learnt(metadata(12, orders=BILLS), 0, 12))  # deleted, and created again
    assert topics.id_of("orders") == BILLS
    now += MAX_ID_AGE_S - 1
    assert topics.id_of("orders") == BILLS
    now += 1
    assert topics.id_of("orders") == NO_ID
    topics.learn(learnt(metadata(12, orders=BILLS), 0, 12))
    assert topics.id_of("orders") == BILLS


def test_a_topic_that_no_longer_exists_has_no_id() -> None:
    topics, seen = TopicNameCache(Cluster().request_names), list[tuple[bytes, str]]()
    topics.on_topics = seen.extend
    topics.learn(learnt(metadata(12, orders=ORDERS, bills=BILLS), 0, 12))
    topics.learn(learnt(metadata(12, orders=NO_ID), 0, 12))
    assert (topics.id_of("orders"), topics.id_of("bills")) == (NO_ID, BILLS)
    assert topics.name_of(ORDERS) == "orders"  # ids are never reused
    assert seen == [(ORDERS, "orders"), (BILLS, "bills")]


def test_the_oldest_id_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics_module, "MAX_NAMES", 2)
    topics = TopicNameCache(Cluster().request_names)
    for n in range(3):
        topics.remember([(ORDERS, f"t{n}")])
    assert [topics.id_of(f"t{n}") for n in range(3)] == [NO_ID, ORDERS, ORDERS]


async def test_a_learned_name_is_not_requested() -> None:
    cluster = Cluster()
    topics = TopicNameCache(cluster.request_names)
    topics.remember([(ORDERS, "orders")])
    assert await name(topics, ORDERS) == "orders"
    assert cluster.requested == []


async def test_concurrent_calls_share_one_request() -> None:
    cluster = Cluster(orders=ORDERS, bills=BILLS)
    topics = TopicNameCache(cluster.request_names)
    waiters = [asyncio.ensure_future(name(topics, topic_id)) for topic_id in (ORDERS, BILLS, ORDERS, ORDERS)]
    await asyncio.sleep(0)
    cluster.may_respond.set()
    assert await asyncio.gather(*waiters) == ["orders", "bills", "orders", "orders"]
    assert cluster.requested == [[BILLS, ORDERS]]
    assert await name(topics, ORDERS) == "orders"
    assert len(cluster.requested) == 1


async def test_ids_that_come_during_a_request_are_all_in_the_next_one() -> None:
    cluster = Cluster(orders=ORDERS, bills=BILLS)
    topics = TopicNameCache(cluster.request_names)
    first = asyncio.ensure_future(name(topics, ORDERS))
    await until(lambda: cluster.requested)
    others = [asyncio.ensure_future(name(topics, bytes([n]) * 16)) for n in range(1, 50)]
    later = asyncio.ensure_future(name(topics, BILLS))
    await asyncio.sleep(0)
    cluster.may_respond.set()
    assert (await first, await later) == ("orders", "bills")
    assert await asyncio.gather(*others) == [None] * 49
    assert [len(ids) for ids in cluster.requested] == [1, 50]


async def test_a_request_has_a_maximum_of_ids_and_so_have_all_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics_module, "MAX_REQUESTED", 2)
    monkeypatch.setattr(topics_module, "MAX_PENDING", 5)
    cluster = Cluster()
    cluster.may_respond.set()
    await TopicNameCache(cluster.request_names).resolve(bytes([n]) * 16 for n in range(1, 10))
    assert [len(ids) for ids in cluster.requested] == [2, 2, 1]


async def test_all_unknown_ids_are_in_one_request() -> None:
    cluster = Cluster(orders=ORDERS, bills=BILLS)
    cluster.may_respond.set()
    topics = TopicNameCache(cluster.request_names)
    topics.remember([(b"k" * 16, "known")])
    await topics.resolve([ORDERS, BILLS, b"k" * 16, b"x" * 16, ORDERS])
    assert [topics.name_of(topic_id) for topic_id in (ORDERS, BILLS, b"x" * 16)] == ["orders", "bills", None]
    assert cluster.requested == [[BILLS, ORDERS, b"x" * 16]]


async def test_the_zero_id_is_not_requested() -> None:
    cluster = Cluster()
    topics = TopicNameCache(cluster.request_names)
    await topics.resolve([bytes(16)])
    assert cluster.requested == []


async def test_an_unknown_topic_is_requested_again_after_a_while() -> None:
    cluster, now = Cluster(), [0.0]
    cluster.may_respond.set()
    topics = TopicNameCache(cluster.request_names, lambda: now[0])
    assert await name(topics, ORDERS) is None
    cluster.names[ORDERS] = "orders"
    now[0] = UNKNOWN_S - 0.1
    assert await name(topics, ORDERS) is None
    assert len(cluster.requested) == 1
    now[0] = UNKNOWN_S
    assert await name(topics, ORDERS) == "orders"


async def test_an_unknown_topic_that_a_response_names_is_known_at_once() -> None:
    cluster = Cluster()
    cluster.may_respond.set()
    topics = TopicNameCache(cluster.request_names)
    assert await name(topics, ORDERS) is None
    topics.remember([(ORDERS, "orders")])
    assert await name(topics, ORDERS) == "orders"


async def test_unknown_ids_are_remembered_up_to_a_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics_module, "MAX_UNKNOWN", 2)
    cluster = Cluster()
    cluster.may_respond.set()
    topics = TopicNameCache(cluster.request_names, lambda: 0.0)
    ids = [bytes([n]) * 16 for n in range(1, 4)]
    await topics.resolve(ids)
    await topics.resolve(ids)
    assert [len(requested) for requested in cluster.requested] == [3, 1]


async def test_a_failed_request_fails_all_its_waiters_and_is_repeated() -> None:
    cluster = Cluster(orders=ORDERS)
    cluster.error = OSError("no broker is known")
    cluster.may_respond.set()
    topics = TopicNameCache(cluster.request_names)
    assert [
        type(error)
        for error in await asyncio.gather(name(topics, ORDERS), name(topics, ORDERS), return_exceptions=True)
    ] == [OSError, OSError]
    cluster.error = None
    assert await name(topics, ORDERS) == "orders"


async def test_a_cancelled_waiter_does_not_cancel_the_request_of_the_others() -> None:
    cluster = Cluster(orders=ORDERS)
    topics = TopicNameCache(cluster.request_names)
    leaver, stayer = (asyncio.ensure_future(name(topics, ORDERS)) for _ in range(2))
    await asyncio.sleep(0)
    leaver.cancel()
    await asyncio.sleep(0)
    cluster.may_respond.set()
    assert await stayer == "orders"
    assert leaver.cancelled()


async def test_a_failure_without_waiters_is_not_reported_as_lost() -> None:
    lost: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: lost.append(context["message"]))
    cluster = Cluster()
    cluster.error = OSError("gone")
    leaver = asyncio.ensure_future(TopicNameCache(cluster.request_names).resolve([ORDERS]))
    before = asyncio.all_tasks() - {leaver}
    await until(lambda: cluster.requested)
    leaver.cancel()
    await asyncio.wait([leaver])
    cluster.may_respond.set()
    await until(lambda: asyncio.all_tasks() == before)
    gc.collect()
    assert lost == []


def test_the_last_id_of_a_name_has_no_age_and_each_id_is_reported() -> None:
    now, reported = 1000.0, []
    topics = TopicNameCache(Cluster().request_names, lambda: now)
    topics.on_id = lambda *topic: reported.append(topic)
    assert topics.last_id_of("orders") == NO_ID
    topics.learn(learnt(metadata(12, orders=ORDERS), 0, 12))
    now += MAX_ID_AGE_S
    assert topics.last_id_of("orders") == ORDERS
    topics.learn(learnt(metadata(12, orders=NO_ID), 0, 12))
    assert topics.last_id_of("orders") == NO_ID
    topics.learn(learnt(metadata(12, orders=BILLS), 0, 12))
    assert reported == [(ORDERS, "orders"), (BILLS, "orders")]
