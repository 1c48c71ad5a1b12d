"""The way of a commit: what the group's coordinator gets, what the client is told, what interceptors hear. kio judges.

kio does not know TxnOffsetCommit v6, which names topics by their ids as OffsetCommit v10 does.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.serial import entity_reader
from support import oracle
from support.interception import Commits, Given, Intercepting
from support.produce_requests import topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import decode, encode, replace_fields
from kafka_sidecar.codec.messages.offset_commit import OffsetCommitRequest
from kafka_sidecar.codec.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_sidecar.interceptors.contract import OffsetAndMetadata, Offsets, TopicPartition
from kafka_sidecar.proxy.interception.commits import SHAPES, InterceptedCommit
from kafka_sidecar.proxy.relay.exchange import Answer, Hold, Step

PLAIN, IN_TRANSACTION = ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT
FIRST_WITH_IDS = {PLAIN: 10, IN_TRANSACTION: 6}
EPOCHS_FROM = {PLAIN: 6, IN_TRANSACTION: 2}
JOINS_FROM = 5  # of TxnOffsetCommit
EACH = [(PLAIN, version) for version in range(2, 11)] + [(IN_TRANSACTION, version) for version in range(6)]
FEWER = settings(max_examples=settings().max_examples // 3)
each_version = pytest.mark.parametrize(("key", "version"), EACH)

One = tuple[int, str | None]  # offset, metadata
Asked = Mapping[str, Mapping[int, One]]  # topic -> partition
Codes = Mapping[str, Mapping[int, int]]
TWO: Asked = {"orders": {0: (10, "mine"), 1: (20, None)}, "free": {3: (30, "")}}
OK: Codes = {"orders": {0: 0, 1: 0}, "free": {3: 0}}


def exchange(around: Intercepting, key: int, version: int) -> InterceptedCommit:
    return InterceptedCommit(SHAPES[ApiKey(key)], around.catalog.committers, around.around, around.client, version)


def committing(key: int, version: int, topics: Asked, epoch: int = 4) -> bytes:
    data = [
        {
            "name": name, "topic_id": topic_id(name),
            "partitions": [
                {
                    "partition_index": at, "committed_offset": offset, "committed_leader_epoch": epoch,
                    "committed_metadata": metadata,
                }
                for at, (offset, metadata) in partitions.items()
            ],
        }
        for name, partitions in topics.items()
    ]  # fmt: skip
    request = oracle.request(
        key, version, group_id="g", member_id="m", group_instance_id="i", generation_id=3, transactional_id="tx",
        generation_id_or_member_epoch=3, producer_id=9, producer_epoch=1, topics=data,
    )  # fmt: skip
    return oracle.request_frame(request, 7)


def sent(key: int, version: int, frame: Step) -> dict[str, dict[int, One]]:
    """What a request commits."""
    assert isinstance(frame, bytes)
    kind = load_request_schema(key, version)
    _, size = entity_reader(kind.__header_schema__)(frame[4:], 0)
    reader: Any = entity_reader(kind)
    request, end = reader(frame[4 + size :], 0)
    assert 4 + size + end == len(frame)
    found: dict[str, dict[int, One]] = {}
    for topic in request.topics:
        into = found.setdefault(name_of(key, version, topic), {})
        into |= {one.partition_index: (one.committed_offset, one.committed_metadata) for one in topic.partitions}
    return found


def name_of(key: int, version: int, topic: Any) -> str:
    if version < FIRST_WITH_IDS[ApiKey(key)]:
        return str(topic.name)
    assert isinstance(topic.topic_id, uuid.UUID)
    return topic.topic_id.bytes.lstrip(b"\1").decode()


def committed(key: int, version: int, codes: Codes) -> bytes:
    """A coordinator's answer."""
    data = [
        {
            "name": name, "topic_id": topic_id(name),
            "partitions": [{"partition_index": at, "error_code": code} for at, code in partitions.items()],
        }
        for name, partitions in codes.items()
    ]  # fmt: skip
    return oracle.response_frame(oracle.response(key, version, topics=data), 7)


def told(key: int, version: int, frame: Step) -> list[tuple[str, int, int]]:
    """What a client is told: topic, partition, error code."""
    assert isinstance(frame, bytes)
    correlation_id, response = oracle.read_response(key, version, frame)
    assert correlation_id == 7
    return [
        (name_of(key, version, topic), one.partition_index, int(one.error_code))
        for topic in response.topics
        for one in topic.partitions
    ]


