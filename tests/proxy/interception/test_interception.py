"""Which requests are intercepted, and by whom, also while fetch sessions go on and files are read anew."""

from __future__ import annotations

import gc
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle
from support.client import Somebody, in_hand
from support.dialogue import Dialogue, pieces, request, response
from support.fake_broker import FakeBroker
from support.in_process import config, connected, port_of, serving
from support.interception import Opened, fetched
from support.produce_requests import GOOD, VERSIONS, asked, batch, said, stored, stores, topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.loading import Config, ConfigError
from kafka_sidecar.proxy.interception.commits import InterceptedCommit
from kafka_sidecar.proxy.interception.fetch import InterceptedFetch
from kafka_sidecar.proxy.interception.interception import Interception
from kafka_sidecar.proxy.interception.produce import InterceptedProduce
from kafka_sidecar.proxy.nodes.topic_names import TopicNames
from kafka_sidecar.proxy.relay.exchange import Exchange, RouteError

NAMES = ("orders", "payments", "free", "other")
ON_ORDERS = [{"type": f"support.interception:{kind}", "topics": ["orders"]} for kind in ("Adds", "Reads")]
FEWER = settings(max_examples=settings().max_examples // 4)
each_produce = pytest.mark.parametrize("version", VERSIONS)
each_fetch = pytest.mark.parametrize("version", range(4, 19))
with_sessions = pytest.mark.parametrize("version", range(7, 19))


async def nobody(_: Collection[Any]) -> Mapping[Any, Any]:
    raise OSError("nobody to ask")


def started(*interceptors: Mapping[str, Any], **settings: Any) -> Interception:
    names = TopicNames(nobody)
    names.remember((topic_id(name), name) for name in NAMES)
    made = Interception(names, nobody)
    load(made, *(interceptors or ON_ORDERS), **settings)
    return made


def load(made: Interception, *interceptors: Mapping[str, Any], **settings: Any) -> None:
    made.loaded(configured(*interceptors, **settings))()


def configured(*interceptors: Mapping[str, Any], **settings: Any) -> Config:
    given: dict[str, Any] = {**settings, "interceptors": list(interceptors)}
    return config("a:1", **given)


def begun(made: Interception, key: int, version: int, frame: bytes, client: Somebody | None = None) -> Exchange | None:
    begin = made.exchange(key, version, None)
    return in_hand(begin(b"before" + frame, 6, len(frame), client or Somebody())) if begin is not None else None


def fetching(version: int, *topics: str, epoch: int = -1, session: int = 9, client_id: str = "app") -> bytes:
    data = [{"topic": name, "topic_id": topic_id(name), "partitions": [{"partition": 0}]} for name in topics]
    entity = oracle.request(ApiKey.FETCH, version, replica_id=-1, session_id=session, session_epoch=epoch, topics=data)
    return oracle.request_frame(entity, 7, client_id)


# Produce


@each_produce
def test_a_produce_for_one_topic_that_nobody_wants_is_not_taken_in_hand(version: int) -> None:
    made = started()
    assert begun(made, ApiKey.PRODUCE, version, asked(version, {"free": {0: GOOD, 1: GOOD}})) is None
    for topics in ({"orders": {0: GOOD}}, {"free": {0: GOOD}, "orders": {0: GOOD}}):
        assert isinstance(begun(made, ApiKey.PRODUCE, version, asked(version, topics)), InterceptedProduce)


@each_produce
def test_what_was_not_wanted_before_is_not_mistaken_for_what_is(version: int) -> None:
    made, client = started(), Somebody()

    def wanted(*topics: str, acks: int = -1) -> bool:
        frame = asked(version, {name: {0: GOOD} for name in topics}, acks)
        return begun(made, ApiKey.PRODUCE, version, frame, client) is not None

    for _ in range(2):
        assert not wanted("free")
        assert wanted("orders")
        assert wanted("free", "orders")
        assert not wanted("free", acks=1)
        assert wanted("orders", acks=1)
        assert not wanted("other")


@FEWER
@given(
    st.sampled_from(VERSIONS),
    st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True), min_size=1, max_size=8),
    st.lists(st.integers(0, 5000), max_size=8),
)
def test_on_a_connection_just_the_requests_with_a_wanted_topic_are_changed_however_they_are_cut(
    version: int, requests: list[list[str]], cuts: list[int]
) -> None:
    made = started(ON_ORDERS[0])
    talk = Dialogue(exchange=lambda key, version: made.exchange(key, version, None))
    frames = [asked(version, {name: {0: batch("a" * 9)} for name in names}) for names in requests]
    talk.client(*pieces(b"".join(frames), cuts))
    assert talk.cause is None
    (adds,) = Opened.opened[-1:]
    count = sum("orders" in names for names in requests)
    while talk.session.taken_requests.held is not None:
        made._around.pace.spent_s = 0.0  # others have had their turn
        talk.request_decided()
    assert len(adds.values) == count
    assert talk.to_broker.count(b"added") == count
    for names in requests:
        talk.broker(stored(version, {name: {0: 3} for name in names}))
    assert talk.cause is None
    assert [metadata.offset for metadata, _ in adds.told] == [3] * count


