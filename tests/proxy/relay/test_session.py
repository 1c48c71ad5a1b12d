"""The session as a dialogue: what a client and a broker say to it, and what each of them gets to hear."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.dialogue import Dialogue, pieces, produce, produced, request, response
from support.oracle import frames_of

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.proxy.relay.routes import versions

HEARTBEAT, OFFSETS = ApiKey.HEARTBEAT, ApiKey.LIST_OFFSETS
TOO_NEW = request(ApiKey.API_VERSIONS, 6, 4, b"tags, names and a cluster id")
RELAYED = [pair for key in APIS if versions(key) for pair in [(key, versions(key))]]


def correlation_ids(data: bytes) -> list[int]:
    """Of a stream of responses."""
    return [int.from_bytes(frame[4:8], "big") for frame in frames_of(data)]


def test_a_request_and_its_response_pass_as_they_are() -> None:
    asked, answered = request(HEARTBEAT, 3, 7, b"body"), response(7, b"the answer")
    dialogue = Dialogue().client(asked).broker(answered)
    assert (dialogue.to_broker, dialogue.to_client) == (asked, answered)
    assert (dialogue.session.requests, dialogue.session.responses, dialogue.session.in_flight) == (1, 1, 0)


def test_pipelined_requests_are_answered_in_their_order() -> None:
    asked = [request(HEARTBEAT, 3, n, bytes(n)) for n in range(50)]
    answered = [response(n, bytes(3 * n)) for n in range(50)]
    dialogue = Dialogue().client(b"".join(asked)).broker(*answered)
    assert dialogue.to_broker == b"".join(asked)
    assert correlation_ids(dialogue.to_client) == list(range(50))
    assert dialogue.session.in_flight == 0


def test_equal_correlation_ids_are_no_trouble() -> None:
    dialogue = Dialogue().client(request(HEARTBEAT, 3, 0), request(OFFSETS, 5, 0)).broker(response(0), response(0))
    assert dialogue.session.closing is None
    assert dialogue.session.in_flight == 0


@pytest.mark.parametrize("correlation_id", [0, -1, 2**31 - 1, -(2**31)])
def test_any_correlation_id_is_possible(correlation_id: int) -> None:
    dialogue = Dialogue().client(request(HEARTBEAT, 3, correlation_id)).broker(response(correlation_id))
    assert dialogue.session.closing is None


@pytest.mark.parametrize(("key", "served"), RELAYED, ids=lambda value: str(value))
def test_every_version_of_every_api_is_let_through_to_the_broker(key: int, served: tuple[int, int]) -> None:
    asked = b"".join(request(key, version, 1, bytes(40)) for version in range(served[0], served[1] + 1))
    dialogue = Dialogue().client(asked)
    assert dialogue.session.closing is None
    assert dialogue.to_broker == asked


@pytest.mark.parametrize("version", range(14))
def test_produce_without_acks_leaves_no_gap_in_the_order_of_answers(version: int) -> None:
    order = [(1, 1), (2, 0), (3, 0), (4, -1), (5, 0), (6, 1)]
    asked = [produce(version, correlation_id, acks) for correlation_id, acks in order]
    dialogue = Dialogue().client(b"".join(asked))
    assert dialogue.session.in_flight == 3
    dialogue.broker(*(produced(version, correlation_id) for correlation_id, acks in order if acks))
    assert dialogue.to_broker == b"".join(asked)
    assert correlation_ids(dialogue.to_client) == [1, 4, 6]
    assert dialogue.session.closing is None


def test_only_produce_can_go_without_an_answer() -> None:
    dialogue = Dialogue().client(request(HEARTBEAT, 3, 1, bytes(40)), produce(9, 2, 0), request(HEARTBEAT, 3, 3))
    assert dialogue.session.in_flight == 2


def test_a_sasl_exchange_passes_byte_for_byte() -> None:
    asked = [
        oracle.request_frame(oracle.request(ApiKey.SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-256"), 1),
        *(oracle.request_frame(oracle.request(36, v, auth_bytes=b"\x00GET / \x16\x03"), 2 + v) for v in range(3)),
        request(HEARTBEAT, 3, 5),
    ]
    answered = [
        oracle.response_frame(oracle.response(ApiKey.SASL_HANDSHAKE, 1, mechanisms=["PLAIN", "SCRAM-SHA-256"]), 1),
        *(oracle.response_frame(oracle.response(36, v, auth_bytes=b"HTTP/"), 2 + v) for v in range(3)),
        response(5),
    ]
    dialogue = Dialogue()
    for one, other in zip(asked, answered, strict=True):
        dialogue.client(one).broker(other)
    assert dialogue.to_broker == b"".join(asked)
    assert dialogue.to_client == b"".join(answered)


def test_a_frame_that_is_not_edited_passes_before_it_is_whole() -> None:
    asked, answered = request(HEARTBEAT, 3, 1, bytes(1000)), response(1, bytes(1000))
    dialogue = Dialogue().client(asked[:500])
    assert dialogue.to_broker == asked[:500]
    dialogue.client(asked[500:]).broker(answered[:100])
    assert dialogue.to_client == answered[:100]


def test_chunks_that_are_not_edited_are_the_same_objects_on_both_sides() -> None:
    dialogue = Dialogue()
    asked, answered = request(HEARTBEAT, 3, 1, bytes(9000)), response(1, bytes(9000))
    assert dialogue.session.from_client(asked) is asked
    assert dialogue.session.from_broker(answered) is answered


@pytest.mark.parametrize("host", ["h", "sidecar.example", "broker-1.internal"])
def test_a_rewritten_response_is_counted_with_what_it_grows_by_and_how_long_it_is_buffered(host: str) -> None:
    asked = oracle.request_frame(oracle.request(ApiKey.METADATA, 12), 1)
    brokers = [{"node_id": 1, "host": "broker-1.internal", "port": 9092}]
    answered = oracle.response_frame(oracle.response(ApiKey.METADATA, 12, brokers=brokers), 1)
    dialogue = Dialogue(host=host).client(asked).broker(answered[:20])
    counts = dialogue.metrics.apis[ApiKey.METADATA]
    assert (counts.buffered, dialogue.to_client) == (0, b"")
    dialogue.now += 0.5
    dialogue.broker(answered[20:])
    assert (counts.buffered, counts.buffered_us) == (1, 500_000)
    assert counts.buffered_durations[(500_000).bit_length()] == sum(counts.buffered_durations) == 1
    assert counts.rewritten_bytes == len(dialogue.to_client) - len(answered) == len(host) - len("broker-1.internal")


def test_a_response_may_begin_before_the_request_has_ended() -> None:
    asked = request(ApiKey.PRODUCE, 7, 1, b"\xff\xff\x00\x01" + bytes(500))
    dialogue = Dialogue().client(asked[:200]).broker(produced(7, 1))
    assert dialogue.to_client == produced(7, 1)
    assert dialogue.client(asked[200:]).to_broker == asked


CLIENT = [
    TOO_NEW, oracle.request_frame(oracle.request(ApiKey.API_VERSIONS, 4, client_software_name="kio"), 5),
    produce(9, 6, 0), produce(2, 7, 1), request(HEARTBEAT, 3, 8, b"x" * 90), produce(13, 9, 0), TOO_NEW, TOO_NEW,
    oracle.request_frame(oracle.request(ApiKey.METADATA, 12), 10), request(OFFSETS, 5, 11), produce(1, 12, 0), TOO_NEW,
]  # fmt: skip
BROKER = {
    5: oracle.response_frame(oracle.response(18, 4, api_keys=[{"api_key": 0, "max_version": 13}, {"api_key": 99}]), 5),
    7: produced(2, 7),
    8: response(8, b"y" * 70),
    10: oracle.response_frame(
        oracle.response(3, 12, brokers=[{"node_id": 1, "host": "broker-1.internal", "port": 9092}]), 10
    ),
    11: response(11),
}


def in_one_piece() -> Dialogue:
    return Dialogue().client(b"".join(CLIENT)).broker(b"".join(BROKER.values()))


def test_the_dialogue_that_is_cut_below_is_a_good_one() -> None:
    dialogue = in_one_piece()
    assert correlation_ids(dialogue.to_client) == [4, 5, 7, 8, 4, 4, 10, 11, 4]
    assert dialogue.to_broker == b"".join(frame for frame in CLIENT if frame is not TOO_NEW)
    assert dialogue.session.closing is None


@given(st.lists(st.integers(0, 2000), max_size=30), st.lists(st.integers(0, 2000), max_size=30))
def test_cuts_between_chunks_change_nothing(client_cuts: list[int], broker_cuts: list[int]) -> None:
    dialogue = Dialogue().client(*pieces(b"".join(CLIENT), client_cuts))
    dialogue.broker(*pieces(b"".join(BROKER.values()), broker_cuts))
    whole = in_one_piece()
    assert (dialogue.to_broker, dialogue.to_client) == (whole.to_broker, whole.to_client)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 60)), max_size=200))
def test_the_two_directions_can_interleave_in_any_way(turns: list[tuple[bool, int]]) -> None:
    """The broker answers what it has read wholly, as soon as it likes, in pieces of any size."""
    dialogue, client, said = Dialogue(), b"".join(CLIENT), 0
    for clients_turn, size in [*turns, (True, 10_000), (False, 10_000)]:
        if clients_turn:
            client, chunk = client[size:], client[:size]
            dialogue.client(*([chunk] if chunk else []))
        else:
            answers = b"".join(answer for number, answer in BROKER.items() if asked(number) in dialogue.to_broker)
            dialogue.broker(*([answers[said : said + size]] if answers[said:] else []))
            said = min(said + size, len(answers))
    assert dialogue.session.closing is None
    assert dialogue.to_client == in_one_piece().to_client


def asked(correlation_id: int) -> bytes:
    return next(frame for frame in CLIENT if frame[8:12] == correlation_id.to_bytes(4, "big"))


def test_who_the_client_says_it_is_is_remembered() -> None:
    entity = oracle.request(ApiKey.API_VERSIONS, 3, client_software_name="librdkafka", client_software_version="2.1")
    session = Dialogue().client(oracle.request_frame(entity, 1, client_id="billing")).session
    assert (session.client_id, session.client_software) == ("billing", "librdkafka 2.1")


@pytest.mark.parametrize("first", [request(HEARTBEAT, 3, 1, client_id=None), request(HEARTBEAT, 3, 1)[:14]])
def test_a_client_may_say_nothing_about_itself(first: bytes) -> None:
    session = Dialogue().client(first).session
    assert (session.client_id, session.client_software, session.closing) == (None, None, None)