def place(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(topic, partition)


def commits(change: Callable[[Offsets], Given] | None = None, **around: Any) -> tuple[Intercepting, Commits]:
    made = Intercepting("Commits", topics=("*",), **around)
    (one,) = made.interceptors
    if change is not None:
        one.change = change
    return made, one


def without(*places: tuple[str, int]) -> Callable[[Offsets], Given]:
    return lambda offsets: {at: one for at, one in offsets.items() if at not in places}


def more(topic: str, partition: int, offset: int) -> Callable[[Offsets], Given]:
    return lambda offsets: {**offsets, place(topic, partition): OffsetAndMetadata(offset, "generated", 2)}


@each_version
def test_a_commit_that_nobody_changes_is_the_very_same_bytes_and_told_of_when_it_has_succeeded(
    key: int, version: int
) -> None:
    around, one = commits()
    hand, frame = exchange(around, key, version), committing(key, version, TWO)
    assert hand.request(frame) is frame
    assert hand.wants_response
    assert one.committed == []
    answer = committed(key, version, OK)
    assert hand.response(answer) is answer
    epoch = 4 if version >= EPOCHS_FROM[ApiKey(key)] else -1
    want = {
        place("orders", 0): OffsetAndMetadata(10, "mine", epoch), place("orders", 1): OffsetAndMetadata(20, "", epoch),
        place("free", 3): OffsetAndMetadata(30, "", epoch),
    }  # fmt: skip
    assert one.asked == one.committed == [want]
    context = one.committed[0].context
    assert (context.group_id, context.client_id, context.api_version) == ("g", "app", version)
    assert context.transactional_id == ("tx" if key == IN_TRANSACTION else None)


@each_version
def test_what_is_changed_is_sent_and_the_rest_is_as_it_was_null_metadata_too(key: int, version: int) -> None:
    def change(offsets: Offsets) -> Given:
        return {**offsets, place("orders", 0): OffsetAndMetadata(9, "mine and ours", -1)}

    around, one = commits(change)
    hand = exchange(around, key, version)
    out = hand.request(committing(key, version, TWO))
    assert sent(key, version, out) == {"orders": {0: (9, "mine and ours"), 1: (20, None)}, "free": {3: (30, "")}}
    assert hand.wants_response
    answer = committed(key, version, OK)
    assert hand.response(answer) is answer
    assert one.committed[0][place("orders", 0)].offset == 9
    assert around.observed.commits == {"changed": 1, "unchanged": 2}


@each_version
def test_what_is_left_out_is_not_sent_and_answered_with_success_in_the_clients_order(key: int, version: int) -> None:
    around, one = commits(without(("orders", 0)))
    hand = exchange(around, key, version)
    out = hand.request(committing(key, version, TWO))
    assert out == committing(key, version, {"orders": {1: (20, None)}, "free": {3: (30, "")}})
    got = hand.response(committed(key, version, {"free": {3: 25}, "orders": {1: 0}}))
    assert told(key, version, got) == [("orders", 0, 0), ("orders", 1, 0), ("free", 3, 25)]
    assert [set(offsets) for offsets in one.committed] == [{place("orders", 1)}]
    assert around.observed.commits == {"unchanged": 2, "dropped": 1}


@each_version
def test_a_topic_of_which_all_is_left_out_is_not_sent(key: int, version: int) -> None:
    around, _ = commits(without(("orders", 0), ("orders", 1)))
    hand = exchange(around, key, version)
    assert hand.request(committing(key, version, TWO)) == committing(key, version, {"free": {3: (30, "")}})
    got = hand.response(committed(key, version, {"free": {3: 0}}))
    assert told(key, version, got) == [("orders", 0, 0), ("orders", 1, 0), ("free", 3, 0)]


@each_version
def test_a_commit_of_which_nothing_is_left_is_a_success_and_nobody_is_told_of_it(key: int, version: int) -> None:
    around, one = commits(lambda offsets: {})
    hand = exchange(around, key, version)
    step = hand.request(committing(key, version, TWO))
    if key == IN_TRANSACTION and version >= JOINS_FROM:  # KIP-890
        ((name, refused),) = sent(key, version, step).items()
        assert len(refused[0][1] or "") > 4096
        step = Answer(hand.response(committed(key, version, {name: {0: 12}})))
    assert isinstance(step, Answer)
    assert told(key, version, step.frame) == [("orders", 0, 0), ("orders", 1, 0), ("free", 3, 0)]
    assert one.committed == []
    assert around.observed.commits == {"dropped": 3}


@pytest.mark.parametrize("code", [15, 22, 25, 47, 51, 90])
def test_a_transaction_that_the_group_cannot_become_part_of_is_told_so(code: int) -> None:
    around, one = commits(lambda offsets: {})
    hand = exchange(around, IN_TRANSACTION, 5)
    hand.request(committing(IN_TRANSACTION, 5, TWO))
    got = hand.response(committed(IN_TRANSACTION, 5, {"orders": {0: code}}))
    assert told(IN_TRANSACTION, 5, got) == [("orders", 0, code), ("orders", 1, code), ("free", 3, code)]
    assert one.committed == []


def test_a_commit_in_which_a_topic_has_no_partition_can_be_emptied_too() -> None:
    for key, version in EACH:
        around, _ = commits(lambda offsets: {})
        step = exchange(around, key, version).request(committing(key, version, {"orders": {}, "free": {3: (1, "")}}))
        assert isinstance(step, Answer | bytes)


@each_version
def test_a_commit_of_nothing_passes_and_may_become_one_of_something(key: int, version: int) -> None:
    around, one = commits()
    frame = committing(key, version, {})
    assert exchange(around, key, version).request(frame) is frame
    assert one.asked == [{}]
    if version < FIRST_WITH_IDS[ApiKey(key)]:
        around, one = commits(more("orders", 0, 5))
        hand = exchange(around, key, version)
        assert sent(key, version, hand.request(frame)) == {"orders": {0: (5, "generated")}}
        assert told(key, version, hand.response(committed(key, version, {"orders": {0: 0}}))) == []
        assert len(one.committed) == 1


@each_version
async def test_what_is_generated_is_sent_and_left_out_of_the_answer(key: int, version: int) -> None:
    around, one = commits(more("payments", 7, 70))
    around.hidden = {"payments"}
    hand = exchange(around, key, version)
    out = await around.sent(hand, committing(key, version, TWO))
    assert sent(key, version, out) == {**TWO, "payments": {7: (70, "generated")}}
    got = hand.response(committed(key, version, {"payments": {7: 0}, **OK}))
    assert told(key, version, got) == [("orders", 0, 0), ("orders", 1, 0), ("free", 3, 0)]
    assert one.committed[0][place("payments", 7)].offset == 70
    assert around.asked_for == (["payments"] if version >= FIRST_WITH_IDS[ApiKey(key)] else [])
    assert around.observed.commits == {"unchanged": 3, "added": 1}


@each_version
def test_another_partition_of_a_topic_of_the_client_is_sent_under_its_own_name(key: int, version: int) -> None:
    around, one = commits(more("orders", 9, 90))
    hand = exchange(around, key, version)
    out = hand.request(committing(key, version, TWO))
    assert sent(key, version, out) == {"orders": {**TWO["orders"], 9: (90, "generated")}, "free": TWO["free"]}
    got = hand.response(committed(key, version, {"orders": {0: 0, 1: 0, 9: 3}, "free": {3: 0}}))
    assert told(key, version, got) == [("orders", 0, 0), ("orders", 1, 0), ("free", 3, 0)]
    assert place("orders", 9) not in one.committed[0]


@pytest.mark.parametrize("cluster_answers", [True, False])
async def test_what_is_generated_for_a_topic_that_nobody_knows_is_not_sent(cluster_answers: bool) -> None:
    around, one = commits(more("who", 0, 5))
    around.cluster_answers = cluster_answers
    hand, frame = exchange(around, PLAIN, 10), committing(PLAIN, 10, TWO)
    assert await around.sent(hand, frame) is frame
    assert around.observed.commits["unknown_topic"] == 1
    answer = committed(PLAIN, 10, OK)
    assert hand.response(answer) == answer
    assert len(one.committed[0]) == 3


async def test_ids_of_the_client_are_asked_for_once() -> None:
    around, one = commits(names=("free",))
    around.hidden = {"orders"}
    frame = committing(PLAIN, 10, TWO)
    assert await around.sent(exchange(around, PLAIN, 10), frame) is frame
    assert around.asked_for == [topic_id("orders")]
    assert {at.topic for at in one.asked[0]} == {"orders", "free"}


@pytest.mark.parametrize("cluster_answers", [True, False])
async def test_offsets_of_a_topic_that_nobody_can_name_are_sent_as_they_came(cluster_answers: bool) -> None:
    around, one = commits(without(("free", 3)), names=("free",))
    around.cluster_answers = cluster_answers
    hand = exchange(around, PLAIN, 10)
    out = await around.sent(hand, committing(PLAIN, 10, TWO))
    assert out == committing(PLAIN, 10, {"orders": TWO["orders"]})
    got = hand.response(committed(PLAIN, 10, {"orders": {0: 100, 1: 0}}))
    assert told(PLAIN, 10, got) == [("orders", 0, 100), ("orders", 1, 0), ("free", 3, 0)]
    assert one.committed == []
    assert around.waits == 1


@each_version
def test_on_commit_hears_only_of_what_has_succeeded(key: int, version: int) -> None:
    around, one = commits()
    hand = exchange(around, key, version)
    hand.request(committing(key, version, TWO))
    answer = committed(key, version, {"orders": {0: 27, 1: 0}, "free": {3: 3}})
    assert hand.response(answer) is answer
    assert [set(offsets) for offsets in one.committed] == [{place("orders", 1)}]
    hand = exchange(around, key, version)
    hand.request(committing(key, version, TWO))
    hand.response(committed(key, version, {"orders": {0: 16, 1: 16}, "free": {3: 16}}))
    assert len(one.committed) == 1


def test_a_connection_that_is_lost_commits_nothing() -> None:
    around, one = commits()
    hand = exchange(around, PLAIN, 8)
    hand.request(committing(PLAIN, 8, TWO))
    hand.lost("closed")
    assert one.committed == []


@pytest.mark.parametrize(
    "what", ["raises", "no mapping", "no offset", "too much metadata", "negative", "changes its own"]
)
def test_an_interceptor_that_fails_changes_nothing(what: str) -> None:
    def change(offsets: Offsets) -> Any:
        match what:
            case "raises":
                raise RuntimeError("a bug")
            case "changes its own":
                offsets.clear()
                raise RuntimeError("a bug")
            case "no mapping":
                return [*offsets]
            case "no offset":
                return {place("orders", 0): 7}
            case "too much metadata":
                return {place("orders", 0): OffsetAndMetadata(7, "x" * 4097)}
        return {place("orders", 0): OffsetAndMetadata(-7)}

    around, _ = commits(change)
    frame = committing(PLAIN, 8, TWO)
    assert exchange(around, PLAIN, 8).request(frame) is frame
    assert around.catalog.guards[0].failures == {"pre_commit": 1}


def test_without_anybody_who_hears_of_it_the_answer_to_an_unchanged_commit_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(Commits, "on_commit")
    around, _ = commits()
    hand = exchange(around, PLAIN, 8)
    hand.request(committing(PLAIN, 8, TWO))
    assert not hand.wants_response


def test_each_interceptor_sees_the_topics_that_it_is_for() -> None:
    around = Intercepting("Commits")
    (one,) = around.interceptors
    one.change = lambda offsets: {}
    hand = exchange(around, PLAIN, 8)
    out = hand.request(committing(PLAIN, 8, TWO))
    assert out == committing(PLAIN, 8, {"free": TWO["free"]})
    assert {at.topic for at in one.asked[0]} == {"orders"}


def test_a_partition_that_is_named_twice_is_answered_twice() -> None:
    frame = committing(PLAIN, 8, {"orders": {0: (1, "a")}})
    request_at = 4 + 8 + 2 + 3 + 1
    request, _ = decode(OffsetCommitRequest, frame, 8, request_at)
    twice = replace_fields(request, topics=request.topics * 2)
    frame = oracle.framed(frame[4:request_at] + encode(twice, 8))
    around, _ = commits()
    assert exchange(around, PLAIN, 8).request(frame) is frame
    around, _ = commits(lambda offsets: {})
    step = exchange(around, PLAIN, 8).request(frame)
    assert isinstance(step, Answer)
    assert told(PLAIN, 8, step.frame) == [("orders", 0, 0)] * 2


def test_unknown_tagged_fields_survive_a_change() -> None:
    frame = committing(IN_TRANSACTION, 4, TWO)
    at = 4 + 8 + 2 + 3 + 1
    request, _ = decode(TxnOffsetCommitRequest, frame, 4, at)

    def tagged(request: TxnOffsetCommitRequest) -> bytes:
        topics = tuple(replace_fields(topic, unknown_tags=((6, b"six"),)) for topic in request.topics)
        return oracle.framed(
            frame[4:at] + encode(replace_fields(request, topics=topics, unknown_tags=((7, b"seven"),)), 4)
        )

    around, _ = commits(without(("free", 3)))
    out = exchange(around, IN_TRANSACTION, 4).request(tagged(request))
    assert out == tagged(replace_fields(request, topics=request.topics[:1]))


async def test_a_transactional_commit_by_ids_is_intercepted_as_one_by_names() -> None:
    topics = tuple(
        TxnOffsetCommitRequestTopic(
            topic_id=topic_id(name),
            partitions=(
                TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata=None),
            ),
        )
        for name in ("orders", "free")
    )
    request = TxnOffsetCommitRequest(transactional_id="tx", group_id="g", member_id="m", topics=topics)
    header = committing(IN_TRANSACTION, 5, {})[4 : 4 + 8 + 2 + 3 + 1]
    header = header[:2] + (6).to_bytes(2, "big") + header[4:]
    around, _ = commits(without(("orders", 0)))
    out = await around.sent(exchange(around, IN_TRANSACTION, 6), oracle.framed(header + encode(request, 6)))
    assert out == oracle.framed(header + encode(replace_fields(request, topics=topics[1:]), 6))


