"""No broker's address reaches a client, and nothing else in the response changes. Reference: kio's bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from support import oracle
from support.broker_responses import DOMAIN, NAMING, PAIRS, TOPIC_ID, as_rewritten, asked, broker, named
from support.dialogue import HOST, Dialogue, pieces, response
from support.examples import some
from support.lines import MAX_LINES, Lines

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.wire import write_tags
from kafka_sidecar.plugins.effects import Work
from kafka_sidecar.proxy.nodes.addresses import NoPortError
from kafka_sidecar.proxy.nodes.rewrites import STREAMED_RESPONSES, Rewrites

Pair = tuple[ApiKey, int]
UNKNOWN = write_tags([(60, b"unknown"), (300, b"tagged fields")])


def name(pair: Pair) -> str:
    return f"{pair[0].name}-v{pair[1]}"


all_pairs = pytest.mark.parametrize("pair", PAIRS, ids=name)
naming_pairs = pytest.mark.parametrize("pair", NAMING, ids=name)
flexible_pairs = pytest.mark.parametrize(
    "pair", [(k, v) for k, v in NAMING if type(named(k, v)).__flexible__], ids=name
)


def relayed(pair: Pair, frame: bytes, cuts: list[int] | None = None, host: str = HOST) -> Dialogue:
    return Dialogue(host=host).client(asked(*pair)).broker(*pieces(frame, cuts or []))


@all_pairs
@pytest.mark.parametrize("host", ["s", "broker-7.internaL", "a-much-longer-host-than-any-broker.local"])
def test_the_client_gets_the_sidecars_addresses_and_all_other_bytes_unchanged(pair: Pair, host: str) -> None:
    sent = named(*pair)
    dialogue = relayed(pair, oracle.response_frame(sent, 1), host=host)
    assert dialogue.session.closing is None
    assert dialogue.to_client == oracle.response_frame(as_rewritten(sent, host), 1)
    assert DOMAIN not in dialogue.to_client


@naming_pairs
def test_the_sidecar_learns_every_broker_before_the_client_does(pair: Pair) -> None:
    dialogue = relayed(pair, oracle.response_frame(named(*pair), 1))
    single = pair[0] == ApiKey.FIND_COORDINATOR and pair[1] < 4
    expected = {8} if single else {7, 8} if pair[0] == ApiKey.FIND_COORDINATOR else {7, 8, 12}
    assert dialogue.nodes == {node: (f"broker-{node}.internal", 9000 + node) for node in expected}


@naming_pairs
def test_a_response_in_many_chunks_is_the_same(pair: Pair) -> None:
    frame = oracle.response_frame(named(*pair), 1)
    whole = relayed(pair, frame).to_client
    assert relayed(pair, frame, list(range(len(frame)))).to_client == whole
    assert relayed(pair, frame, [9, 30, len(frame) - 2]).to_client == whole


@pytest.mark.bulk
@pytest.mark.parametrize("pair", some(NAMING, of=3), ids=name)
def test_very_many_brokers_are_replaced_while_others_have_their_turns(pair: Pair) -> None:
    """A client may ask for 10,000 coordinators."""
    key, version = pair
    if key in STREAMED_RESPONSES or (key == ApiKey.FIND_COORDINATOR and version < 4):
        return
    nodes = [broker(7 + at % 3) for at in range(5_000)]
    coordinators = [{"key": f"k{at}", **node} for at, node in enumerate(nodes)]
    sent = named(key, version, brokers=nodes, node_endpoints=nodes, nodes=nodes, coordinators=coordinators)
    frame = oracle.response_frame(sent, 1)
    dialogue, lines = Dialogue().client(asked(*pair)), Lines()
    with lines:
        dialogue.broker(frame)
    while dialogue.needs:
        (need,) = dialogue.needs
        assert isinstance(need, Work)
        result = need.run()
        with lines:
            dialogue.meet(result)
    assert dialogue.to_client == oracle.response_frame(as_rewritten(sent, HOST), 1)
    assert lines.most < MAX_LINES


@naming_pairs
def test_following_frames_in_the_same_chunk_are_unchanged(pair: Pair) -> None:
    frame = oracle.response_frame(named(*pair), 1)
    dialogue = Dialogue().client(asked(*pair), asked(*pair, 2), asked(ApiKey.PRODUCE, 5, 3))
    dialogue.broker(frame + frame[:4] + b"\0\0\0\2" + frame[8:] + response(3, b"tail"))
    got = relayed(pair, frame).to_client
    assert dialogue.to_client == got + got[:4] + b"\0\0\0\2" + got[8:] + response(3, b"tail")


@naming_pairs
def test_a_broker_without_an_address_is_unchanged(pair: Pair) -> None:
    unknown_nodes = [broker(-1, host="", port=-1), broker(5, host="", port=0), broker(-1, host="none", port=-1)]
    for nodes in (unknown_nodes, []):
        values: dict[str, Any] = {"brokers": nodes, "node_endpoints": nodes, **unknown_nodes[0]}
        values["coordinators"] = [{"key": "k", **node} for node in nodes]
        frame = oracle.response_frame(named(pair[0], pair[1], **values), 1)
        dialogue = relayed(pair, frame)
        assert dialogue.to_client == frame
        assert dialogue.nodes == {}


@flexible_pairs
def test_unknown_tagged_fields_of_the_response_and_its_header_are_kept(pair: Pair) -> None:
    sent = named(*pair)
    for where in (tagged_at_the_end, tagged_in_the_header):
        assert relayed(pair, where(sent)).to_client == where(as_rewritten(sent))


def tagged_at_the_end(entity: Any) -> bytes:
    """The frame with two more tags in the section at its end, which may hold NodeEndpoints already."""
    frame, plain = oracle.response_frame(entity, 1), oracle.response_frame(without_endpoints(entity), 1)
    assert plain.endswith(b"\0")
    if type(entity).__api_key__ not in (ApiKey.PRODUCE, ApiKey.FETCH):
        return oracle.framed(frame[4:-1] + UNKNOWN)
    assert frame[len(plain) - 1] == 1
    return oracle.framed(plain[4:-1] + b"\x03" + frame[len(plain) :] + UNKNOWN[1:])


def without_endpoints(entity: Any) -> Any:
    return replace(entity, node_endpoints=()) if type(entity).__api_key__ in (ApiKey.PRODUCE, ApiKey.FETCH) else entity


def tagged_in_the_header(entity: Any) -> bytes:
    frame = oracle.response_frame(entity, 1)
    return oracle.framed(frame[4:8] + UNKNOWN + frame[9:])


@flexible_pairs
def test_unknown_tagged_fields_of_a_broker_are_kept(pair: Pair) -> None:
    sent = named(*pair)
    assert relayed(pair, with_tagged_brokers(sent)).to_client == with_tagged_brokers(as_rewritten(sent))


def with_tagged_brokers(entity: Any) -> bytes:
    frame = oracle.response_frame(entity, 1)
    lists = ("brokers", "coordinators", "node_endpoints")
    nodes = [oracle.encoded(node) for field in lists for node in getattr(entity, field, ())]
    if type(entity).__api_key__ in (ApiKey.PRODUCE, ApiKey.FETCH):
        payload = bytes([len(nodes) + 1]) + b"".join(node[:-1] + UNKNOWN for node in nodes)
        return oracle.framed(oracle.response_frame(without_endpoints(entity), 1)[4:-1] + write_tags([(0, payload)]))
    for node in nodes:
        assert frame.count(node) == 1
        frame = frame.replace(node, node[:-1] + UNKNOWN)
    return oracle.framed(frame[4:])


@naming_pairs
def test_a_truncated_response_leaks_no_address(pair: Pair) -> None:
    frame = oracle.response_frame(named(*pair), 1)
    for length in range(8, len(frame), 1 if len(frame) < 500 else 7):
        assert DOMAIN not in relayed(pair, oracle.framed(frame[4:length])).to_client


def test_the_names_of_topics_are_learned_from_metadata() -> None:
    for version in range(14):
        topics = relayed((ApiKey.METADATA, version), oracle.response_frame(named(ApiKey.METADATA, version), 1)).topics
        assert topics.name_of(TOPIC_ID) == ("orders" if version >= 10 else None)


def test_a_broker_without_a_port_ends_the_session_and_is_not_named() -> None:
    class Full(Dialogue):
        def local(self, node_id: int, host: str, port: int) -> tuple[str, int]:
            raise NoPortError("no port for node 7")

    pair = (ApiKey.METADATA, 12)
    dialogue = Full().client(asked(*pair)).broker(oracle.response_frame(named(*pair), 1))
    assert (dialogue.cause, dialogue.detail, dialogue.to_client) == ("no_port", "no port for node 7", b"")


def test_an_error_response_is_forwarded_unchanged() -> None:
    pair = (ApiKey.METADATA, 13)
    frame = oracle.response_frame(oracle.response(3, 13, error_code=ErrorCode.rebootstrap_required), 1)
    assert relayed(pair, frame).to_client == frame


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.FETCH])
def test_a_response_without_addresses_need_not_be_edited(key: int) -> None:
    version = APIS[key].max_version
    rewrite = Rewrites(no_address, lambda *_: None).response(key, version)
    assert rewrite is not None
    assert rewrite.wanted is not None
    frame = oracle.response_frame(oracle.response(key, version), 1)
    assert not rewrite.wanted(frame, 0, len(frame))


def no_address(node_id: int, host: str, port: int) -> tuple[str, int]:
    raise AssertionError("no address is needed")
