"""What a Produce request is held for: names, configs, what policies fetch, a thread, a turn for others."""

from __future__ import annotations

import asyncio
import threading
from base64 import b64encode
from random import Random

import pytest
from support.produce_requests import (
    BAD,
    FIRST_WITH_IDS,
    GOOD,
    INVALID_RECORD,
    UNKNOWN_TOPIC_ID,
    Judging,
    asked,
    batch,
    judging,
    said,
    stored,
    topic_id,
)

from kafka_sidecar.proxy.relay.exchange import Answer, Hold
from kafka_sidecar.proxy.runtime import loop_budget
from kafka_sidecar.proxy.runtime.threads import INFLATED_AT_ONCE, OFFLOADED
from kafka_sidecar.proxy.validation.rules import TopicRule


async def test_an_id_that_is_not_known_is_asked_for_and_then_its_topics_rules_hold() -> None:
    judge = judging()
    judge.hidden = {"orders-2"}
    judge.rules, judge.policy = Judging(TopicRule("orders-2", "told", "enforce", 100)).rules, judge.policy
    topics = {"orders-2": {0: BAD, 1: GOOD}}
    exchange, step = await judge.waited(FIRST_WITH_IDS, topics)
    assert step == asked(FIRST_WITH_IDS, {"orders-2": {1: GOOD}})
    assert judge.asked_for == [topic_id("orders-2")]
    out = exchange.response(stored(FIRST_WITH_IDS, {"orders-2": {1: 5}}))
    assert said(FIRST_WITH_IDS, out) == [("orders-2", 0, INVALID_RECORD, -1), ("orders-2", 1, 0, 5)]


@pytest.mark.parametrize("cluster_answers", [True, False])
async def test_an_id_that_the_cluster_does_not_know_is_answered_as_a_broker_does(cluster_answers: bool) -> None:
    judge = judging()
    judge.cluster_answers = cluster_answers
    topics = {"who": {0: GOOD, 1: GOOD}, "orders": {0: GOOD}}
    exchange, step = await judge.waited(FIRST_WITH_IDS, topics)
    assert step == asked(FIRST_WITH_IDS, {"orders": {0: GOOD}})
    out = exchange.response(stored(FIRST_WITH_IDS, {"orders": {0: 5}}))
    assert said(FIRST_WITH_IDS, out)[:2] == [("who", at, UNKNOWN_TOPIC_ID, -1) for at in (0, 1)]


async def test_ids_without_partitions_are_not_asked_for() -> None:
    judge = judging()
    frame = asked(FIRST_WITH_IDS, {"who": {}, "orders": {0: GOOD}})
    _, step = await judge.waited(FIRST_WITH_IDS, {"who": {}, "orders": {0: GOOD}})
    assert (step, judge.asked_for) == (frame, [])


async def test_all_unknown_ids_of_a_request_are_asked_for_at_once() -> None:
    judge = judging()
    judge.hidden = {"a", "b"}
    _, step = await judge.waited(FIRST_WITH_IDS, {"a": {0: BAD}, "who": {0: BAD}, "b": {0: BAD}})
    assert step == asked(FIRST_WITH_IDS, {"a": {0: BAD}, "b": {0: BAD}})
    assert judge.waits == 1
    assert sorted(judge.asked_for) == sorted(topic_id(name) for name in ("a", "b", "who"))


async def test_the_zero_id_is_refused_as_unknown_without_a_question() -> None:
    judge = judging()
    frame = asked(FIRST_WITH_IDS, {"who": {0: GOOD}}).replace(topic_id("who"), bytes(16))
    step = judge.exchange(FIRST_WITH_IDS).request(frame)
    while isinstance(step, Hold):
        await step.wait()
        step = step.then()
    assert isinstance(step, Answer)
    assert b"the topic's id is not known here" in step.frame
    assert judge.asked_for == []


async def test_what_a_policy_waits_for_is_fetched_and_the_batch_judged_again() -> None:
    judge = judging()
    _, step = await judge.waited(9, {"orders": {0: batch("ask a", "bad", "ask b"), 1: batch("ask a")}})
    assert judge.policy.asked == [b"a", b"b"]
    assert judge.waits == 2
    assert step == asked(9, {"orders": {1: batch("ask a")}})
    assert judge.observed.refusals == {("orders", "told", "enforce", "bad"): 1}