@FEWER
@given(st.sampled_from(EACH), st.binary(max_size=80))
def test_noise_raises_a_codec_error_or_passes(of: tuple[int, int], noise: bytes) -> None:
    key, version = of
    around, _ = commits()
    frame = committing(key, version, TWO)
    for junk in (frame[:12] + noise, frame[:40] + noise + frame[40 + len(noise) :]):
        try:
            out = exchange(around, key, version).request(junk)
        except CodecError:
            continue
        assert out is junk or isinstance(out, Hold)


@FEWER
@given(st.sampled_from(EACH), st.binary(max_size=60))
def test_an_answer_of_noise_raises_a_codec_error_or_says_something(of: tuple[int, int], noise: bytes) -> None:
    key, version = of
    around, one = commits(without(("orders", 0)))
    hand = exchange(around, key, version)
    hand.request(committing(key, version, TWO))
    try:
        hand.response(oracle.framed((7).to_bytes(4, "big") + noise))
    except CodecError:
        return
    assert all(offsets for offsets in one.committed)


Pick = st.dictionaries(st.sampled_from(["orders", "free"]), st.sets(st.integers(0, 2), max_size=3), max_size=2)


@FEWER
@given(st.sampled_from([one for one in EACH if one[1] < FIRST_WITH_IDS[ApiKey(one[0])]]), Pick, Pick, Pick, st.data())
def test_whatever_is_left_out_and_added_the_client_is_told_of_just_what_it_asked_for(
    of: tuple[int, int],
    asked: Mapping[str, set[int]],
    dropped: Mapping[str, set[int]],
    added: Mapping[str, set[int]],
    data: st.DataObject,
) -> None:
    key, version = of

    def change(offsets: Offsets) -> Given:
        left = {at: one for at, one in offsets.items() if at.partition not in dropped.get(at.topic, ())}
        new = {place(name, at): OffsetAndMetadata(99) for name, some in added.items() for at in some}
        return {**new, **left}

    around, one = commits(change)
    hand = exchange(around, key, version)
    step = hand.request(committing(key, version, {name: {at: (at, "") for at in some} for name, some in asked.items()}))
    all_asked = [(name, at) for name, some in asked.items() for at in some]
    want = {(name, at): at for name, at in all_asked if at not in dropped.get(name, ())}
    want = {**{(name, at): 99 for name, some in added.items() for at in some}, **want}
    if isinstance(step, Answer):
        assert want == {}
        assert told(key, version, step.frame) == [(name, at, 0) for name, at in all_asked]
        return
    going = sent(key, version, step)
    if want or not all_asked:
        assert {(name, at): offset for name, some in going.items() for at, (offset, _) in some.items()} == want
    codes = {name: {at: data.draw(st.sampled_from([0, 0, 22])) for at in some} for name, some in going.items()}
    if not hand.wants_response:
        return
    got = told(key, version, hand.response(committed(key, version, codes)))
    if want:
        of_broker = {(name, at): code for name, some in codes.items() for at, code in some.items()}
        assert got == [(name, at, of_broker.get((name, at), 0)) for name, at in all_asked]
        succeeded = {at for at, code in of_broker.items() if not code}
        assert [set(offsets) for offsets in one.committed] == ([succeeded] if succeeded else [])
