"""Which Fetch requests are looked into, while sessions are continued and interceptors reloaded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.client import FakeClient
from support.dialogue import Dialogue, pieces
from support.features import (
    FEWER,
    NAMES,
    ON_ORDERS,
    begun,
    each_fetch,
    fetching,
    kind,
    load,
    started,
    with_sessions,
)
from support.interception import fetch_response
from support.produce_requests import batch, topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.exchanges.fetch import FetchExchange
from kafka_sidecar.proxy.features.compose import Features


@each_fetch
def test_no_exchange_begins_for_a_fetch_of_topics_without_an_interceptor(version: int) -> None:
    made = started()
    for _ in range(2):
        for names, wanted in ((("free",), False), (("free", "other"), False), (("free", "orders"), True)):
            client = FakeClient()
            for _ in range(2):
                found = begun(made, ApiKey.FETCH, version, fetching(version, *names), client)
                assert (kind(found) is FetchExchange) is wanted


@each_fetch
def test_an_exchange_begins_for_a_fetch_of_a_client_that_says_it_is_a_replica(version: int) -> None:
    topics = [{"topic": "orders", "topic_id": topic_id("orders"), "partitions": [{"partition": 0}]}]
    of_replica = {"replica_id": 1, "replica_state": {"replica_id": 1, "replica_epoch": 7}}
    entity = oracle.request(ApiKey.FETCH, version, session_epoch=-1, topics=topics, **of_replica)
    assert begun(started(), ApiKey.FETCH, version, oracle.request_frame(entity, 7)) is not None


@pytest.mark.parametrize("version", range(13, 19))
def test_an_exchange_begins_for_a_fetch_of_an_unknown_id(version: int) -> None:
    assert begun(started(), ApiKey.FETCH, version, fetching(version, "who")) is not None


def asked_in_turn(
    made: Features, client: FakeClient, version: int, *requests: tuple[int, tuple[str, ...]]
) -> list[bool]:
    return [
        begun(made, ApiKey.FETCH, version, fetching(version, *names, epoch=epoch), client) is not None
        for epoch, names in requests
    ]


@with_sessions
def test_an_exchange_begins_once_a_fetch_session_has_a_topic_with_an_interceptor(version: int) -> None:
    turns = [
        (0, ("free",)),
        (1, ()),
        (2, ("other",)),
        (3, ()),
        (4, ("orders",)),
        (5, ()),
        (6, ("free",)),
        (0, ("free",)),
        (1, ()),
    ]
    got = asked_in_turn(started(), FakeClient(), version, *turns)
    assert got == [False, False, False, False, True, True, True, False, False]


@with_sessions
def test_a_session_that_was_begun_elsewhere_may_bring_anything(version: int) -> None:
    assert asked_in_turn(started(), FakeClient(), version, (5, ()), (6, ("free",)), (7, ())) == [True] * 3


@with_sessions
def test_a_request_beside_the_session_says_nothing_about_it(version: int) -> None:
    turns = [(0, ("orders",)), (1, ()), (-1, ("free",)), (2, ()), (-1, ("orders",)), (3, ())]
    assert asked_in_turn(started(), FakeClient(), version, *turns) == [True, True, False, True, True, True]
    turns = [(0, ("free",)), (1, ()), (-1, ("other",)), (2, ()), (-1, ("free", "other")), (3, ())]
    assert asked_in_turn(started(), FakeClient(), version, *turns) == [False] * 6


@with_sessions
def test_after_a_request_that_is_not_all_here_a_session_may_bring_anything(version: int) -> None:
    made, client = started(), FakeClient()
    assert asked_in_turn(made, client, version, (0, ("free",)), (1, ())) == [False, False]
    frame = fetching(version, "orders", epoch=0)
    assert begun(made, ApiKey.FETCH, version, frame, client, end=20) is not None
    assert asked_in_turn(made, client, version, (1, ()), (2, ())) == [True, True]


@with_sessions
def test_where_something_is_hidden_no_session_goes_on_unseen(version: int) -> None:
    made = started({"type": "support.interception:Hides", "topics": ["orders"]})
    assert asked_in_turn(made, FakeClient(), version, (0, ("free",)), (1, ()), (2, ())) == [False, True, True]


@with_sessions
def test_a_session_goes_on_while_interceptors_change(version: int) -> None:
    made, client = started(), FakeClient()
    assert asked_in_turn(made, client, version, (0, ("free",)), (1, ()), (2, ())) == [False] * 3
    load(made, {"type": "support.interception:Reads", "topics": ["free"]})
    assert asked_in_turn(made, client, version, (3, ()), (4, ())) == [True, True]
    assert asked_in_turn(made, client, version, (0, ("other",)), (1, ())) == [False, False]
    load(made)
    assert asked_in_turn(made, client, version, (2, ())) == [False]
    load(made, *ON_ORDERS)
    assert asked_in_turn(made, client, version, (3, ())) == [True]


Turn = st.tuples(
    st.sampled_from(["begin", "go on", "go on", "alone", "reload"]), st.sets(st.sampled_from(NAMES), max_size=2)
)


@FEWER
@given(st.sampled_from(range(7, 19)), st.lists(Turn, max_size=12), st.lists(st.integers(0, 500), max_size=4))
def test_on_a_connection_just_the_wanted_topics_are_changed_through_sessions_and_reloads(
    version: int, turns: list[tuple[str, set[str]]], cuts: list[int]
) -> None:
    made = started(ON_ORDERS[1])
    talk = Dialogue(exchange=made.exchange)
    wanted, session, epoch = {"orders"}, set[str](), 0
    for what, names in turns:
        if what == "reload":
            wanted = names or {"orders"}
            load(made, {"type": "support.interception:Reads", "topics": sorted(wanted)})
            talk.routes.forget()
            continue
        here = -1
        if what == "begin" or (what == "go on" and epoch):
            session, here = (names, 0) if what == "begin" else (session | names, epoch)
            epoch = here + 1
        talk.client(*pieces(fetching(version, *sorted(names), epoch=here), cuts))
        answered = sorted(names if here < 0 else session)
        talk.broker(*pieces(fetch_response(version, {name: {0: batch("edit")} for name in answered}), cuts))
        while talk.needs:  # turns of other connections
            talk.meet()
        new = {name: {0: batch("edited" if name in wanted else "edit")} for name in answered}
        assert (talk.cause, talk.to_client) == (None, fetch_response(version, new))
        talk.to_client = b""


SMALL = 1 << 20


@pytest.mark.parametrize("version", [11, 12, 13])
def test_once_it_is_known_what_a_fetch_is_of_later_ones_are_relayed_and_their_responses_looked_into(
    version: int,
) -> None:
    talk = Dialogue(exchange=started(ON_ORDERS[1]).exchange)
    frame = fetching(version, "orders", max_bytes=SMALL)
    talk.client(frame).broker(fetch_response(version, {"orders": {0: batch("edit")}}))
    talk.client(frame[:-1])
    assert talk.to_broker == frame + frame[:-1]
    talk.client(frame[-1:]).broker(fetch_response(version, {"orders": {0: batch("edit")}}))
    assert talk.to_broker == 2 * frame
    assert talk.to_client == 2 * fetch_response(version, {"orders": {0: batch("edited")}})
    assert talk.metrics.apis[ApiKey.FETCH].held == 1


@pytest.mark.parametrize(
    ("version", "max_bytes"),
    [(10, SMALL), (12, (1 << 31) - 1)],
    ids=["a client that would show markers", "more bytes than a response may have"],
)
def test_but_not_where_the_request_may_have_to_be_changed(version: int, max_bytes: int) -> None:
    talk = Dialogue(exchange=started(ON_ORDERS[1]).exchange)
    for _ in range(3):
        talk.client(fetching(version, "orders", max_bytes=max_bytes))
        talk.broker(fetch_response(version, {"orders": {0: batch("edit")}}))
    assert talk.metrics.apis[ApiKey.FETCH].held == 3
