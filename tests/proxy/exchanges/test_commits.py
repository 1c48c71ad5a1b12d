"""Commits: what the coordinator gets, what the client gets, which hooks run. kio is the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle
from support.commit_requests import (
    FIRST_THAT_JOINS,
    FIRST_WITH_EPOCHS,
    FIRST_WITH_IDS,
    IN_TRANSACTION,
    PLAIN,
    THREE,
    THREE_SUCCEEDED,
    VERSIONS,
    begin_commit,
    codes_in,
    commit_request,
    commit_response,
    epochs_in,
    intercept,
    more,
    offsets_in,
    place,
    without,
)
from support.driven import driven
from support.interception import NOW, Given, Intercepting

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import decode, encode, replace_fields
from kafka_sidecar.codec.messages.offset_commit import OffsetCommitRequest
from kafka_sidecar.codec.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafka_sidecar.plugins.effects import Need
from kafka_sidecar.plugins.values import OffsetAndMetadata, Offsets
from kafka_sidecar.proxy.exchanges.commits import Commits as CommitsStage
from kafka_sidecar.proxy.exchanges.commits import Stage, commit_api
from kafka_sidecar.proxy.relay.exchange import Respond

FIRST_WITH_MEMBERS_IN_TRANSACTIONS = 3  # TxnOffsetCommit
FEWER = settings(max_examples=settings().max_examples // 3)
each_version = pytest.mark.parametrize(("key", "version"), VERSIONS)


@each_version
def test_an_unchanged_commit_is_the_clients_frame_and_on_commit_runs_once_it_has_succeeded(
    key: int, version: int
) -> None:
    intercepting, interceptor = intercept()
    exchange, frame = begin_commit(intercepting, key, version), commit_request(key, version, THREE)
    assert exchange.request(frame) is frame
    assert exchange.wants_response
    assert interceptor.committed == []
    answer = commit_response(key, version, THREE_SUCCEEDED)
    assert exchange.response(answer) is answer
    epoch = 4 if version >= FIRST_WITH_EPOCHS[key] else -1
    want = {
        place("orders", 0): OffsetAndMetadata(10, "mine", epoch), place("orders", 1): OffsetAndMetadata(20, "", epoch),
        place("free", 3): OffsetAndMetadata(30, "", epoch),
    }  # fmt: skip
    assert interceptor.asked == interceptor.committed == [want]
    context = interceptor.committed[0].context
    client = intercepting.client
    assert (context.session, context.client_id, context.client_software) == (7, "app", client.client_software)
    assert (context.principal, context.host) == (client.principal, client.host)
    assert (context.group_id, context.api_version, context.clock()) == ("g", version, NOW)
    assert context.transactional_id == ("tx" if key == IN_TRANSACTION else None)
    names_members = key != IN_TRANSACTION or version >= FIRST_WITH_MEMBERS_IN_TRANSACTIONS
    assert (context.generation_id, context.member_id) == ((3, "m") if names_members else (-1, ""))
    assert context.is_member is names_members


@each_version
def test_a_changed_offset_is_sent_and_all_others_stay_as_they_were(key: int, version: int) -> None:
    def change(offsets: Offsets) -> Given:
        return {**offsets, place("orders", 0): OffsetAndMetadata(9, "mine and ours", -1)}

    intercepting, interceptor = intercept(change)
    exchange = begin_commit(intercepting, key, version)
    out = exchange.request(commit_request(key, version, THREE))
    assert offsets_in(key, version, out) == {"orders": {0: (9, "mine and ours"), 1: (20, None)}, "free": {3: (30, "")}}
    assert exchange.wants_response
    answer = commit_response(key, version, THREE_SUCCEEDED)
    assert exchange.response(answer) is answer
    assert interceptor.committed[0][place("orders", 0)].offset == 9
    assert intercepting.stats.commits == {"changed": 1, "unchanged": 2}


@pytest.mark.parametrize(("key", "version"), [pair for pair in VERSIONS if pair[1] >= FIRST_WITH_EPOCHS[pair[0]]])
def test_a_changed_leader_epoch_is_sent(key: int, version: int) -> None:
    def change(offsets: Offsets) -> Given:
        return {at: replace(offset, leader_epoch=17) if at.partition else offset for at, offset in offsets.items()}

    intercepting, _ = intercept(change)
    out = begin_commit(intercepting, key, version).request(commit_request(key, version, THREE))
    assert epochs_in(key, version, out) == {"orders": {0: 4, 1: 17}, "free": {3: 17}}


@each_version
def test_a_partition_that_the_coordinator_does_not_name_is_no_success(key: int, version: int) -> None:
    intercepting, interceptor = intercept(without(("free", 3)))
    exchange = begin_commit(intercepting, key, version)
    exchange.request(commit_request(key, version, THREE))
    to_client = exchange.response(commit_response(key, version, {"orders": {0: 0}}))
    assert codes_in(key, version, to_client) == [("orders", 0, 0), ("orders", 1, -1), ("free", 3, 0)]
    assert [*interceptor.committed[0]] == [place("orders", 0)]


@each_version
def test_a_removed_offset_is_not_sent_and_gets_success_in_the_clients_order(key: int, version: int) -> None:
    intercepting, interceptor = intercept(without(("orders", 0)))
    exchange = begin_commit(intercepting, key, version)
    out = exchange.request(commit_request(key, version, THREE))
    assert out == commit_request(key, version, {"orders": {1: (20, None)}, "free": {3: (30, "")}})
    got = exchange.response(commit_response(key, version, {"free": {3: 25}, "orders": {1: 0}}))
    assert codes_in(key, version, got) == [("orders", 0, 0), ("orders", 1, 0), ("free", 3, 25)]
    assert [set(offsets) for offsets in interceptor.committed] == [{place("orders", 1)}]
    assert intercepting.stats.commits == {"unchanged": 2, "dropped": 1}


@each_version
def test_a_topic_of_which_all_offsets_are_removed_is_not_sent(key: int, version: int) -> None:
    intercepting, _ = intercept(without(("orders", 0), ("orders", 1)))
    exchange = begin_commit(intercepting, key, version)
    assert exchange.request(commit_request(key, version, THREE)) == commit_request(
        key, version, {"free": {3: (30, "")}}
    )
    got = exchange.response(commit_response(key, version, {"free": {3: 0}}))
    assert codes_in(key, version, got) == [("orders", 0, 0), ("orders", 1, 0), ("free", 3, 0)]


@each_version
def test_a_commit_of_which_nothing_is_left_succeeds_and_on_commit_does_not_run(key: int, version: int) -> None:
    intercepting, interceptor = intercept(lambda offsets: {})
    exchange = begin_commit(intercepting, key, version)
    step = exchange.request(commit_request(key, version, THREE))
    if key == IN_TRANSACTION and version >= FIRST_THAT_JOINS:  # KIP-890
        ((name, rejected),) = offsets_in(key, version, step).items()
        assert len(rejected[0][1] or "") > 4096
        response = exchange.response(commit_response(key, version, {name: {0: 12}}))
    else:
        assert isinstance(step, Respond)
        response = step.frame
    assert codes_in(key, version, response) == [("orders", 0, 0), ("orders", 1, 0), ("free", 3, 0)]
    assert interceptor.committed == []
    assert intercepting.stats.commits == {"dropped": 3}


@pytest.mark.parametrize("code", [15, 22, 25, 47, 51, 90])
def test_errors_of_the_transaction_reach_the_client_of_an_emptied_commit(code: int) -> None:
    intercepting, interceptor = intercept(lambda offsets: {})
    exchange = begin_commit(intercepting, IN_TRANSACTION, 5)
    exchange.request(commit_request(IN_TRANSACTION, 5, THREE))
    got = exchange.response(commit_response(IN_TRANSACTION, 5, {"orders": {0: code}}))
    assert codes_in(IN_TRANSACTION, 5, got) == [("orders", 0, code), ("orders", 1, code), ("free", 3, code)]
    assert interceptor.committed == []


def test_a_commit_in_which_a_topic_has_no_partition_can_be_emptied_too() -> None:
    for key, version in VERSIONS:
        intercepting, _ = intercept(lambda offsets: {})
        step = begin_commit(intercepting, key, version).request(
            commit_request(key, version, {"orders": {}, "free": {3: (1, "")}})
        )
        assert isinstance(step, Respond | bytes)


@each_version
def test_a_commit_of_nothing_is_forwarded_and_offsets_can_be_added_to_it(key: int, version: int) -> None:
    intercepting, interceptor = intercept()
    frame = commit_request(key, version, {})
    assert begin_commit(intercepting, key, version).request(frame) is frame
    assert interceptor.asked == [{}]
    if version < FIRST_WITH_IDS[key]:
        intercepting, interceptor = intercept(more("orders", 0, 5))
        exchange = begin_commit(intercepting, key, version)
        assert offsets_in(key, version, exchange.request(frame)) == {"orders": {0: (5, "generated")}}
        assert codes_in(key, version, exchange.response(commit_response(key, version, {"orders": {0: 0}}))) == []
        assert len(interceptor.committed) == 1


@each_version
def test_on_commit_gets_only_offsets_that_were_committed(key: int, version: int) -> None:
    intercepting, interceptor = intercept()
    exchange = begin_commit(intercepting, key, version)
    exchange.request(commit_request(key, version, THREE))
    answer = commit_response(key, version, {"orders": {0: 27, 1: 0}, "free": {3: 3}})
    assert exchange.response(answer) is answer
    assert [set(offsets) for offsets in interceptor.committed] == [{place("orders", 1)}]
    exchange = begin_commit(intercepting, key, version)
    exchange.request(commit_request(key, version, THREE))
    exchange.response(commit_response(key, version, {"orders": {0: 16, 1: 16}, "free": {3: 16}}))
    assert len(interceptor.committed) == 1


def test_on_commit_does_not_run_for_a_lost_connection() -> None:
    intercepting, interceptor = intercept()
    exchange = begin_commit(intercepting, PLAIN, 8)
    exchange.request(commit_request(PLAIN, 8, THREE))
    exchange.lost("closed")
    assert interceptor.committed == []


class Adding(Stage):
    """Adds to each offset, and takes note of what was committed."""

    wants_result = True

    def takes_long(self, partitions: int) -> bool:
        return False

    def time_left(self) -> None:
        return None

    counts: Counter[str] | None = None

    def __init__(self, number: int) -> None:
        self.number = number
        self.committed: list[Offsets] = []

    def pre_commit(self, offsets: Offsets) -> Offsets:
        added = {at: OffsetAndMetadata(offset.offset + self.number) for at, offset in offsets.items()}
        return Offsets(added, offsets.context)

    def on_commit(self, offsets: Offsets) -> None:
        self.committed.append(offsets)


def test_stages_run_in_their_order_and_each_gets_what_it_has_given_back() -> None:
    intercepting, stages = Intercepting(), [Adding(1), Adding(100)]
    services = intercepting.services
    stages[1].counts = Counter()
    commits = CommitsStage(PLAIN, stages, services.name_of, services.clock)
    exchange = driven(commits, version=8, client=intercepting.client)
    assert exchange is not None
    request = exchange.request(commit_request(PLAIN, 8, {"orders": {0: (10, ""), 1: (20, "")}}))
    assert offsets_in(PLAIN, 8, request) == {"orders": {0: (111, ""), 1: (121, "")}}
    exchange.response(commit_response(PLAIN, 8, {"orders": {0: 0, 1: 12}}))
    assert [stage.committed for stage in stages] == [
        [{place("orders", 0): OffsetAndMetadata(11)}],
        [{place("orders", 0): OffsetAndMetadata(111)}],
    ]
    assert stages[1].counts == {"changed": 2}


def test_commits_of_versions_that_cannot_be_read_are_relayed() -> None:
    assert commit_api(PLAIN, 11) is commit_api(IN_TRANSACTION, 7) is None
    assert commit_api(ApiKey.PRODUCE, 8) is None


def test_a_partition_that_is_committed_twice_has_two_results() -> None:
    frame = commit_request(PLAIN, 8, {"orders": {0: (1, "a")}})
    request_at = 4 + 8 + 2 + 3 + 1
    request, _ = decode(OffsetCommitRequest, frame, 8, request_at)
    twice = replace_fields(request, topics=request.topics * 2)
    frame = oracle.framed(frame[4:request_at] + encode(twice, 8))
    intercepting, _ = intercept()
    assert begin_commit(intercepting, PLAIN, 8).request(frame) is frame
    intercepting, _ = intercept(lambda offsets: {})
    step = begin_commit(intercepting, PLAIN, 8).request(frame)
    assert isinstance(step, Respond)
    assert codes_in(PLAIN, 8, step.frame) == [("orders", 0, 0)] * 2


def test_unknown_tagged_fields_survive_a_change() -> None:
    frame = commit_request(IN_TRANSACTION, 4, THREE)
    at = 4 + 8 + 2 + 3 + 1
    request, _ = decode(TxnOffsetCommitRequest, frame, 4, at)

    def tagged(request: TxnOffsetCommitRequest) -> bytes:
        topics = tuple(replace_fields(topic, unknown_tags=((6, b"six"),)) for topic in request.topics)
        return oracle.framed(
            frame[4:at] + encode(replace_fields(request, topics=topics, unknown_tags=((7, b"seven"),)), 4)
        )

    intercepting, _ = intercept(without(("free", 3)))
    out = begin_commit(intercepting, IN_TRANSACTION, 4).request(tagged(request))
    assert out == tagged(replace_fields(request, topics=request.topics[:1]))


@FEWER
@given(st.sampled_from(VERSIONS), st.binary(max_size=80))
def test_noise_raises_a_codec_error_or_is_forwarded(of: tuple[int, int], noise: bytes) -> None:
    key, version = of
    intercepting, _ = intercept()
    frame = commit_request(key, version, THREE)
    for junk in (frame[:12] + noise, frame[:40] + noise + frame[40 + len(noise) :]):
        try:
            out = begin_commit(intercepting, key, version).request(junk)
        except CodecError:
            continue
        assert out is junk or isinstance(out, Need)


@FEWER
@given(st.sampled_from(VERSIONS), st.binary(max_size=60))
def test_a_response_of_noise_raises_a_codec_error_or_reports_a_commit(of: tuple[int, int], noise: bytes) -> None:
    key, version = of
    intercepting, interceptor = intercept(without(("orders", 0)))
    exchange = begin_commit(intercepting, key, version)
    exchange.request(commit_request(key, version, THREE))
    try:
        exchange.response(oracle.framed((7).to_bytes(4, "big") + noise))
    except CodecError:
        return
    assert all(offsets for offsets in interceptor.committed)


Pick = st.dictionaries(st.sampled_from(["orders", "free"]), st.sets(st.integers(0, 2), max_size=3), max_size=2)


@FEWER
@given(
    st.sampled_from([(key, version) for key, version in VERSIONS if version < FIRST_WITH_IDS[key]]),
    Pick,
    Pick,
    Pick,
    st.data(),
)
def test_the_client_gets_a_result_for_exactly_what_it_has_asked_for(
    of: tuple[int, int],
    asked: Mapping[str, set[int]],
    dropped: Mapping[str, set[int]],
    added: Mapping[str, set[int]],
    data: st.DataObject,
) -> None:
    key, version = of

    def change(offsets: Offsets) -> Given:
        left = {at: offset for at, offset in offsets.items() if at.partition not in dropped.get(at.topic, ())}
        new = {place(name, at): OffsetAndMetadata(99) for name, some in added.items() for at in some}
        return {**new, **left}

    intercepting, interceptor = intercept(change)
    exchange = begin_commit(intercepting, key, version)
    step = exchange.request(
        commit_request(key, version, {name: {at: (at, "") for at in some} for name, some in asked.items()})
    )
    all_asked = [(name, at) for name, some in asked.items() for at in some]
    want = {(name, at): at for name, at in all_asked if at not in dropped.get(name, ())}
    want = {**{(name, at): 99 for name, some in added.items() for at in some}, **want}
    if isinstance(step, Respond):
        assert want == {}
        assert codes_in(key, version, step.frame) == [(name, at, 0) for name, at in all_asked]
        return
    going = offsets_in(key, version, step)
    if want or not all_asked:
        assert {(name, at): offset for name, some in going.items() for at, (offset, _) in some.items()} == want
    codes = {name: {at: data.draw(st.sampled_from([0, 0, 22])) for at in some} for name, some in going.items()}
    if not exchange.wants_response:
        return
    got = codes_in(key, version, exchange.response(commit_response(key, version, codes)))
    if want:
        of_broker = {(name, at): code for name, some in codes.items() for at, code in some.items()}
        assert got == [(name, at, of_broker.get((name, at), 0)) for name, at in all_asked]
        succeeded = {at for at, code in of_broker.items() if not code}
        assert [set(offsets) for offsets in interceptor.committed] == ([succeeded] if succeeded else [])
