"""No request and no response outlives its connection, whatever ends it: nothing waits for the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import logging
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from harness.certificates import authority
from support import oracle
from support.fake_broker import Answer, FakeBroker, Request, hang_up
from support.in_process import Client, connected, port_of, serving, until
from support.policies import Stub
from support.produce_requests import batch, produce_request

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.plugins.effects import TURN, Steps
from kafka_sidecar.proxy.exchanges.fetch import FetchExchange
from kafka_sidecar.proxy.exchanges.produce import ProduceExchange
from kafka_sidecar.proxy.relay.exchange import Outcome
from kafka_sidecar.proxy.runtime import performer, sweep
from kafka_sidecar.proxy.server.server import Server

CA = authority()
MB = 1 << 20
SIZE = 4 * MB  # of a request, or a response
KEPT = MB
VERSION = 9
VALUE = "x" * SIZE
RULES: dict[str, Any] = {
    "policies": {"stub": {"type": "support.policies:Stub"}},
    "topics": [{"name": "*", "policy": "stub"}],
    "interceptors": [{"type": "add_header", "headers": {"a": "b"}}, {"type": "mask_fields", "fields": ["$.card"]}],
}
LARGE: dict[str, Any] = {"large_messages": {"topics": [{"name": "*"}]}}
DENIED: dict[str, Any] = {"authorization": {"rules": [{"principals": ["User:alice"], "topics": ["*"]}]}}


def produce(word: str, topic: str = "orders", acks: int = -1, version: int = VERSION) -> bytes:
    """A Produce with one large value, which begins with a word that the policy knows."""
    return produce_request(version, {topic: {0: batch(word, VALUE)}}, acks)


def many_partitions() -> bytes:
    return produce_request(VERSION, {"orders": {at: batch("x" * 1000) for at in range(4000)}})


def damaged() -> bytes:
    frame = produce("good")
    return frame[:-1000] + bytes(900) + frame[-100:]


def two_batches() -> bytes:
    return produce_request(VERSION, {"orders": {0: batch(f"good {VALUE}") * 2}})


def cut_short(frame: bytes) -> bytes:
    """A frame that is whole, and whose body ends too early."""
    return (len(frame) - 14).to_bytes(4, "big") + frame[4:-10]


def unreadable_name() -> bytes:
    """A topic's name that is longer than any string may be."""
    return produce("good", "n" * 32768, version=VERSION)