def test_the_bytes_of_a_request_that_nobody_wants_are_the_very_chunk_and_leave_as_they_come() -> None:
    made = started()
    talk = Dialogue(exchange=lambda key, version: made.exchange(key, version, None))
    frame = asked(9, {"free": {0: batch("x" * 5000)}})
    assert talk.session.from_client(frame) is frame
    assert talk.session.from_client(frame[:2000]) == frame[:2000]
    assert talk.session.taken_requests.in_hand == 0


def test_no_records_are_kept_to_know_requests_again_that_nobody_wants() -> None:
    made = started()
    talk = Dialogue(exchange=lambda key, version: made.exchange(key, version, None))
    frame = asked(9, {"free": {0: batch("x" * 5000)}, "other": {0: batch("y" * 5000)}})
    for _ in range(2):
        assert talk.session.from_client(frame) is frame
    assert sum(len(head) for _, head in talk.session._passing.values()) < 200


def test_the_bytes_of_a_response_that_nobody_wants_are_the_very_chunk() -> None:
    made = started()
    talk = Dialogue(exchange=lambda key, version: made.exchange(key, version, None))
    talk.client(fetching(12, "free"))
    answer = response(7, b"anything: nobody reads it" * 100)
    assert talk.session.from_broker(answer) is answer


def test_who_validates_a_request_that_nobody_intercepts_has_it_alone() -> None:
    made, inner = started(), object()

    def begin(*_: object) -> Any:
        return inner

    for topic, alone in (("free", True), ("orders", False)):
        frame = asked(9, {topic: {0: GOOD}})
        outer = made.exchange(ApiKey.PRODUCE, 9, begin)
        assert outer is not None
        for _ in range(2):
            assert (outer(frame, 0, len(frame), Somebody()) is inner) is alone


def test_apis_that_nobody_intercepts_are_left_to_who_has_them() -> None:
    made = started()

    def begin(*_: object) -> None:
        return None

    assert made.exchange(ApiKey.METADATA, 9, begin) is begin
    assert made.exchange(ApiKey.OFFSET_COMMIT, 1, begin) is begin
    assert made.exchange(ApiKey.HEARTBEAT, 1, None) is None


def test_without_an_interceptor_of_its_kind_nothing_is_taken_in_hand() -> None:
    made = started({"type": "support.interception:Listens"})
    assert begun(made, ApiKey.FETCH, 12, fetching(12, "orders")) is None
    assert begun(made, ApiKey.FETCH, 3, request(ApiKey.FETCH, 3, 1)) is None
    assert begun(made, ApiKey.OFFSET_COMMIT, 8, request(ApiKey.OFFSET_COMMIT, 8, 1)) is None
    assert begun(made, ApiKey.PRODUCE, 9, asked(9, {"orders": {0: GOOD}})) is not None
    made = started({"type": "support.interception:Commits"})
    assert begun(made, ApiKey.PRODUCE, 9, asked(9, {"orders": {0: GOOD}})) is None
    assert begun(made, ApiKey.FETCH, 12, fetching(12, "orders")) is None
    for key, version in ((ApiKey.OFFSET_COMMIT, 8), (ApiKey.TXN_OFFSET_COMMIT, 3)):
        assert isinstance(begun(made, key, version, request(key, version, 1)), InterceptedCommit)


# Fetch


@each_fetch
def test_a_fetch_of_topics_that_nobody_wants_is_not_taken_in_hand(version: int) -> None:
    made = started()
    for _ in range(2):
        for names, wanted in ((("free",), False), (("free", "other"), False), (("free", "orders"), True)):
            client = Somebody()
            for _ in range(2):
                hand = begun(made, ApiKey.FETCH, version, fetching(version, *names), client)
                assert isinstance(hand, InterceptedFetch) is wanted


