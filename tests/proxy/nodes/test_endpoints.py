"""Fetch and ShareFetch responses forwarded with rewritten brokers: same length, same records, no broker address."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest
from fuzz.mutations import mutated
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.broker_responses import DOMAIN, TOPIC_ID, as_rewritten, asked, broker, named
from support.dialogue import HOST, Dialogue, pieces, response
from support.examples import sparse

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.message import decode, encode, replace_fields
from kafka_sidecar.codec.messages import fetch, share_fetch
from kafka_sidecar.codec.wire import read_tags, write_tags
from kafka_sidecar.proxy.nodes import rewrites as endpoints_module
from kafka_sidecar.proxy.nodes.rewrites import FIRST_PAD_TAG, padding
from kafka_sidecar.proxy.relay import session as session_module

Pair = tuple[ApiKey, int]
FETCH = [(ApiKey.FETCH, version) for version in (16, 17, 18)]
PAIRS = [*FETCH, (ApiKey.SHARE_FETCH, 1), (ApiKey.SHARE_FETCH, 2)]
OURS: dict[ApiKey, Any] = {ApiKey.FETCH: fetch.FetchResponse, ApiKey.SHARE_FETCH: share_fetch.ShareFetchResponse}
BROKERS_HOST = len("broker-10.internal")
# Shorter than the brokers' own, shorter by one, equal, longer by one, longer.
HOSTS = ["s" * size for size in (1, BROKERS_HOST - 1, BROKERS_HOST, BROKERS_HOST + 1, 60)]
all_pairs = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].name}-v{pair[1]}")


@pytest.fixture(autouse=True)
def _stream_small_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MAX_COLLECTED_BYTES", 0)


def rewritten(pair: Pair, frame: bytes, cuts: list[int], host: str = HOST) -> bytes:
    """The bytes that the client gets; the response never arrives in one chunk."""
    dialogue = Dialogue(host=host).client(asked(*pair)).broker(*pieces(frame, [len(frame) - 1, *cuts]))
    assert dialogue.session.closing is None, dialogue.detail
    return dialogue.to_client


def contents(pair: Pair, sizes: list[list[int]], nodes: int) -> Any:
    """kio's response: per topic the sizes of its partitions' records, and so many brokers at its end."""
    random = Random(str((pair, sizes, nodes)))
    topics = [
        {"topic_id": TOPIC_ID, "partitions": [partition(random, index, size) for index, size in enumerate(topic)]}
        for topic in sizes
    ]
    return named(*pair, responses=topics, node_endpoints=[broker(10 + n, rack="r" * (n % 3)) for n in range(nodes)])


def partition(random: Random, index: int, size: int) -> dict[str, Any]:
    acquired = [{"first_offset": n, "last_offset": n, "delivery_count": 1} for n in range(random.choice((0, 2)))]
    aborted = [
        {"producer_id": n, "first_offset": 2 * n} for n in range(random.choice((0, 0, 3, 300 if size > 100 else 2)))
    ]
    moved = {"error_code": 6, "current_leader": {"leader_id": 10, "leader_epoch": 9}} if not size else {}
    return {
        "partition_index": index,
        "high_watermark": 2**40,
        "records": random.randbytes(size),
        **moved,
        "aborted_transactions": random.choice((aborted, None)),
        "diverging_epoch": {"epoch": random.randint(-1, 9)},
        "acquired_records": acquired,
    }


def without_padding(pair: Pair, sent: Any, got: bytes) -> bytes:
    """The frame without the tagged fields that fill the gap, as a broker would have written it."""
    bare = oracle.response_frame(replace(sent, node_endpoints=()), 1)
    tail_at = len(bare) - (1 if pair[0] == ApiKey.FETCH else 2)
    tags_at = tail_at if pair[0] == ApiKey.FETCH else tail_at + endpoints_length(pair, got[tail_at:])
    tags, end = read_tags(got, tags_at)
    assert end == len(got)
    return oracle.framed(got[4:tags_at] + write_tags([(tag, payload) for tag, payload in tags if tag < FIRST_PAD_TAG]))


def endpoints_length(pair: Pair, tail: bytes) -> int:
    empty = oracle.encoded(named(*pair, responses=[], node_endpoints=[]))
    value, end = decode(OURS[pair[0]], empty[:-2] + tail, pair[1])
    return end - len(empty) + 2 - len(write_tags(value.unknown_tags))


def check(pair: Pair, sent: Any, cuts: list[int], host: str = HOST) -> Any:
    """Length, addresses and all else; returns what the client reads."""
    frame = oracle.response_frame(sent, 1)
    got = rewritten(pair, frame, cuts, host)
    assert len(got) == len(frame)
    assert got[:4] == frame[:4]
    assert DOMAIN not in got
    _, read = oracle.read_response(*pair, without_padding(pair, sent, got))
    assert read in (as_rewritten(sent, host), replace(sent, node_endpoints=()))
    return read


@all_pairs
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("nodes", [0, 1, 3])
def test_the_client_reads_the_same_wherever_the_chunks_end(pair: Pair, host: str, nodes: int) -> None:
    sent = contents(pair, [[40, 0], [], [7]], nodes)
    frame = oracle.response_frame(sent, 1)
    check(pair, sent, [], host)
    whole = rewritten(pair, frame, [], host)
    for cuts in (range(len(frame)), *([cut] for cut in range(1 + HOSTS.index(host), len(frame), len(HOSTS)))):
        assert rewritten(pair, frame, list(cuts), host) == whole


@all_pairs
@pytest.mark.parametrize(("host", "kept"), list(zip(HOSTS, [1, 0, 1, 0, 0], strict=True)))
def test_addresses_are_rewritten_if_they_fit_and_removed_if_not(pair: Pair, host: str, kept: int) -> None:
    """One byte less cannot be filled: the smallest tagged field takes two."""
    assert len(read_nodes := check(pair, contents(pair, [[40]], 1), [9], host).node_endpoints) == kept
    assert all(node.host == host for node in read_nodes)


@all_pairs
def test_padding_for_any_number_of_brokers(pair: Pair) -> None:
    for nodes in (2, 20, 300):
        for host in HOSTS:
            check(pair, contents(pair, [[40]], nodes), [50], host)


cuts = st.lists(st.integers(0, 5_000_000), max_size=40)
records = st.lists(st.lists(st.sampled_from([0, 0, 1, 100, 127, 128, 20_000, 900_000]), max_size=4), max_size=3)


@given(st.sampled_from(PAIRS), records, st.integers(0, 4), cuts, st.sampled_from(HOSTS))
def test_responses_of_all_sizes_are_rewritten_in_any_chunks(
    pair: Pair, sizes: list[list[int]], nodes: int, where: list[int], host: str
) -> None:
    check(pair, contents(pair, sizes, nodes), where, host)


@pytest.mark.parametrize("pair", FETCH)
def test_another_client_library_reads_it_too(pair: Pair) -> None:
    sent = contents(pair, [[40, 3], [9]], 3)
    records = [[partition.records for partition in topic.partitions] for topic in sent.responses]
    for host in HOSTS:
        read = kafka_python_reads(pair[1], rewritten(pair, oracle.response_frame(sent, 1), [100], host)[9:])
        nodes = [(node.node_id, node.host) for node in read.node_endpoints or ()]
        assert [[bytes(partition.records) for partition in topic.partitions] for topic in read.responses] == records
        assert nodes in ([], [(10, host), (11, host), (12, host)])


def kafka_python_reads(version: int, body: bytes) -> Any:
    with warnings.catch_warnings(action="ignore"):
        from kafka.protocol.consumer import FetchResponse

        return FetchResponse[version].decode(body)


@all_pairs
@pytest.mark.parametrize("tag", [40, FIRST_PAD_TAG, 127, 128, 16_384, 2**21, 2**31 - 1])
def test_unknown_tagged_fields_are_kept_wherever_they_are(pair: Pair, tag: int) -> None:
    unknown = ((tag, b"unknown"),)
    entity, _ = decode(OURS[pair[0]], oracle.encoded(contents(pair, [[40], [3]], 2)), pair[1])
    topics = tuple(
        replace_fields(
            topic,
            unknown_tags=unknown,
            partitions=tuple(replace_fields(p, unknown_tags=unknown) for p in topic.partitions),
        )
        for topic in entity.responses
    )
    entity = replace_fields(entity, responses=topics, unknown_tags=unknown)
    body = encode(entity, pair[1])
    for host in HOSTS:
        got = rewritten(pair, response(1, write_tags(unknown) + body), [60, 90], host)
        assert got[8 : 8 + len(write_tags(unknown))] == write_tags(unknown)
        assert len(got) == 8 + len(write_tags(unknown)) + len(body)
        read, end = decode(OURS[pair[0]], got, pair[1], 8 + len(write_tags(unknown)))
        assert end == len(got)
        assert DOMAIN not in got
        assert read.responses == entity.responses
        assert unknown[0] in read.unknown_tags


@all_pairs
def test_records_are_forwarded_as_they_arrive(pair: Pair) -> None:
    frame = oracle.response_frame(contents(pair, [[100_000, 100_000]], 2), 1)
    dialogue, sent = Dialogue().client(asked(*pair)), 0
    for piece in pieces(frame, list(range(0, len(frame), 1000))):
        dialogue.broker(piece)
        sent += len(piece)
        if sent < 200_000:
            assert len(dialogue.to_client) == sent


@all_pairs
def test_forwarded_chunks_are_not_copied(pair: Pair) -> None:
    frame = oracle.response_frame(contents(pair, [[500_000]], 1), 1)
    session = Dialogue().client(asked(*pair)).session
    chunks = pieces(frame, list(range(0, len(frame), 100_000)))
    assert [session.from_broker(chunk) is chunk for chunk in chunks] == [True] * (len(chunks) - 1) + [False]


@all_pairs
def test_the_next_response_in_the_same_chunk_is_separate(pair: Pair) -> None:
    sent = oracle.response_frame(contents(pair, [[50]], 1), 1)
    after = oracle.response_frame(oracle.response(ApiKey.HEARTBEAT, 4), 2)
    dialogue = Dialogue().client(asked(*pair), oracle.request_frame(oracle.request(ApiKey.HEARTBEAT, 4), 2))
    dialogue.broker(sent[:70], sent[70:] + after)
    assert dialogue.to_client == rewritten(pair, sent, [70]) + after


@all_pairs
def test_a_truncated_response_ends_the_session_and_leaks_no_address(pair: Pair) -> None:
    frame = oracle.response_frame(contents(pair, [[50], [9]], 2), 1)
    for length in range(16, len(frame) - 1, 3):
        short = oracle.framed(frame[4:length])
        for after in (b"", frame):
            dialogue = Dialogue().client(asked(*pair), asked(*pair)).broker(short[:12], short[12:] + after)
            assert dialogue.cause == "unreadable_response"
            assert DOMAIN not in dialogue.to_client


@given(st.sampled_from(PAIRS), st.randoms(use_true_random=False), cuts)
def test_spoilt_responses_end_the_session_or_are_relayed(pair: Pair, random: Random, where: list[int]) -> None:
    good = oracle.response_frame(contents(pair, [[50, 9], [300]], 2), 1)
    body = mutated(random, good[8:], good[::-1])
    frame = oracle.framed(good[4:8] + body)
    dialogue = Dialogue().client(asked(*pair)).broker(*pieces(frame, [len(frame) - 1, *where]))
    assert dialogue.cause in (None, "unreadable_response")
    assert len(dialogue.to_client) == len(frame) or dialogue.cause is not None


@all_pairs
def test_the_end_of_a_response_is_buffered_up_to_a_limit(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = oracle.response_frame(contents(pair, [[50]], 300), 1)
    for limit, cause in ((len(frame), None), (1000, "unreadable_response")):
        monkeypatch.setattr(endpoints_module, "MAX_TAIL_BYTES", limit)
        dialogue = Dialogue().client(asked(*pair)).broker(*pieces(frame, list(range(0, len(frame), 100))))
        assert dialogue.cause == cause
        assert DOMAIN not in dialogue.to_client


@given(st.one_of(st.integers(2, 70_000), st.sampled_from([129, 130, 131, 16386, 16387, 16388, 2_097_155, 2_097_156])))
def test_padding_takes_exactly_its_room(room: int) -> None:
    for used in (set(), {100}, {100, 101, 102}):
        fields = padding(room, used)
        assert len(write_tags(fields)) == 1 + room
        assert used.isdisjoint(tag for tag, _ in fields)


@cache
def with_long_lists_of_aborted_transactions() -> Any:
    aborted = [{"producer_id": n, "first_offset": n} for n in sparse(range(62_000), of=10)]  # 1 MiB
    partitions = [{**partition(Random(1), index, 100), "aborted_transactions": aborted} for index in range(2)]
    return named(
        ApiKey.FETCH, 17, responses=[{"topic_id": TOPIC_ID, "partitions": partitions}], node_endpoints=[broker(10)]
    )


@pytest.mark.bulk
def test_what_is_between_two_runs_of_records_can_have_megabytes() -> None:
    check((ApiKey.FETCH, 17), with_long_lists_of_aborted_transactions(), list(range(0, 2_200_000, 128_000)))


def test_it_is_buffered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints_module, "MAX_STRUCT_BYTES", 1 << 16)
    frame = oracle.response_frame(with_long_lists_of_aborted_transactions(), 1)
    chunks = pieces(frame, list(range(0, len(frame), 32_000)))
    dialogue = Dialogue().client(asked(ApiKey.FETCH, 17)).broker(*chunks)
    assert dialogue.cause == "unreadable_response"
    assert "without the end of a struct" in dialogue.detail
    assert DOMAIN not in dialogue.to_client
