"""Recorded conversations, relayed again: byte for byte the same but for what has to differ, which is listed here."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from golden import talks
from golden.tee import BROKER, CLIENT, Conversation, Tee, addresses
from harness.sidecar import NODE_PORTS, Sidecar
from support import oracle
from support.broker_responses import as_rewritten
from support.dialogue import HOST, Dialogue, pieces
from support.oracle import frames_of

HERE = Path(__file__).parent
RECORDINGS = ["mock", "librdkafka", "java"]
# The only responses that may differ, by api key.
API_VERSIONS, METADATA, FIND_COORDINATOR = 18, 3, 10
UNSUPPORTED_VERSION = b"\0\x23"  # error code 35
# What is removed from the ApiVersions of these brokers: api key -> offered versions, remaining versions.
Cuts = dict[int, tuple[tuple[int, int], tuple[int, int] | None]]
# The state of share groups is for brokers alone.
KAFKAS: Cuts = {
    17: ((0, 1), (1, 1)), 83: ((0, 0), None), 84: ((0, 0), None), 85: ((0, 1), None), 86: ((0, 0), None),
    87: ((0, 1), None),
}  # fmt: skip
CUT: dict[str, Cuts] = {
    "mock": {12: ((0, 5), (0, 4))},  # Kafka has no Heartbeat version 5
    "librdkafka": KAFKAS,
    "java": KAFKAS,
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, and the response to it as the broker sent it; None where it got none."""

    key: int
    version: int
    request: bytes
    response: bytes | None


def recorded(name: str) -> list[Conversation]:
    conversations: list[Conversation] = []
    for line in (HERE / f"{name}.txt").read_text().splitlines():
        if line.startswith("# connection"):
            conversations.append(Conversation())
        elif not line.startswith("#"):
            conversations[-1].frames.append((line[0], bytes.fromhex(line[2:])))
    return conversations


def exchanges(conversation: Conversation) -> list[Exchange]:
    responses = deque(conversation.said_by(BROKER))
    found = []
    for frame in conversation.said_by(CLIENT):
        answered = bool(responses) and responses[0][4:8] == frame[8:12]
        key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (4, 6))
        found.append(Exchange(key, version, frame, responses.popleft() if answered else None))
    assert not responses, "a response without a request"
    return found


def relayed(conversation: Conversation) -> Dialogue:
    dialogue = Dialogue()
    for who, frame in conversation.frames:
        (dialogue.client if who == CLIENT else dialogue.broker)(frame)
    assert dialogue.session.closing is None, dialogue.detail
    return dialogue


def answered(conversation: Conversation) -> Iterator[tuple[Exchange, bytes, bytes]]:
    """Each exchange that has a response: as the broker sent it, as the client got it."""
    said = [exchange for exchange in exchanges(conversation) if exchange.response is not None]
    for exchange, got in zip(said, frames_of(relayed(conversation).to_client), strict=True):
        assert exchange.response is not None
        yield exchange, exchange.response, got


def everything(name: str) -> Iterator[tuple[Exchange, bytes, bytes]]:
    for conversation in recorded(name):
        yield from answered(conversation)


def test_the_recordings_hold_what_they_promise() -> None:
    spoken = {name: Counter(e.key for c in recorded(name) for e in exchanges(c)) for name in RECORDINGS}
    produced = [e for c in recorded("librdkafka") for e in exchanges(c) if e.key == 0]
    assert {0, 1, 2, 3, 8, 9, 10, 11, 13, 14, 18, 22} <= spoken["mock"].keys() & spoken["librdkafka"].keys()
    assert {0, 1, 2, 3, 8, 9, 10, 11, 13, 14, 18, 19, 22, 68} <= spoken["java"].keys()
    assert {e.response is None for e in produced} == {True, False}


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_broker_gets_what_the_client_said(name: str) -> None:
    for conversation in recorded(name):
        assert relayed(conversation).to_broker == b"".join(conversation.said_by(CLIENT))


@pytest.mark.parametrize("name", RECORDINGS)
def test_only_the_responses_of_three_apis_are_changed(name: str) -> None:
    differing = {exchange.key for exchange, said, got in everything(name) if got != said}
    assert differing == {API_VERSIONS, METADATA, FIND_COORDINATOR}


@pytest.mark.parametrize("name", RECORDINGS)
def test_brokers_have_the_sidecars_addresses_and_nothing_else_changes(name: str) -> None:
    rewritten = 0
    for exchange, said, got in everything(name):
        if exchange.key in (METADATA, FIND_COORDINATOR):
            assert got == with_rewritten_brokers(exchange, said)
            rewritten += got.count(HOST.encode())
    assert rewritten > 5


