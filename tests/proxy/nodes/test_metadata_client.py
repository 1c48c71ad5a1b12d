"""The sidecar's own Metadata requests: which brokers get them, in which order, and how responses are read."""

from __future__ import annotations

import asyncio

import pytest
from support import oracle
from support.fake_broker import FakeBroker, Request, fixed, hang_up, stall
from support.in_process import until

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.nodes.metadata_client import (
    MAX_RESPONSE_BYTES,
    Address,
    BootstrapServers,
    MetadataClient,
    OwnConnections,
)
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

TOO_LONG = MAX_RESPONSE_BYTES + 1
TOPIC_ID = bytes(range(16))


class Requester:
    """A client for these addresses, the number of connections, and the recorded attempts."""

    def __init__(self, *addresses: Address, timeout_s: float = 5.0) -> None:
        self.reached = 0
        self.addresses = list(addresses)
        self.attempts: list[tuple[Address, Exception | None]] = []
        self.own = OwnConnections()
        self.client = MetadataClient(
            lambda: self.addresses,
            lambda *attempt: self.attempts.append(attempt),
            self._reach,
            self.own,
            BrokerAccess(),
            timeout_s,
        )

    def _reach(self) -> None:
        self.reached += 1


def address(broker: FakeBroker) -> Address:
    return broker.host, broker.port


async def test_a_broker_is_asked_for_the_brokers_of_the_cluster() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as two:
        one.cluster = [one, two]
        requester = Requester(address(one))
        assert await requester.client.brokers() == [(1, "127.0.0.1", one.port), (2, "127.0.0.1", two.port)]
        assert requester.reached == 1


async def test_the_request_names_no_topic_and_creates_none() -> None:
    async with FakeBroker() as broker:
        await Requester(address(broker)).client.brokers()
    _, asked = broker.requests
    wanted = oracle.request(ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False)
    assert asked.frame == oracle.request_frame(wanted, 0, client_id="kafka-sidecar")


async def test_the_connection_is_closed_after_the_response() -> None:
    async with FakeBroker() as broker:
        await Requester(address(broker)).client.brokers()
        await until(lambda: not broker.open)


async def test_requests_about_topics_share_one_connection_that_is_kept() -> None:
    async with FakeBroker() as broker:
        client = Requester(address(broker)).client
        await asyncio.gather(*(client.topic_names([TOPIC_ID]) for _ in range(10)))
        await client.topic_ids(["orders"])
        assert (broker.connected, len(broker.requests)) == (1, 12)  # one of them is ApiVersions
        client.close()
        await until(lambda: not broker.open)


async def test_a_kept_connection_that_the_broker_has_closed_is_replaced() -> None:
    async with FakeBroker() as broker:
        client = Requester(address(broker)).client
        await client.topic_names([TOPIC_ID])
        broker.drop()
        assert await client.topic_names([TOPIC_ID]) == {}
        assert broker.connected == 2
        client.close()


async def test_a_kept_connection_that_does_not_respond_in_time_is_replaced() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as two:
        requester = Requester(address(one), timeout_s=0.05)
        await requester.client.topic_names([TOPIC_ID])
        one.answers[ApiKey.METADATA] = stall
        requester.addresses = [address(two)]
        assert await requester.client.topic_names([TOPIC_ID]) == {}
        assert two.connected == 1
        requester.client.close()


async def test_a_broker_is_reached_once_it_has_responded_though_it_rejects_metadata_requests() -> None:
    async with FakeBroker() as broker:
        broker.answers[ApiKey.METADATA] = hang_up()
        requester = Requester(address(broker))
        with pytest.raises(OSError, match="closed the connection"):
            await requester.client.brokers()
        assert requester.reached == 1


@pytest.mark.parametrize("knows", [0, 3])
async def test_a_broker_that_is_too_old_is_said_to_be_so(knows: int) -> None:
    """One before Kafka 2.4 does not know the version of the greeting, and responds in version 0."""

    async def old(_: FakeBroker, request: Request) -> bytes:
        version, error = (request.version, 0) if request.version <= knows else (0, 35)
        listed = [{"api_key": ApiKey.METADATA, "min_version": 0, "max_version": 11}] if error == 0 else []
        response = oracle.response(ApiKey.API_VERSIONS, version, error_code=error, api_keys=listed)
        return oracle.response_frame(response, request.correlation_id)

    async with FakeBroker() as broker:
        broker.answers[ApiKey.API_VERSIONS] = old
        requester = Requester(address(broker))
        with pytest.raises(OSError, match="has Metadata 0 to 11, 12 is needed: use brokers of Kafka 3"):
            await requester.client.brokers()
        assert requester.reached == 1


async def test_a_peer_that_only_accepts_connections_is_not_reached() -> None:
    async with FakeBroker() as broker:
        broker.answers[ApiKey.API_VERSIONS] = hang_up()
        requester = Requester(address(broker))
        with pytest.raises(OSError, match="closed the connection"):
            await requester.client.brokers()
        assert requester.reached == 0


async def test_the_name_of_a_topic_is_requested_by_its_id() -> None:
    topics = [{"topic_id": bytes(16), "name": "other"}, {"topic_id": TOPIC_ID, "name": "orders"}]
    async with FakeBroker() as broker:
        broker.answers[ApiKey.METADATA] = fixed(oracle.response_frame(oracle.response(3, 12, topics=topics), 0))
        client = Requester(address(broker)).client
        names = await client.topic_names([TOPIC_ID, b"x" * 16])
        client.close()
        assert names[TOPIC_ID] == "orders"
        assert b"x" * 16 not in names


