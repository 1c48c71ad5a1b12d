"""Topic ids and names: learned from what passes, asked for once when unknown."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Collection, Mapping

import pytest
from support import oracle

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.nodes import topic_names as topics_module
from kafka_sidecar.proxy.nodes.topic_names import LARGEST_LEARNED, TopicNameCache

ORDERS, BILLS = b"o" * 16, b"b" * 16


class Cluster:
    """Answers when it is let, and counts the questions."""

    def __init__(self, **names: bytes) -> None:
        self.names = {topic_id: name for name, topic_id in names.items()}
        self.asked: list[list[bytes]] = []
        self.may_answer = asyncio.Event()
        self.error: Exception | None = None

    async def ask(self, topic_ids: Collection[bytes]) -> Mapping[bytes, str]:
        self.asked.append(sorted(topic_ids))
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return {topic_id: self.names[topic_id] for topic_id in topic_ids if topic_id in self.names}


async def name(topics: TopicNameCache, topic_id: bytes) -> str | None:
    await topics.ask([topic_id])
    return topics.known(topic_id)


def metadata(version: int, **names: bytes) -> bytes:
    listed = [{"topic_id": topic_id, "name": name} for name, topic_id in names.items()]
    return oracle.encoded(oracle.response(3, version, topics=listed))


@pytest.mark.parametrize("version", range(10, 14))
def test_names_are_learned_from_metadata(version: int) -> None:
    topics = TopicNameCache(Cluster().ask)
    topics.learn(b"head" + metadata(version, orders=ORDERS, bills=BILLS), 4, version)
    assert (topics.known(ORDERS), topics.known(BILLS), len(topics)) == ("orders", "bills", 2)


@pytest.mark.parametrize("version", range(10))
def test_metadata_without_ids_teaches_nothing(version: int) -> None:
    topics = TopicNameCache(Cluster().ask)
    topics.learn(metadata(version, orders=ORDERS), 0, version)
    assert len(topics) == 0


def test_topics_without_id_or_name_teach_nothing() -> None:
    topics = TopicNameCache(Cluster().ask)
    topics.learn(metadata(12, orders=bytes(16)), 0, 12)
    topics.learn(oracle.encoded(oracle.response(3, 12, topics=[{"topic_id": ORDERS, "name": None}])), 0, 12)
    assert len(topics) == 0


def test_a_response_that_would_hold_up_the_loop_is_not_read() -> None:
    topics = TopicNameCache(Cluster().ask)
    body = metadata(12, orders=ORDERS)
    topics.learn(body + bytes(LARGEST_LEARNED - len(body)), 0, 12)
    assert len(topics) == 1
    topics = TopicNameCache(Cluster().ask)
    topics.learn(body + bytes(LARGEST_LEARNED - len(body) + 1), 0, 12)
    assert len(topics) == 0


def test_bytes_that_are_no_metadata_are_an_error() -> None:
    with pytest.raises(CodecError):
        TopicNameCache(Cluster().ask).learn(metadata(12, orders=ORDERS)[:-9], 0, 12)


def test_the_oldest_name_makes_room_and_no_known_one_is_lost_by_being_learned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics_module, "MOST_NAMES", 3)
    topics = TopicNameCache(Cluster().ask)
    ids = [bytes([n]) * 16 for n in range(5)]
    for n in (0, 1, 2, 2, 1):
        topics.remember([(ids[n], f"t{n}")])
    assert [topics.known(topic_id) for topic_id in ids] == ["t0", "t1", "t2", None, None]
    topics.remember([(ids[3], "t3"), (ids[4], "t4")])
    assert [topics.known(topic_id) for topic_id in ids] == [None, None, "t2", "t3", "t4"]


async def test_a_name_that_passed_is_not_asked_for() -> None:
    cluster = Cluster()
    topics = TopicNameCache(cluster.ask)
    topics.remember([(ORDERS, "orders")])
    assert await name(topics, ORDERS) == "orders"
    assert cluster.asked == []


async def test_many_who_want_one_name_ask_once() -> None:
    cluster = Cluster(orders=ORDERS, bills=BILLS)
    topics = TopicNameCache(cluster.ask)
    wanted = [asyncio.ensure_future(name(topics, topic_id)) for topic_id in (ORDERS, BILLS, ORDERS, ORDERS)]
    await asyncio.sleep(0)
    cluster.may_answer.set()
    assert await asyncio.gather(*wanted) == ["orders", "bills", "orders", "orders"]
    assert sorted(cluster.asked) == [[BILLS], [ORDERS]]
    assert await name(topics, ORDERS) == "orders"
    assert len(cluster.asked) == 2


async def test_all_that_are_unknown_are_asked_for_at_once() -> None:
    cluster = Cluster(orders=ORDERS, bills=BILLS)
    cluster.may_answer.set()
    topics = TopicNameCache(cluster.ask)
    topics.remember([(b"k" * 16, "known")])
    await topics.ask([ORDERS, BILLS, b"k" * 16, b"x" * 16, ORDERS])
    assert [topics.known(topic_id) for topic_id in (ORDERS, BILLS, b"x" * 16)] == ["orders", "bills", None]
    assert cluster.asked == [[BILLS, ORDERS, b"x" * 16]]


async def test_the_zero_id_is_no_topics_and_not_asked_for() -> None:
    cluster = Cluster()
    topics = TopicNameCache(cluster.ask)
    await topics.ask([bytes(16)])
    assert cluster.asked == []


async def test_an_unknown_topic_is_asked_for_again() -> None:
    cluster = Cluster()
    cluster.may_answer.set()
    topics = TopicNameCache(cluster.ask)
    assert await name(topics, ORDERS) is None
    cluster.names[ORDERS] = "orders"
    assert await name(topics, ORDERS) == "orders"


async def test_a_failed_question_fails_all_who_wait_and_is_asked_again() -> None:
    cluster = Cluster(orders=ORDERS)
    cluster.error = OSError("no broker is known")
    cluster.may_answer.set()
    topics = TopicNameCache(cluster.ask)
    assert [
        type(error)
        for error in await asyncio.gather(name(topics, ORDERS), name(topics, ORDERS), return_exceptions=True)
    ] == [OSError, OSError]
    cluster.error = None
    assert await name(topics, ORDERS) == "orders"


async def test_one_who_gives_up_does_not_take_the_answer_from_the_others() -> None:
    cluster = Cluster(orders=ORDERS)
    topics = TopicNameCache(cluster.ask)
    leaver, stayer = (asyncio.ensure_future(name(topics, ORDERS)) for _ in range(2))
    await asyncio.sleep(0)
    leaver.cancel()
    await asyncio.sleep(0)
    cluster.may_answer.set()
    assert await stayer == "orders"
    assert leaver.cancelled()


async def test_a_failure_that_nobody_waits_for_any_more_is_not_reported_as_lost() -> None:
    lost: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: lost.append(context["message"]))
    cluster = Cluster()
    cluster.error = OSError("gone")
    leaver = asyncio.ensure_future(TopicNameCache(cluster.ask).ask([ORDERS]))
    await asyncio.sleep(0)
    leaver.cancel()
    await asyncio.sleep(0)
    cluster.may_answer.set()
    await asyncio.sleep(0.01)
    gc.collect()
    assert lost == []