def with_rewritten_brokers(exchange: Exchange, said: bytes, *to: Any) -> bytes:
    """A response with the brokers' addresses replaced. The mock's response has extra bytes at its end."""
    _, entity = oracle.read_response(exchange.key, exchange.version, said, whole=False)
    for broker in [*getattr(entity, "brokers", ()), *getattr(entity, "coordinators", ())] or [entity]:
        plain = oracle.encoded(broker)
        assert said.count(plain) == 1
        said = said.replace(plain, oracle.encoded(as_rewritten(broker, *to)))
    return oracle.framed(said[4:])


@pytest.mark.parametrize("name", RECORDINGS)
def test_api_versions_is_reduced_by_these_apis_and_nothing_else_changes(name: str) -> None:
    seen = 0
    for exchange, said, got in everything(name):
        if exchange.key == API_VERSIONS:
            assert got == reduce_versions(exchange.version, said, CUT[name])
            seen += got != said
    assert seen > 5


def reduce_versions(version: int, said: bytes, by: Cuts) -> bytes:
    """An ApiVersions response reduced by ``by``; unchanged if the broker does not support the version (KIP-511)."""
    if said[8:10] == UNSUPPORTED_VERSION:
        return said
    correlation_id, entity = oracle.read_response(API_VERSIONS, version, said)
    return oracle.response_frame(replace(entity, api_keys=tuple(cut(entity.api_keys, by))), correlation_id)


def cut(offered: Any, by: Cuts) -> Iterator[Any]:
    for api in offered:
        before, left = by.get(api.api_key, (None, None))
        if before is None:
            yield api
            continue
        assert (api.min_version, api.max_version) == before
        if left is not None:
            yield replace(api, min_version=left[0], max_version=left[1])


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("size", [1, 7, 100])
def test_chunks_of_any_size_give_the_same_bytes(name: str, size: int) -> None:
    for conversation in recorded(name):
        dialogue = Dialogue()
        for who, frame in conversation.frames:
            (dialogue.client if who == CLIENT else dialogue.broker)(*pieces(frame, list(range(0, len(frame), size))))
        whole = relayed(conversation)
        assert (dialogue.to_broker, dialogue.to_client) == (whole.to_broker, whole.to_client)


@pytest.mark.program
def test_a_running_sidecar_does_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One tee on each side of the sidecar: bytes that go in on one side come out on the other."""
    monkeypatch.syspath_prepend(str(HERE.parents[1] / "examples"))
    import mock_cluster

    _keeper, servers = mock_cluster.start()
    before, after, listen = asyncio.run(listen_to_both_sides(servers, tmp_path / "log"))
    client_side = [conversation for conversation in before.conversations if conversation.said_by(BROKER)]
    compared = Counter[int]()
    for client in client_side:
        broker = partner(client, after.conversations)
        after.conversations.remove(broker)
        compared += compare(client, broker, after, listen + 1)
    assert len(client_side) > 5
    assert {0, 1, METADATA, API_VERSIONS} <= compared.keys()


async def listen_to_both_sides(servers: str, log: Path) -> tuple[Tee, Tee, int]:
    async with Tee(addresses(servers)) as after:
        sidecar = await asyncio.to_thread(Sidecar, after.addresses, log)
        try:
            await asyncio.to_thread(sidecar.wait)
            listen = addresses(sidecar.bootstrap)[0][1]
            async with Tee([("127.0.0.1", listen + number) for number in range(1 + NODE_PORTS)]) as before:
                await asyncio.to_thread(produce_and_consume, f"127.0.0.1:{before.ports[listen]}")
        finally:
            sidecar.program.kill()
    return before, after, listen


def produce_and_consume(servers: str) -> None:
    talks.consume(servers, talks.produce(servers, talks.CAREFUL), in_a_group=False)


def partner(client: Conversation, brokers: list[Conversation]) -> Conversation:
    """The conversation on the broker's side: the longest one with the same requests."""
    asked = client.said_by(CLIENT)
    same = [other for other in brokers if (said := other.said_by(CLIENT)) and said == asked[: len(said)]]
    return max(same, key=lambda other: len(other.frames))


def compare(client: Conversation, broker: Conversation, after: Tee, first_port: int) -> Counter[int]:
    """The responses of the two; a connection may have ended before the last ones had come through."""
    seen = Counter[int]()
    for exchange, got in zip(exchanges(broker), client.said_by(BROKER), strict=False):
        assert exchange.response is not None
        said = after.passed_on(exchange.response)
        if exchange.key == API_VERSIONS:
            said = reduce_versions(exchange.version, said, CUT["mock"])
        if exchange.key in (METADATA, FIND_COORDINATOR):
            said = with_rewritten_brokers(exchange, said, "127.0.0.1", first_port)
        assert got == said
        seen[exchange.key] += 1
    return seen