@pytest.mark.parametrize("key", ["nobody", "in vain"])
async def test_what_cannot_be_fetched_is_the_policys_failure(key: str) -> None:
    judge = judging()
    _, step = await judge.waited(9, {"orders": {0: batch(f"ask {key}"), 1: GOOD}})
    assert step == asked(9, {"orders": {1: GOOD}})
    assert (judge.waits, judge.policy.asked) == (1, [key.encode()])
    assert judge.observed.failures == {("told", "enforce"): 1}


async def test_what_cannot_be_fetched_lets_pass_where_the_operator_wants_that() -> None:
    judge = judging(fail_open=True)
    _, step = await judge.waited(9, {"orders": {0: batch("ask nobody")}})
    assert step == asked(9, {"orders": {0: batch("ask nobody")}})


@pytest.mark.parametrize(("codec", "large"), list(OFFLOADED.items()))
async def test_large_batches_are_judged_in_a_thread(codec: int, large: int) -> None:
    judge = judging(limit=100 << 20)
    for size, elsewhere in ((large // 2, False), (large * 3 // 2, True)):
        records = batch("good", b64encode(Random(1).randbytes(size)).decode()[:size], "bad", codec=codec)
        judge.policy.threads.clear()
        _, step = await judge.waited(9, {"orders": {0: records}})
        assert isinstance(step, Answer)
        assert (threading.get_ident() not in judge.policy.threads) is elsewhere


async def test_a_small_batch_that_inflates_to_much_is_judged_in_a_thread() -> None:
    judge = judging(limit=100 << 20)
    _, step = judge.judged(9, {"orders": {0: batch("x" * (INFLATED_AT_ONCE - 100), codec=4)}})
    assert isinstance(step, bytes)
    _, step = await judge.waited(9, {"orders": {0: batch("x" * INFLATED_AT_ONCE, codec=4), 1: batch("bad")}})
    assert judge.waits == 1
    assert step == asked(9, {"orders": {0: batch("x" * INFLATED_AT_ONCE, codec=4)}})
    assert judge.observed.batches == {"contents": 3}


@pytest.mark.parametrize(("records", "waits"), [(1000, 0), (1001, 1)])
async def test_many_records_for_a_policy_that_judges_one_by_one_are_judged_in_a_thread(
    records: int, waits: int
) -> None:
    judge = judging()
    _, step = await judge.waited(9, {"orders": {0: batch(*["good"] * records)}})
    assert isinstance(step, bytes)
    assert judge.waits == waits


async def test_after_some_milliseconds_of_judging_all_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_budget, "LONGEST_TURN_S", 0.01)
    judge, turns = judging(), 0
    judge.around.pace.spent_s = 0.02  # of other connections

    def turn() -> None:
        nonlocal turns
        turns += 1

    frame = asked(9, {"orders": {0: GOOD}})
    step = judge.exchange(9).request(frame)
    assert isinstance(step, Hold)
    asyncio.get_running_loop().call_soon(turn)
    await step.wait()
    assert turns == 1
    assert step.then() is frame
    assert 0 < judge.around.pace.spent_s < 0.01


async def test_a_large_batch_of_which_only_the_header_is_needed_is_judged_at_once() -> None:
    judge = judging(TopicRule("orders", "headers:never", "enforce", 100))
    _, step = judge.judged(9, {"orders": {0: batch("x" * (2 << 20))}})
    assert isinstance(step, Answer)
    assert judge.observed.batches == {"header": 1}


async def test_topic_configs_that_are_not_read_yet_are_waited_for() -> None:
    judge, read_now = judging(), asyncio.Event()

    async def until_known() -> None:
        read_now.set()

    judge.around.until_known = until_known
    _, step = await judge.waited(9, {"orders": {0: BAD}})
    assert isinstance(step, Answer)
    assert read_now.is_set()
    assert judge.waits == 1
