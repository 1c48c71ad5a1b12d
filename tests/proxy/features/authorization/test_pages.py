"""Pages of DescribeTopicPartitions name no topic that may not be described, and are as full as a broker's. By kio."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.authorization import TOPIC_DENIED, Site

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import decode_request
from kafka_sidecar.codec.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafka_sidecar.plugins.effects import Work
from kafka_sidecar.proxy.config.sections import AclRule
from kafka_sidecar.proxy.features.authorization.descriptions import PAGE
from kafka_sidecar.proxy.relay.exchange import Respond, Send

KEY = ApiKey.DESCRIBE_TOPIC_PARTITIONS
Topics = list[tuple[str, int]]  # names, in order, and numbers of partitions
Place = tuple[str, int] | None


def site() -> Site:
    return Site(rules=[AclRule(principals=["User:alice"], topics=["a-*", "open"], operations=["describe"])])


def page(topics: Topics, start: Place, limit: int, named: bool = False) -> tuple[Topics, Place]:
    """What a broker answers: the partitions of topics from a place on, at most so many, and where the rest begins."""
    found, left = list[tuple[str, int]](), limit
    for name, count in topics:
        if start is not None and name < start[0]:
            continue
        first = start[1] if start is not None and name == start[0] else 0
        if not left:
            return found, (name, first)
        taken = min(left, count - first)
        found.append((name, taken))
        left -= taken
        if first + taken < count:
            return found, (name, first + taken)
    return found, None


def asked(limit: int, start: Place = None, *names: str) -> bytes:
    cursor = {"topic_name": start[0], "partition_index": start[1]} if start is not None else None
    entity = oracle.request(
        KEY, 0, response_partition_limit=limit, cursor=cursor, topics=[{"name": name} for name in names]
    )
    return oracle.request_frame(entity, 5)


def answered(topics: Topics, start: Place, limit: int, number: int = 5) -> bytes:
    found, rest = page(topics, start, limit)
    first = {start[0]: start[1]} if start is not None else {}
    entity = oracle.response(
        KEY, 0,
        topics=[
            {"name": name, "partitions": [{"partition_index": first.get(name, 0) + at} for at in range(count)]}
            for name, count in found
        ],
        next_cursor={"topic_name": rest[0], "partition_index": rest[1]} if rest is not None else None,
    )  # fmt: skip
    return oracle.response_frame(entity, number)


def seen(topics: Topics, limit: int, start: Place = None) -> tuple[Topics, Place, int]:
    """What alice gets, and how often the broker was asked."""
    exchange, times = site().exchange(KEY, 0), 1
    exchange.request(asked(limit, start))
    step = exchange.response(answered(topics, start, limit))
    while isinstance(step, Send | Work):
        if isinstance(step, Work):
            step = exchange.answer(step.run())
            continue
        times += 1
        (frame,) = step.frames
        request = decode_request(DescribeTopicPartitionsRequest, frame)[1].message
        assert request.cursor is not None
        assert request.response_partition_limit == PAGE
        at = request.cursor.topic_name, request.cursor.partition_index
        step = exchange.answer((answered(topics, at, PAGE, 0),))
    assert isinstance(step, bytes)
    _, response = oracle.read_response(KEY, 0, step)
    cursor = response.next_cursor
    rest = (cursor.topic_name, cursor.partition_index) if cursor is not None else None
    return [(one.name, len(one.partitions)) for one in response.topics], rest, times


def test_a_cursor_at_a_hidden_topic_is_one_at_the_next_that_is_not() -> None:
    topics = [("a-1", 1), ("secret", 3)]
    assert seen(topics, 1) == ([("a-1", 1)], None, 2)
    assert seen([*topics, *((f"secret-{at:05}", 1) for at in range(2 * PAGE)), ("t", 1)], 1) == ([("a-1", 1)], None, 4)
    assert seen([("0", 1), ("a-1", 1), ("b", 1), ("open", 2)], 1) == ([("a-1", 1)], ("open", 0), 2)


def test_a_page_without_a_hidden_topic_is_asked_for_once() -> None:
    assert seen([("a-1", 2), ("a-2", 2)], 3) == ([("a-1", 2), ("a-2", 1)], ("a-2", 1), 1)
    assert seen([("a-1", 2), ("open", 2)], 9) == ([("a-1", 2), ("open", 2)], None, 1)


NAMES = st.lists(
    st.tuples(st.sampled_from(["a-1", "a-2", "a-3", "b", "c", "open", "p", "z"]), st.integers(1, 4)),
    unique_by=lambda one: one[0],
).map(sorted)


@given(NAMES, st.integers(1, 6))
def test_the_pages_of_a_client_are_those_of_a_broker_that_has_its_topics_alone(topics: Topics, limit: int) -> None:
    shown = [(name, count) for name, count in topics if name.startswith("a-") or name == "open"]
    start: Place = None
    total = dict[str, int]()
    for _ in range(100):
        if start is None and total:
            break
        found, rest, _ = seen(topics, limit, start)
        full = min(limit, sum(count for _, count in page(topics, start, limit)[0]) or limit)
        assert (found, rest) == page(shown, start, full)
        for name, count in found:
            total[name] = total.get(name, 0) + count
        start = rest
        if start is None:
            break
    assert total == dict(shown)


def test_a_broker_that_never_ends_is_asked_no_more() -> None:
    exchange = site().exchange(KEY, 0)
    exchange.request(asked(1))
    again = oracle.response_frame(
        oracle.response(KEY, 0, topics=[], next_cursor={"topic_name": "secret", "partition_index": 0}), 0
    )
    assert isinstance(exchange.response(again), Send)
    step = exchange.answer((again,))
    assert isinstance(step, bytes)
    assert oracle.read_response(KEY, 0, step)[1].next_cursor is None


def test_a_page_has_the_denied_topics_from_its_cursor_on() -> None:
    """As a broker with the same rules; the cursor may be at one, after a reload."""
    for start, sent, denied in (
        (("b", 0), ("open", 0), ["b", "c"]),
        (("b", 7), ("open", 0), ["b", "c"]),
        (("open", 1), ("open", 1), []),
        (("a-1", 0), ("a-1", 0), ["b", "c"]),
    ):
        exchange = site().exchange(KEY, 0)
        assert exchange.request(asked(9, start, "c", "open", "b", "a-1")) == asked(9, sent, "open", "a-1")
        step = exchange.response(answered([("open", 2)], None, 9))
        assert isinstance(step, bytes)
        found = {one.name: int(one.error_code) for one in oracle.read_response(KEY, 0, step)[1].topics}
        assert found == {"open": 0, **dict.fromkeys(denied, TOPIC_DENIED)}


def test_a_page_of_denied_topics_alone_is_answered_here() -> None:
    for names in (["b", "c", "z"], ["a-1", "b", "c", "z"]):
        step = site().exchange(KEY, 0).request(asked(9, ("c", 0), *names))
        assert isinstance(step, Respond)
        _, response = oracle.read_response(KEY, 0, step.frame)
        assert {one.name: int(one.error_code) for one in response.topics} == dict.fromkeys("cz", TOPIC_DENIED)
        assert response.next_cursor is None


def test_a_cursor_at_a_topic_that_is_not_named_is_an_error_of_all() -> None:
    step = site().exchange(KEY, 0).request(asked(9, ("open", 0), "z", "b"))
    assert isinstance(step, Respond)
    _, response = oracle.read_response(KEY, 0, step.frame)
    assert {one.name: int(one.error_code) for one in response.topics} == {"z": 42, "b": 42}


def test_topics_that_are_named_and_denied_come_last() -> None:
    exchange = site().exchange(KEY, 0)
    assert exchange.request(asked(9, None, "secret", "open")) == asked(9, None, "open")
    step = exchange.response(answered([("open", 1)], None, 9))
    assert isinstance(step, bytes)
    topics = oracle.read_response(KEY, 0, step)[1].topics
    assert [(one.name, int(one.error_code)) for one in topics] == [("open", 0), ("secret", TOPIC_DENIED)]