@pytest.mark.parametrize("version", range(4))
def test_a_fetch_that_is_too_old_to_be_read_is_refused(version: int) -> None:
    with pytest.raises(RouteError, match=f"Fetch version {version} is not relayed where interceptors"):
        begun(started(), ApiKey.FETCH, version, request(ApiKey.FETCH, version, 1))


@pytest.mark.parametrize("version", range(13, 19))
def test_a_fetch_of_an_id_that_is_not_known_is_taken_in_hand(version: int) -> None:
    assert begun(started(), ApiKey.FETCH, version, fetching(version, "who")) is not None


def asked_in_turn(
    made: Interception, client: Somebody, version: int, *requests: tuple[int, tuple[str, ...]]
) -> list[bool]:
    return [
        begun(made, ApiKey.FETCH, version, fetching(version, *names, epoch=epoch), client) is not None
        for epoch, names in requests
    ]


@with_sessions
def test_a_session_without_a_wanted_topic_is_not_taken_in_hand_until_it_wants_one(version: int) -> None:
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
    got = asked_in_turn(started(), Somebody(), version, *turns)
    assert got == [False, False, False, False, True, True, True, False, False]


@with_sessions
def test_a_session_that_was_begun_elsewhere_may_bring_anything(version: int) -> None:
    assert asked_in_turn(started(), Somebody(), version, (5, ()), (6, ("free",)), (7, ())) == [True] * 3


@with_sessions
def test_a_request_beside_the_session_says_nothing_about_it(version: int) -> None:
    turns = [(0, ("orders",)), (1, ()), (-1, ("free",)), (2, ()), (-1, ("orders",)), (3, ())]
    assert asked_in_turn(started(), Somebody(), version, *turns) == [True, True, False, True, True, True]
    turns = [(0, ("free",)), (1, ()), (-1, ("other",)), (2, ()), (-1, ("free", "other")), (3, ())]
    assert asked_in_turn(started(), Somebody(), version, *turns) == [False] * 6


@with_sessions
def test_after_a_request_that_is_not_all_here_a_session_may_bring_anything(version: int) -> None:
    made, client = started(), Somebody()
    assert asked_in_turn(made, client, version, (0, ("free",)), (1, ())) == [False, False]
    begin = made.exchange(ApiKey.FETCH, version, None)
    assert begin is not None
    frame = fetching(version, "orders", epoch=0)
    assert begin(frame[:20], 0, len(frame), client) is not None
    assert asked_in_turn(made, client, version, (1, ()), (2, ())) == [True, True]


@with_sessions
def test_where_something_is_hidden_no_session_goes_on_unseen(version: int) -> None:
    made = started({"type": "support.interception:Hides", "topics": ["orders"]})
    assert asked_in_turn(made, Somebody(), version, (0, ("free",)), (1, ()), (2, ())) == [False, True, True]


@with_sessions
def test_a_session_goes_on_while_interceptors_change(version: int) -> None:
    made, client = started(), Somebody()
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
    talk = Dialogue(exchange=lambda key, version: made.exchange(key, version, None))
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
        talk.broker(*pieces(fetched(version, {name: {0: batch("edit")} for name in answered}), cuts))
        while talk.session.taken_responses.held is not None:
            made._around.pace.spent_s = 0.0  # others have had their turn
            talk.response_decided()
        new = {name: {0: batch("edited" if name in wanted else "edit")} for name in answered}
        assert (talk.cause, talk.to_client) == (None, fetched(version, new))
        talk.to_client = b""


# Configurations


def test_a_request_that_has_begun_is_intercepted_by_those_that_were_in_force_and_they_are_closed_after_it() -> None:
    made = started(ON_ORDERS[0])
    old = Opened.opened[-1]
    frame = asked(9, {"orders": {0: batch("a")}})
    hand = begun(made, ApiKey.PRODUCE, 9, frame)
    assert hand is not None
    load(made)
    assert begun(made, ApiKey.PRODUCE, 9, frame) is None
    gc.collect()
    assert old.closed == 0
    assert b"added" in bytes(hand.request(frame))  # type: ignore[arg-type]
    hand.response(stored(9, {"orders": {0: 1}}))
    assert len(old.told) == 1
    del hand
    gc.collect()
    assert old.closed == 1


def test_a_connection_that_stays_does_not_keep_interceptors_that_are_no_longer_in_force() -> None:
    made, client = started(), Somebody()
    old = Opened.opened[-1]
    for frame in (
        fetching(12, "orders", epoch=0),
        fetching(12, epoch=1),
        fetching(12, "free", epoch=0),
        fetching(12, "free"),
    ):
        begun(made, ApiKey.FETCH, 12, frame, client)
    begun(made, ApiKey.PRODUCE, 9, asked(9, {"free": {0: GOOD}}), client)
    load(made)
    gc.collect()
    assert old.closed == 1