def commit() -> bytes:
    """An OffsetCommit with much metadata."""
    partitions = [{"partition_index": at, "committed_metadata": "m" * 30_000} for at in range(SIZE // 30_000)]
    topics = [{"name": "orders", "partitions": partitions}]
    return oracle.request_frame(oracle.request(ApiKey.OFFSET_COMMIT, 8, topics=topics), 1)


def fetch_request() -> bytes:
    topics = [{"topic": "orders", "partitions": [{"partition": 0, "partition_max_bytes": SIZE}]}]
    return oracle.request_frame(oracle.request(ApiKey.FETCH, 11, topics=topics, max_bytes=SIZE), 1)


def fetched(records: bytes) -> bytes:
    partitions = [{"partition_index": 0, "records": records, "aborted_transactions": None}]
    return oracle.response_frame(oracle.response(ApiKey.FETCH, 11, responses=[
        {"topic": "orders", "partitions": partitions}]), 1)  # fmt: skip


@dataclass
class Place:
    """A sidecar, its broker, and what a test may change of both."""

    server: Server
    broker: FakeBroker
    monkeypatch: pytest.MonkeyPatch

    @property
    def policy(self) -> Stub:
        return Stub.opened[-1]

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        tls = CA.client_context() if self.server.tls.clients is not None else None
        async with connected(port_of(self.server), tls) as client:
            yield client


Play = Callable[[Place], Awaitable[None]]


@dataclass(frozen=True)
class Ending:
    play: Play
    settings: dict[str, Any] = field(default_factory=dict)
    cause: str = "client_closed"


def answered(make: Callable[[], bytes]) -> Play:
    """The client sends, waits for what comes, and goes."""

    async def play(place: Place) -> None:
        async with place.client() as client:
            client.send(make())
            with suppress(EOFError, ConnectionError):
                await client.frame()

    return play


async def client_leaves_slices(place: Place) -> None:
    place.broker.answers[ApiKey.PRODUCE] = silent
    place.monkeypatch.setattr(sweep, "FINISH_S", 0.0)
    await left(lambda: produce("good"), sent)(place)


def left(make: Callable[[], bytes], arrived: Callable[[Place], object]) -> Play:
    """The client goes, once the request has come as far as that."""

    async def play(place: Place) -> None:
        async with place.client() as client:
            client.send(make())
            await until(lambda: arrived(place))
            client.abort()

    return play


async def half_a_request(place: Place) -> None:
    async with place.client() as client:
        client.send(produce("good")[: SIZE // 2])
        await until(lambda: place.server.memory.spent > SIZE // 4)
        client.abort()


async def never_ended_request(place: Place) -> None:
    place.monkeypatch.setattr(sweep, "INTERVAL_S", 0.05)
    async with place.client() as client:
        client.send(produce("good")[: SIZE // 2])
        await client.rest()


async def broker_gone(place: Place) -> None:
    place.broker.answers[ApiKey.PRODUCE] = silent
    async with place.client() as client:
        client.send(produce("good"))
        await until(lambda: any(one.key == ApiKey.PRODUCE for one in place.broker.requests))
        place.broker.drop()
        await client.rest()


RESPONSE = fetched(batch(VALUE))  # one object, that the broker may keep
OTHER_RESPONSE = SIZE.to_bytes(4, "big") + b"\0\0\0\x63" + bytes(SIZE - 4)


async def silent(broker: FakeBroker, request: Request) -> None:
    """No answer to this request."""


def sends(frame: bytes) -> Answer:
    async def answer(broker: FakeBroker, request: Request) -> bytes:
        return frame

    return answer


def response(answer: Answer) -> Play:
    """What the broker answers to a Fetch."""

    async def play(place: Place) -> None:
        place.broker.answers[ApiKey.FETCH] = answer
        await answered(fetch_request)(place)

    return play


async def response_while_client_leaves(place: Place) -> None:
    async def answer(broker: FakeBroker, request: Request) -> bytes:
        client.abort()
        return RESPONSE

    place.broker.answers[ApiKey.FETCH] = answer
    async with place.client() as client:
        client.send(fetch_request())
        await client.rest()


async def slow_reader(place: Place) -> None:
    place.broker.answers[ApiKey.FETCH] = sends(RESPONSE)
    async with place.client() as client:
        client.pause()
        client.send(fetch_request())
        await until(lambda: any(one.key == ApiKey.FETCH for one in place.broker.requests))
        await asyncio.sleep(0.1)
        client.abort()


def crashes(of: type, name: str, after_turn: bool, request: Callable[[], bytes]) -> Play:
    """A bug, at once or after a turn of the event loop."""

    def steps(self: object, frame: bytes) -> Steps[Outcome]:
        yield from (TURN,) * after_turn
        raise ZeroDivisionError(f"{len(frame)} bytes")

    async def play(place: Place) -> None:
        place.broker.answers[ApiKey.FETCH] = sends(RESPONSE)
        place.monkeypatch.setattr(of, name, steps)
        await answered(request)(place)

    return play


async def drained(place: Place) -> None:
    place.broker.answers[ApiKey.PRODUCE] = silent
    async with place.client() as client:
        client.send(produce("good"))
        await until(lambda: any(one.key == ApiKey.PRODUCE for one in place.broker.requests))
        hurry = asyncio.Event()
        hurry.set()
        await place.server.drain(hurry)


async def no_broker(place: Place) -> None:
    await place.broker.stop()
    await answered(lambda: produce("good"))(place)


async def cancelled_fetch(place: Place) -> None:
    place.monkeypatch.setattr(performer, "MAX_FETCH_S", 60.0)
    place.policy.gate.clear()
    await left(lambda: produce("ask it"), lambda place: place.policy.asked)(place)
    await until(lambda: not place.server.connections, 5.0)  # before the policy has waited for its time
    place.policy.gate.set()


async def timed_out_fetch(place: Place) -> None:
    place.policy.gate.clear()
    await answered(lambda: produce("ask it"))(place)
    place.policy.gate.set()


def sent(place: Place) -> bool:
    return any(one.key == ApiKey.PRODUCE for one in place.broker.requests)


ENDINGS = {
    "answered": Ending(answered(lambda: produce("good")), RULES),
    "relayed": Ending(answered(lambda: produce("good"))),
    "rejected by a policy": Ending(answered(lambda: produce("bad")), RULES),
    "rejected with acks=0": Ending(answered(lambda: produce("bad", acks=0)), RULES, "rejected_without_acks"),
    "a policy that fails": Ending(answered(lambda: produce("bug")), RULES),
    "what a policy needs is unavailable": Ending(answered(lambda: produce("ask unavailable")), RULES),
    "a policy that waits when the client goes": Ending(cancelled_fetch, RULES),
    "a policy that waits too long": Ending(timed_out_fetch, {**RULES, "validation": {"timeout": "50ms"}}),
    "two batches for a partition": Ending(answered(two_batches), RULES),
    "too many partitions": Ending(
        answered(many_partitions), {**RULES, "limits": {"max_partitions": 1000}}, "too_many_partitions"),
    "a name that is too long": Ending(answered(unreadable_name), RULES, "unreadable_request"),
    "a body that ends early": Ending(answered(lambda: cut_short(produce("good"))), RULES, "unreadable_request"),
    "denied": Ending(answered(lambda: produce("good")), DENIED),
    "commits that end early": Ending(answered(lambda: cut_short(commit())), DENIED, "unreadable_request"),
    "commits that end early, intercepted": Ending(
        answered(lambda: cut_short(commit())), {"interceptors": [{"type": "commit_metadata"}]}, "unreadable_request"),
    "a response that cannot be split": Ending(response(sends(cut_short(RESPONSE))), LARGE, "unreadable_response"),
    "the client goes while slices are sent": Ending(client_leaves_slices, LARGE),
    "a slice has no answer": Ending(answered(lambda: produce("good")), LARGE, "unreadable_request"),
    "the broker goes while slices are sent": Ending(broker_gone, LARGE, "broker_closed"),
    "a batch with a wrong checksum": Ending(answered(damaged), RULES),
    "half a request": Ending(half_a_request, RULES),
    "a request that never ends": Ending(
        never_ended_request, {**RULES, "connections": {"frame_timeout": "100ms"}}, "frame_timeout"),
    "the client goes while the request is worked on": Ending(left(lambda: produce("good"), sent), RULES),
    "the broker goes before it answers": Ending(broker_gone, RULES, "broker_closed"),
    "no broker": Ending(no_broker, {**RULES, "connections": {"broker_wait": "100ms"}}, "broker_unreachable"),
    "a response": Ending(response(sends(RESPONSE)), RULES),
    "a response that ends early": Ending(
        response(hang_up(RESPONSE[:-1000])), RULES, "broker_closed"),
    "a response of another length": Ending(
        response(sends(cut_short(RESPONSE))), RULES, "unreadable_response"),
    "a response with records that cannot be read": Ending(
        response(sends(fetched(batch(VALUE)[:-1] + b"!"))), RULES),
    "a response to another request": Ending(
        response(sends(OTHER_RESPONSE)), RULES, "unreadable_response"),
    "the client goes before the response": Ending(response_while_client_leaves, RULES),
    "the client does not read the response": Ending(slow_reader, RULES),
    "a bug": Ending(
        crashes(ProduceExchange, "request", False, lambda: produce("good")), RULES, "internal_error"),
    "a bug after a turn": Ending(
        crashes(ProduceExchange, "request", True, lambda: produce("good")), RULES, "internal_error"),
    "a bug with a response": Ending(
        crashes(FetchExchange, "response", True, fetch_request), RULES, "internal_error"),
    "the sidecar ends": Ending(drained, RULES, "drain"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    logging.disable()  # pytest keeps the records, and with them what was raised
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()
    logging.disable(logging.NOTSET)


WITH_TLS = (
    "answered", "a name that is too long", "half a request", "a policy that waits when the client goes", "a bug",
    "the client goes before the response", "the client does not read the response", "a response that ends early",
)  # fmt: skip


@pytest.mark.parametrize("name", ENDINGS)
async def test_nothing_of_a_connection_is_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await end(ENDINGS[name], monkeypatch)


@pytest.mark.parametrize("name", WITH_TLS)
async def test_nothing_of_a_connection_with_tls_is_kept(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await end(
        ENDINGS[name],
        monkeypatch,
        clients={"tls": {"certificate": CA.issue("sidecar").write_both(tmp_path, "sidecar")}},
    )


async def end(ending: Ending, monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """Play it, and look for what is left of it."""
    async with FakeBroker() as broker, serving(broker, **ending.settings, **more) as server:
        place = Place(server, broker, monkeypatch)
        await answered(lambda: produce_request(VERSION, {"orders": {0: batch("good")}}))(place)
        await until(lambda: not server.connections)
        broker.requests.clear()
        before = tracemalloc.get_traced_memory()[0]
        await ending.play(place)
        await until(lambda: not server.connections)
        broker.requests.clear()
        broker.answers.clear()
        monkeypatch.undo()
        assert server.metrics.disconnects[ending.cause] == (2 if ending.cause == "client_closed" else 1)
        await until(lambda: tracemalloc.get_traced_memory()[0] - before < KEPT, 2.0)
