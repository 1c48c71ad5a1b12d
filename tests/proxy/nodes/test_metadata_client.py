"""The sidecar's own questions: whom it asks, in which order, and what it makes of the answers."""

from __future__ import annotations

import pytest
from support import oracle
from support.fake_broker import FakeBroker, fixed, hang_up, stall
from support.in_process import until

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.nodes.metadata_client import MAX_ANSWER, Address, MetadataClient, Servers

TOPIC_ID = bytes(range(16))


class Asker:
    """A cluster that asks these addresses, how often it has reached one, and which ones it found good and bad."""

    def __init__(self, *addresses: Address, time_limit: float = 5.0) -> None:
        self.reached = 0
        self.tried: list[tuple[Address, bool]] = []
        self.cluster = MetadataClient(
            lambda: list(addresses), lambda *tried: self.tried.append(tried), self._reach, None, time_limit
        )

    def _reach(self) -> None:
        self.reached += 1


def address(broker: FakeBroker) -> Address:
    return broker.host, broker.port


async def test_a_broker_is_asked_who_is_there() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as two:
        one.cluster = [one, two]
        asker = Asker(address(one))
        assert await asker.cluster.brokers() == [(1, "127.0.0.1", one.port), (2, "127.0.0.1", two.port)]
        assert asker.reached == 1


async def test_the_question_names_no_topic_and_creates_none() -> None:
    async with FakeBroker() as broker:
        await Asker(address(broker)).cluster.brokers()
    (asked,) = broker.requests
    wanted = oracle.request(ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False)
    assert asked.frame == oracle.request_frame(wanted, 0, client_id="kafka-sidecar")


async def test_the_connection_is_closed_after_the_answer() -> None:
    async with FakeBroker() as broker:
        await Asker(address(broker)).cluster.brokers()
        await until(lambda: not broker.open)


async def test_the_name_of_a_topic_is_found_by_its_id() -> None:
    topics = [{"topic_id": bytes(16), "name": "other"}, {"topic_id": TOPIC_ID, "name": "orders"}]
    async with FakeBroker() as broker:
        broker.answers[ApiKey.METADATA] = fixed(oracle.response_frame(oracle.response(3, 12, topics=topics), 0))
        names = await Asker(address(broker)).cluster.topic_names([TOPIC_ID, b"x" * 16])
        assert names[TOPIC_ID] == "orders"
        assert b"x" * 16 not in names


@pytest.mark.parametrize("name", [None, ""])
async def test_a_topic_that_is_not_there_has_no_name(name: str | None) -> None:
    topics = [{"topic_id": TOPIC_ID, "name": name, "error_code": 100}]
    async with FakeBroker() as broker:
        broker.answers[ApiKey.METADATA] = fixed(oracle.response_frame(oracle.response(3, 12, topics=topics), 0))
        assert await Asker(address(broker)).cluster.topic_names([TOPIC_ID]) == {}


async def test_topics_that_are_there_have_ids() -> None:
    topics = [{"topic_id": TOPIC_ID, "name": "orders"}, {"topic_id": bytes(16), "name": "none", "error_code": 3}]
    async with FakeBroker() as broker:
        broker.answers[ApiKey.METADATA] = fixed(oracle.response_frame(oracle.response(3, 12, topics=topics), 0))
        assert await Asker(address(broker)).cluster.topic_ids(["orders", "none"]) == {"orders": TOPIC_ID}


@pytest.mark.parametrize("bad_host", ["127.0.0.1", "no such host", "empty..label", "x" * 70, "lone\udcffsurrogate"])
async def test_the_next_broker_is_asked_when_one_cannot_be_connected_to(bad_host: str) -> None:
    async with FakeBroker() as broker:
        asker = Asker((bad_host, 1), address(broker))
        assert len(await asker.cluster.brokers()) == 1
        assert asker.reached == 1


@pytest.mark.parametrize("port", [-1, 0, 65536, 2**31 - 1])
async def test_a_port_that_cannot_be_is_one_that_does_not_answer(port: int) -> None:
    async with FakeBroker() as broker:
        assert len(await Asker(("127.0.0.1", port), address(broker)).cluster.brokers()) == 1


async def test_the_next_broker_is_asked_when_one_does_not_answer_in_time() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as two:
        one.answers[ApiKey.METADATA] = stall
        asker = Asker(address(one), address(two), time_limit=0.05)
        assert [node for node, *_ in await asker.cluster.brokers()] == [2]
        assert asker.tried == [(address(one), False), (address(two), True)]


BAD_ANSWERS = {
    "closed": (hang_up(), "closed the connection without an answer"),
    "half a frame": (hang_up(b"\0\0\0\x20\0\0"), "closed the connection without an answer"),
    "absurd length": (hang_up(b"\x7f\xff\xff\xff"), "answered with a frame of 2147483647 bytes"),
    "negative length": (hang_up(b"\xff\xff\xff\xff"), "answered with a frame of -1 bytes"),
    "too long": (hang_up((MAX_ANSWER + 1).to_bytes(4, "big")), f"answered with a frame of {MAX_ANSWER + 1} bytes"),
    "HTTP": (hang_up(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "answered with a frame of 1213486160 bytes"),
    "cut short": (fixed(oracle.framed(bytes(9))), "ends early"),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_an_answer_that_is_none_is_told_and_the_next_broker_asked(name: str) -> None:
    answer, sentence = BAD_ANSWERS[name]
    async with FakeBroker(1) as one, FakeBroker(2) as two:
        one.answers[ApiKey.METADATA] = answer
        with pytest.raises((OSError, CodecError), match=sentence):
            await Asker(address(one)).cluster.brokers()
        assert [node for node, *_ in await Asker(address(one), address(two)).cluster.brokers()] == [2]


async def test_every_failure_is_told_when_nobody_answers() -> None:
    async with FakeBroker(1) as one:
        one.answers[ApiKey.METADATA] = hang_up()
        with pytest.raises(OSError, match=r"127.0.0.1:1 refused: .*; 127.0.0.1:\d+ closed the connection"):
            await Asker(("127.0.0.1", 1), address(one)).cluster.brokers()


async def test_no_address_at_all_is_told() -> None:
    with pytest.raises(OSError, match="no broker is known"):
        await Asker().cluster.brokers()


def test_servers_take_turns() -> None:
    servers = Servers([("a", 1), ("b", 2), ("c", 3)])
    assert [servers.in_turn()[0][0] for _ in range(6)] == ["a", "b", "c", "a", "b", "c"]
    assert sorted(servers.in_turn()) == [("a", 1), ("b", 2), ("c", 3)]


def test_a_server_that_failed_comes_last_until_it_works_again() -> None:
    servers = Servers([("a", 1), ("b", 2), ("c", 3)])
    servers.tried(("b", 2), worked=False)
    assert {servers.in_turn()[-1] for _ in range(6)} == {("b", 2)}
    servers.tried(("b", 2), worked=True)
    assert {servers.in_turn()[0] for _ in range(3)} == {("a", 1), ("b", 2), ("c", 3)}


def test_addresses_that_are_not_configured_are_not_remembered_as_failed() -> None:
    servers = Servers([("a", 1)])
    servers.tried(("z", 9), worked=False)
    assert servers.in_turn() == [("a", 1)]