def test_interceptors_that_do_not_change_stay_with_all_that_they_know() -> None:
    made = started()
    before = made.catalog.guards
    load(made, *ON_ORDERS, {"type": "support.interception:Commits"})
    assert made.catalog.guards[:2] == before
    assert made.observed.guards == made.catalog.guards


def test_what_others_have_hidden_is_asked_for_again_once_they_are_no_longer_in_force() -> None:
    made, client = started(), Somebody(client_id="go", client_software=None)
    frame = fetching(10, "orders", client_id="go")

    def read(answer: bytes | None = None) -> bool:
        """Whether the request goes to the broker as it is."""
        hand = begun(made, ApiKey.FETCH, 10, frame, client)
        assert hand is not None
        unchanged = hand.request(frame) is frame
        if answer is not None:
            hand.response(answer)
        return unchanged

    assert read(fetched(10, {"orders": {0: batch("drop")}}))
    load(made, *ON_ORDERS, validation={"max_batch": "1MiB"})
    assert not read()
    load(made, {**ON_ORDERS[1], "name": "another"})
    assert read()


def test_a_configuration_that_is_wrong_leaves_the_old_one_in_force() -> None:
    made = started()
    before = made.catalog
    with pytest.raises(ConfigError, match="interceptors: interceptor unheard_of"):
        made.loaded(configured({"type": "unheard_of"}))
    put_in_force = made.loaded(config("a:1"))
    assert made.catalog is before
    put_in_force()
    assert made.catalog.guards == ()


def test_limits_are_read_again() -> None:
    made = started(interception={"message_max_bytes": "1KiB"})
    frame = asked(9, {"orders": {0: batch("larger")}})

    def out() -> bool:
        hand = begun(made, ApiKey.PRODUCE, 9, frame)
        assert hand is not None
        return hand.request(frame) is frame

    assert out()
    load(made, *ON_ORDERS, interception={"message_max_bytes": "1MiB"})
    assert not out()
    load(made, *ON_ORDERS, validation={"max_batch": "1KiB"})
    frame = asked(9, {"orders": {0: batch("x" * 2000, codec=1)}})
    assert out()


def produced(broker: FakeBroker) -> bytes:
    """The last request to write something."""
    return next(one.frame for one in reversed(broker.requests) if one.key == ApiKey.PRODUCE)


async def test_interception_begins_and_ends_with_what_the_file_says_and_no_connection_is_dropped() -> None:
    async with FakeBroker() as broker, serving(broker) as server, connected(port_of(server)) as client:
        broker.answers[ApiKey.PRODUCE] = stores
        frame = asked(9, {"orders": {0: batch("a")}})

        async def added() -> bool:
            await client.ask(frame)
            return b"added" in produced(broker)

        assert server.interception is None
        assert not await added()
        given: dict[str, Any] = {"interceptors": ON_ORDERS}
        server.apply(config(broker, **given))
        assert await added()
        adds = Opened.opened[-2]
        assert len(adds.told) == 1
        server.apply(config(broker))
        assert not await added()


@pytest.mark.parametrize(
    "wrong",
    [
        {"topics": [{"name": "orders", "policy": "unheard_of"}], "interceptors": []},
        {"topics": [], "interceptors": [{"type": "unheard_of"}]},
    ],
)
async def test_of_a_file_that_is_wrong_nothing_is_put_in_force_neither_policies_nor_interceptors(
    wrong: dict[str, Any],
) -> None:
    right = {"policies": {"told": {"type": "support.policies:Told"}}, "topics": [{"name": "orders", "policy": "told"}]}
    async with (
        FakeBroker() as broker,
        serving(broker, **right, interceptors=ON_ORDERS) as server,
        connected(port_of(server)) as client,
    ):
        broker.answers[ApiKey.PRODUCE] = stores
        adds = Opened.opened[-2]
        with pytest.raises(ConfigError):
            server.apply(config(broker, **{**right, **wrong}))
        gc.collect()
        assert adds.closed == 0
        frame = asked(9, {"orders": {0: batch("a"), 1: batch("bad")}})
        assert said(9, await client.ask(frame)) == [("orders", 0, 0, 0), ("orders", 1, 87, -1)]
        assert b"added" in produced(broker)
        assert len(adds.told) == 2
