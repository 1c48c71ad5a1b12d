"""Elements of a request that are rejected one by one: every one has its result, at its place."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest
from kafka_sidecar.codec.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest
from kafka_sidecar.proxy.exchanges.elements import CREATE_TOPICS, DELETE_TOPICS
from kafka_sidecar.proxy.exchanges.messages import Rejection

WHY = Rejection(44, "no")
INVALID_REQUEST = 42
NAMES = st.lists(st.tuples(st.text("ab", min_size=1, max_size=2), st.booleans()), max_size=8)


def created(names: list[str]) -> CreateTopicsRequest:
    topics = (CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names)
    return CreateTopicsRequest(topics=tuple(topics))


def once(asked: list[tuple[str, bool]]) -> dict[str, int | None]:
    """Names in their order, with the error of ours. One that is rejected and named twice has its result once."""
    names = [name for name, _ in asked]
    rejected = {name for name, is_rejected in asked if is_rejected}
    return {name: (INVALID_REQUEST if names.count(name) > 1 else 44) if name in rejected else None for name in names}


@given(NAMES, st.integers(0, 99))
def test_results_of_brokers_and_ours_keep_the_order_of_the_request(asked: list[tuple[str, bool]], seed: int) -> None:
    names, codes = [name for name, _ in asked], once(asked)
    cut = CREATE_TOPICS.cut(created(names), [WHY if is_rejected else None for _, is_rejected in asked])
    assert [topic.name for topic in cut.request.topics] == [name for name in names if codes[name] is None]
    of_broker = [CreatableTopicResult(name=topic.name, configs=()) for topic in cut.request.topics]
    if cut.rejected:  # otherwise the broker's order is the client's
        random.Random(seed).shuffle(of_broker)
    results = cut.complete(of_broker)
    assert [one.name for one in results if codes[one.name] is not None] == [
        name for name, code in codes.items() if code is not None
    ]
    assert [one.name for one in results if codes[one.name] is None] == [name for name in names if codes[name] is None]
    assert all(one.error_code == (codes[one.name] or 0) for one in results)


@given(NAMES)
def test_a_request_is_answered_where_all_of_it_is_rejected_and_unchanged_where_nothing_is(
    asked: list[tuple[str, bool]],
) -> None:
    request, codes = created([name for name, _ in asked]), once(asked)
    cut = CREATE_TOPICS.cut(request, [WHY if is_rejected else None for _, is_rejected in asked])
    assert (cut.answer is not None) == (bool(asked) and None not in codes.values())
    assert (cut.request is request) == (set(codes.values()) <= {None})
    if cut.answer is not None:
        assert [topic.name for topic in cut.answer.topics] == list(codes)  # type: ignore[attr-defined]


def test_what_a_broker_adds_is_kept_and_one_result_for_two_elements_stays_one() -> None:
    cut = CREATE_TOPICS.cut(created(["a", "b", "b", "c"]), [WHY, None, None, None])
    of_broker = [CreatableTopicResult(name=name, configs=()) for name in ("c", "new", "b")]
    assert [one.name for one in cut.complete(of_broker)] == ["a", "b", "c", "new"]


def test_where_brokers_give_results_in_any_order_ours_come_last() -> None:
    cut = DELETE_TOPICS.cut(DeleteTopicsRequest(topic_names=("a", "b", "c")), [WHY, None, None])
    results = cut.complete([DeletableTopicResult(name="c"), DeletableTopicResult(name="b")])
    assert [getattr(one, "name", None) for one in results] == ["c", "b", "a"]