@pytest.mark.parametrize("name", [None, ""])
async def test_an_unknown_topic_has_no_name(name: str | None) -> None:
    topics = [{"topic_id": TOPIC_ID, "name": name, "error_code": 100}]
    async with FakeBroker() as broker:
        broker.answers[ApiKey.METADATA] = fixed(oracle.response_frame(oracle.response(3, 12, topics=topics), 0))
        client = Requester(address(broker)).client
        assert await client.topic_names([TOPIC_ID]) == {}
        client.close()


async def test_existing_topics_have_ids() -> None:
    topics = [{"topic_id": TOPIC_ID, "name": "orders"}, {"topic_id": bytes(16), "name": "none", "error_code": 3}]
    async with FakeBroker() as broker:
        broker.answers[ApiKey.METADATA] = fixed(oracle.response_frame(oracle.response(3, 12, topics=topics), 0))
        client = Requester(address(broker)).client
        assert await client.topic_ids(["orders", "none"]) == {"orders": TOPIC_ID}
        client.close()


@pytest.mark.parametrize("bad_host", ["127.0.0.1", "no such host", "empty..label", "x" * 70, "lone\udcffsurrogate"])
async def test_the_next_broker_is_tried_when_one_is_unreachable(bad_host: str) -> None:
    async with FakeBroker() as broker:
        requester = Requester((bad_host, 1), address(broker))
        assert len(await requester.client.brokers()) == 1
        assert requester.reached == 1


@pytest.mark.parametrize("port", [-1, 0, 65536, 2**31 - 1])
async def test_a_broker_with_an_invalid_port_is_unreachable(port: int) -> None:
    async with FakeBroker() as broker:
        assert len(await Requester(("127.0.0.1", port), address(broker)).client.brokers()) == 1


async def test_the_next_broker_is_tried_when_one_does_not_respond_in_time() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as two:
        one.answers[ApiKey.METADATA] = stall
        requester = Requester(address(one), address(two), timeout_s=0.05)
        assert [node for node, *_ in await requester.client.brokers()] == [2]
        assert [(at, type(error)) for at, error in requester.attempts] == [
            (address(one), TimeoutError), (address(two), type(None)),
        ]  # fmt: skip


BAD_RESPONSES = {
    "closed": (hang_up(), "closed the connection without a response"),
    "half a frame": (hang_up(b"\0\0\0\x20\0\0"), "closed the connection without a response"),
    "absurd length": (hang_up(b"\x7f\xff\xff\xff"), "sent a frame of 2147483647 bytes"),
    "negative length": (hang_up(b"\xff\xff\xff\xff"), "sent a frame of -1 bytes"),
    "too long": (
        hang_up((MAX_RESPONSE_BYTES + 1).to_bytes(4, "big")),
        f"sent a frame of {MAX_RESPONSE_BYTES + 1} bytes",
    ),
    "HTTP": (hang_up(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "not Kafka: an HTTP answer"),
    "cut short": (fixed(oracle.framed(bytes(9))), "ends early"),
}


@pytest.mark.parametrize("name", BAD_RESPONSES)
async def test_an_invalid_response_is_an_error_and_the_next_broker_is_tried(name: str) -> None:
    response, message = BAD_RESPONSES[name]
    async with FakeBroker(1) as one, FakeBroker(2) as two:
        one.answers[ApiKey.METADATA] = response
        with pytest.raises((OSError, CodecError), match=message):
            await Requester(address(one)).client.brokers()
        assert [node for node, *_ in await Requester(address(one), address(two)).client.brokers()] == [2]


async def test_the_error_has_every_failure_when_no_broker_responds() -> None:
    async with FakeBroker(1) as one:
        one.answers[ApiKey.METADATA] = hang_up()
        with pytest.raises(OSError, match=r"127.0.0.1:1 refused the connection; 127.0.0.1:\d+ closed the connection"):
            await Requester(("127.0.0.1", 1), address(one)).client.brokers()


async def test_without_addresses_the_error_says_so() -> None:
    with pytest.raises(OSError, match="no broker is known"):
        await Requester().client.brokers()


def test_bootstrap_servers_take_turns() -> None:
    servers = BootstrapServers([("a", 1), ("b", 2), ("c", 3)])
    assert [servers.next_order()[0][0] for _ in range(6)] == ["a", "b", "c", "a", "b", "c"]
    assert sorted(servers.next_order()) == [("a", 1), ("b", 2), ("c", 3)]


def test_a_failed_server_comes_last_until_it_responds_again() -> None:
    servers = BootstrapServers([("a", 1), ("b", 2), ("c", 3)])
    servers.record_attempt(("b", 2), reachable=False)
    assert {servers.next_order()[-1] for _ in range(6)} == {("b", 2)}
    servers.record_attempt(("b", 2), reachable=True)
    assert {servers.next_order()[0] for _ in range(3)} == {("a", 1), ("b", 2), ("c", 3)}


def test_failures_of_other_addresses_are_not_recorded() -> None:
    servers = BootstrapServers([("a", 1)])
    servers.record_attempt(("z", 9), reachable=False)
    assert servers.next_order() == [("a", 1)]


async def test_a_request_for_topics_creates_none() -> None:
    async with FakeBroker() as broker:
        client = Requester(address(broker)).client
        await client.topic_ids(["orders"])
        await client.topic_names([TOPIC_ID])
        client.close()
    asked = [one for one in broker.requests if one.key == ApiKey.METADATA]
    for request, topic in zip(asked, ({"name": "orders"}, {"topic_id": TOPIC_ID}), strict=True):
        wanted = oracle.request(ApiKey.METADATA, 12, topics=[topic], allow_auto_topic_creation=False)
        assert request.frame[8 + 4 :] == oracle.request_frame(wanted, 0, client_id="kafka-sidecar")[8 + 4 :]
