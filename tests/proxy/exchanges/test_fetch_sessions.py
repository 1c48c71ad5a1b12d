"""Which Fetch requests are looked into, while fetch sessions are continued (KIP-227) and stages change."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle
from support.broker_responses import DOMAIN, broker
from support.client import FakeClient, exchange_of
from support.dialogue import HOST, Dialogue, pieces, response
from support.driven import Driven
from support.fetches import HEAD_AT, VERSIONS, fetch_exchanges, fetch_request
from support.interception import Intercepting, fetch_response
from support.produce_requests import batch

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.pieces import MIN_BYTES
from kafka_sidecar.plugins.effects import Work
from kafka_sidecar.proxy.exchanges.fetch import FetchExchange, FetchExchanges
from kafka_sidecar.proxy.relay.exchange import Begin, FetchSession, Pass

NAMES = ("orders", "payments", "free")
each_version = pytest.mark.parametrize("version", VERSIONS)
with_sessions = pytest.mark.parametrize("version", range(7, 19))


def is_looked_into(exchanges: FetchExchanges, version: int, client: FakeClient, *topics: str, epoch: int = -1) -> bool:
    frame = fetch_request(version, {name: {0: 0} for name in topics}, epoch=epoch)
    found = exchanges.begin(version, b"before" + frame, 6, len(frame), client)
    return isinstance(exchange_of(found), FetchExchange)


def in_turn(
    exchanges: FetchExchanges, version: int, *requests: tuple[int, tuple[str, ...]], client: FakeClient | None = None
) -> list[bool]:
    """(epoch, topics) of requests on one connection: whether they are looked into."""
    client = client or FakeClient()
    return [is_looked_into(exchanges, version, client, *names, epoch=epoch) for epoch, names in requests]


@pytest.fixture
def exchanges() -> FetchExchanges:
    return fetch_exchanges(Intercepting("Reads"))


@each_version
@pytest.mark.parametrize(("topics", "expected"), [(("free",), False), (("free", "payments"), False),
                                                  (("free", "orders"), True), ((), False)])  # fmt: skip
def test_a_request_for_a_wanted_topic_is_looked_into(
    exchanges: FetchExchanges, version: int, topics: tuple[str, ...], expected: bool
) -> None:
    assert in_turn(exchanges, version, (-1, topics), (-1, topics)) == [expected] * 2


@pytest.mark.parametrize("version", range(13, 19))
def test_a_request_for_an_unknown_id_is_looked_into(exchanges: FetchExchanges, version: int) -> None:
    assert in_turn(exchanges, version, (-1, ("who",))) == [True]


@each_version
def test_a_request_that_ends_before_its_topics_raises(exchanges: FetchExchanges, version: int) -> None:
    frame = fetch_request(version, {})[:20]
    exchange = exchange_of(exchanges.begin(version, frame, 0, 20, FakeClient()))
    assert exchange is not None
    with pytest.raises(CodecError):
        Driven(exchange).request(frame)


@each_version
def test_requests_for_one_topic_that_is_not_wanted_are_known_by_their_prefix(
    exchanges: FetchExchanges, version: int
) -> None:
    frame = fetch_request(version, {"free": {0: 0}})
    found = exchanges.begin(version, b"before" + frame, 6, len(frame), FakeClient())
    assert isinstance(found, Pass)
    assert (found.epoch, found.tail) == (False, b"")
    assert frame.startswith(found.head, HEAD_AT)
    other = fetch_request(version, {"orders": {0: 0}})
    assert not other.startswith(found.head, HEAD_AT)
    assert not fetch_request(version, {"free": {0: 0}, "orders": {0: 0}}).startswith(found.head, HEAD_AT)


@with_sessions
def test_requests_that_continue_a_session_are_known_by_their_prefix_and_name_no_topic(
    exchanges: FetchExchanges, version: int
) -> None:
    client = FakeClient()
    assert in_turn(exchanges, version, (0, ("free",)), client=client) == [False]
    frame = fetch_request(version, {}, epoch=1)
    found = exchanges.begin(version, frame, 0, len(frame), client)
    assert isinstance(found, Pass)
    assert found.epoch
    for topics, begins_alike in (({}, True), ({"orders": {0: 0}}, False)):
        later = fetch_request(version, topics, epoch=2)
        assert later.startswith(found.head, HEAD_AT)
        assert later.startswith(found.tail, HEAD_AT + len(found.head) + 4) is begins_alike


@with_sessions
def test_a_session_is_looked_into_from_its_first_wanted_topic_on(exchanges: FetchExchanges, version: int) -> None:
    requests = [
        (0, ("free",)),
        (1, ()),
        (2, ("payments",)),
        (3, ()),
        (4, ("orders",)),
        (5, ()),
        (6, ("free",)),
        (0, ("free",)),
        (1, ()),
    ]
    expected = [False, False, False, False, True, True, True, False, False]
    assert in_turn(exchanges, version, *requests) == expected


@with_sessions
def test_a_session_that_began_elsewhere_may_bring_any_topic(exchanges: FetchExchanges, version: int) -> None:
    assert in_turn(exchanges, version, (5, ()), (6, ("free",)), (7, ())) == [True] * 3


@with_sessions
def test_a_request_without_a_session_says_nothing_about_the_session(exchanges: FetchExchanges, version: int) -> None:
    requests = [(0, ("orders",)), (1, ()), (-1, ("free",)), (2, ()), (-1, ("orders",)), (3, ())]
    assert in_turn(exchanges, version, *requests) == [True, True, False, True, True, True]
    requests = [(0, ("free",)), (1, ()), (-1, ("payments",)), (2, ()), (-1, ("free", "payments")), (3, ())]
    assert in_turn(exchanges, version, *requests) == [False] * 6


@with_sessions
def test_after_a_request_that_is_not_all_there_a_session_may_bring_any_topic(
    exchanges: FetchExchanges, version: int
) -> None:
    client = FakeClient()
    assert in_turn(exchanges, version, (0, ("free",)), (1, ()), client=client) == [False, False]
    frame = fetch_request(version, {"orders": {0: 0}}, epoch=0)
    assert isinstance(exchanges.begin(version, frame[:20], 0, len(frame), client), FetchExchange)
    assert in_turn(exchanges, version, (1, ()), (2, ()), client=client) == [True, True]


@with_sessions
def test_every_continued_session_is_looked_into_where_records_must_not_pass_unseen(version: int) -> None:
    exchanges = fetch_exchanges(Intercepting("Hides"))
    assert in_turn(exchanges, version, (0, ("free",)), (1, ()), (2, ())) == [False, True, True]


@with_sessions
def test_a_session_that_began_under_other_stages_may_bring_any_topic(version: int) -> None:
    client, old = FakeClient(), fetch_exchanges(Intercepting("Reads"))
    assert in_turn(old, version, (0, ("free",)), (1, ()), (2, ()), client=client) == [False] * 3
    new = fetch_exchanges(Intercepting("Reads", topics=("free",)))
    assert in_turn(new, version, (3, ()), (4, ()), client=client) == [True, True]
    assert in_turn(new, version, (0, ("payments",)), (1, ()), client=client) == [False, False]


def test_a_client_does_not_keep_stages_alive() -> None:
    client, exchanges = FakeClient(), fetch_exchanges(Intercepting("Reads"))
    assert in_turn(exchanges, 12, (0, ("orders",)), (1, ()), (0, ("free",)), (-1, ("free",)), client=client)
    assert isinstance(client.fetch_session, FetchSession)
    stage = weakref.ref(exchanges)
    del exchanges
    gc.collect()
    assert stage() is None


def test_a_response_to_a_request_that_is_not_looked_into_passes_as_it_comes(exchanges: FetchExchanges) -> None:
    talk = Dialogue(exchange=lambda key, version: as_begin(exchanges, version))
    talk.client(fetch_request(12, {"free": {0: 0}}))
    chunk = response(7, b"anything: it is not read" * 100)
    assert talk.session.from_broker(chunk) is chunk


def as_begin(exchanges: FetchExchanges, version: int) -> Begin:
    return lambda data, at, size, client: exchanges.begin(version, data, at, size, client)


Turn = st.tuples(
    st.sampled_from(["begin", "continue", "continue", "alone", "reload"]), st.sets(st.sampled_from(NAMES), max_size=2)
)


@settings(max_examples=settings().max_examples // 4)
@given(st.sampled_from(range(7, 19)), st.lists(Turn, max_size=12), st.lists(st.integers(0, 500), max_size=4))
def test_only_wanted_topics_are_changed_on_a_connection_through_sessions_and_reloads(
    version: int, turns: list[tuple[str, set[str]]], cuts: list[int]
) -> None:
    current = fetch_exchanges(Intercepting("Reads"))
    talk = Dialogue(exchange=lambda key, version: as_begin(current, version))
    wanted, session, epoch = {"orders"}, set[str](), 0
    for what, names in turns:
        if what == "reload":
            wanted = names or {"orders"}
            current = fetch_exchanges(Intercepting("Reads", topics=tuple(wanted)))
            talk.routes.forget()
            continue
        here = -1
        if what == "begin" or (what == "continue" and epoch):
            session, here = (names, 0) if what == "begin" else (session | names, epoch)
            epoch = here + 1
        talk.client(*pieces(fetch_request(version, {name: {0: 0} for name in sorted(names)}, epoch=here), cuts))
        fetched = sorted(names if here < 0 else session)
        talk.broker(*pieces(fetch_response(version, {name: {0: batch("edit")} for name in fetched}), cuts))
        new = {name: {0: batch("edited" if name in wanted else "edit")} for name in fetched}
        assert (talk.cause, talk.to_client) == (None, fetch_response(version, new))
        talk.to_client = b""


@pytest.mark.parametrize("version", [16, 17, 18])
def test_brokers_are_renamed_in_a_long_response_that_is_changed(version: int) -> None:
    """Another partition has moved (KIP-951); such a response is long enough to leave in pieces."""
    exchanges, kept = fetch_exchanges(Intercepting("Reads")), batch("keep" * (MIN_BYTES // 4))
    talk = Dialogue(exchange=lambda key, version: as_begin(exchanges, version))
    talk.client(fetch_request(version, {"orders": {0: 0}, "free": {0: 0, 1: 0}}))
    moved = {"records": b"", "error_code": 6, "current_leader": {"leader_id": 10, "leader_epoch": 9}}
    topics: dict[str, dict[int, Any]] = {"orders": {0: batch("edit")}, "free": {0: kept, 1: moved}}
    talk.broker(fetch_response(version, topics, node_endpoints=[broker(10)]))
    while talk.needs:
        (need,) = talk.needs
        assert isinstance(need, Work)
        talk.meet(need.run())
    assert talk.cause is None
    _, message = oracle.read_response(ApiKey.FETCH, version, talk.to_client)
    assert [(node.node_id, node.host) for node in message.node_endpoints] == [(10, HOST)]
    assert DOMAIN not in talk.to_client
    assert batch("edited") in talk.to_client
