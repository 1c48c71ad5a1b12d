"""What a Produce request is paused for: names, configs, what policies fetch, a thread, a turn for others."""

from __future__ import annotations

import gc
import threading
import time
from base64 import b64encode
from random import Random

import pytest
from support.policies import Stub
from support.produce_requests import (
    BAD,
    FIRST_WITH_IDS,
    GOOD,
    INVALID_RECORD,
    NO_TIME_LIMIT,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_ID,
    Validating,
    batch,
    produce_request,
    produce_response,
    results,
    topic_id,
    validating,
)

from kafka_sidecar.codec.records import Record, Records
from kafka_sidecar.plugins.effects import TURN, TimeLeft, TimeLimit, Work
from kafka_sidecar.plugins.pace import MAX_TURN_S
from kafka_sidecar.policies.contract import TopicMetadata
from kafka_sidecar.proxy.config.sections import Mode
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_BYTES, MIN_OFFLOADED_BYTES
from kafka_sidecar.proxy.exchanges.produce import PartitionRecords
from kafka_sidecar.proxy.features.validation import stage
from kafka_sidecar.proxy.features.validation.rules import TopicRule
from kafka_sidecar.proxy.features.validation.stage import PolicyFetch, TopicConfigsKnown
from kafka_sidecar.proxy.relay.exchange import Respond, TopicNames


async def test_an_id_that_is_not_known_is_asked_for_and_then_its_topics_rules_hold() -> None:
    validation = validating()
    validation.hidden = {"orders-2"}
    validation.rules, validation.policy = (
        Validating(TopicRule("orders-2", "stub", "enforce", 100)).rules,
        validation.policy,
    )
    topics = {"orders-2": {0: BAD, 1: GOOD}}
    exchange, step = await validation.finished(FIRST_WITH_IDS, topics)
    assert step == produce_request(FIRST_WITH_IDS, {"orders-2": {1: GOOD}})
    assert validation.asked_for == [topic_id("orders-2")]
    out = exchange.response(produce_response(FIRST_WITH_IDS, {"orders-2": {1: 5}}))
    assert results(FIRST_WITH_IDS, out) == [("orders-2", 0, INVALID_RECORD, -1), ("orders-2", 1, 0, 5)]


@pytest.mark.parametrize("cluster_answers", [True, False])
async def test_an_id_that_the_cluster_does_not_know_is_answered_as_a_broker_does(cluster_answers: bool) -> None:
    validation = validating()
    validation.cluster_answers = cluster_answers
    topics = {"who": {0: GOOD, 1: GOOD}, "orders": {0: GOOD}}
    exchange, step = await validation.finished(FIRST_WITH_IDS, topics)
    assert step == produce_request(FIRST_WITH_IDS, {"orders": {0: GOOD}})
    out = exchange.response(produce_response(FIRST_WITH_IDS, {"orders": {0: 5}}))
    assert results(FIRST_WITH_IDS, out)[:2] == [("who", at, UNKNOWN_TOPIC_ID, -1) for at in (0, 1)]


async def test_ids_without_partitions_are_not_asked_for() -> None:
    validation = validating()
    frame = produce_request(FIRST_WITH_IDS, {"who": {}, "orders": {0: GOOD}})
    _, step = await validation.finished(FIRST_WITH_IDS, {"who": {}, "orders": {0: GOOD}})
    assert (step, validation.asked_for) == (frame, [])


async def test_all_unknown_ids_of_a_request_are_asked_for_at_once() -> None:
    validation = validating()
    validation.hidden = {"a", "b"}
    _, step = await validation.finished(FIRST_WITH_IDS, {"a": {0: BAD}, "who": {0: BAD}, "b": {0: BAD}})
    assert step == produce_request(FIRST_WITH_IDS, {"a": {0: BAD}, "b": {0: BAD}})
    assert len(validation.needs) == 1
    assert sorted(validation.asked_for) == sorted(topic_id(name) for name in ("a", "b", "who"))


async def test_the_zero_id_is_rejected_as_unknown_without_a_question() -> None:
    validation = validating()
    frame = produce_request(FIRST_WITH_IDS, {"who": {0: GOOD}}).replace(topic_id("who"), bytes(16))
    exchange = validation.exchange(FIRST_WITH_IDS)
    step = await exchange.finish(exchange.request(frame), validation.perform)
    assert isinstance(step, Respond)
    assert b"the topic's id is not known here" in step.frame
    assert validation.asked_for == []


def test_what_is_needed_is_said_as_plain_values() -> None:
    """A request with an unknown topic, whose batch waits for a fetch: the values an exchange yields, step by step."""
    validation = validating()
    exchange = validation.exchange(FIRST_WITH_IDS)
    exchange.turns = True
    topics = {"orders": {0: batch("ask a")}, "later": {0: GOOD}}
    assert exchange.request(produce_request(FIRST_WITH_IDS, topics)) == TopicNames((topic_id("later"),))
    validation.names.remember([(topic_id("later"), "later")])
    assert exchange.answer() == TURN
    applied = validation.rules.of("orders", topic_id("orders"))
    assert applied is not None
    assert exchange.answer() == PolicyFetch(applied.plan.rules[0], b"a", NO_TIME_LIMIT.start())
    validation.policy.known.add(b"a")
    assert exchange.answer() == produce_request(FIRST_WITH_IDS, topics)


async def test_what_a_policy_waits_for_is_fetched_and_the_batch_validated_again() -> None:
    validation = validating()
    _, step = await validation.finished(9, {"orders": {0: batch("ask a", "bad", "ask b"), 1: batch("ask a")}})
    assert validation.policy.asked == [b"a", b"b"]
    assert len(validation.needs) == 2
    assert step == produce_request(9, {"orders": {1: batch("ask a")}})
    assert validation.stats.rejections == {("orders", "stub", "enforce", "bad"): 1}


@pytest.mark.parametrize("key", ["unavailable", "in vain"])
async def test_what_cannot_be_fetched_is_the_policys_failure(key: str) -> None:
    validation = validating()
    _, step = await validation.finished(9, {"orders": {0: batch(f"ask {key}"), 1: GOOD}})
    assert step == produce_request(9, {"orders": {1: GOOD}})
    assert (len(validation.needs), validation.policy.asked) == (1, [key.encode()])
    assert validation.stats.failures == {("stub", "enforce"): 1}


async def test_a_failed_fetch_accepts_the_records_if_the_policy_fails_open() -> None:
    validation = validating(fail_open=True)
    _, step = await validation.finished(9, {"orders": {0: batch("ask unavailable")}})
    assert step == produce_request(9, {"orders": {0: batch("ask unavailable")}})


@pytest.mark.parametrize(("codec", "large"), list(MIN_OFFLOADED_BYTES.items()))
async def test_large_batches_are_validated_in_a_thread(codec: int, large: int) -> None:
    validation = validating(limit=100 << 20)
    for size, elsewhere in ((large // 2, False), (large * 3 // 2, True)):
        records = batch("good", b64encode(Random(1).randbytes(size)).decode()[:size], "bad", codec=codec)
        validation.policy.threads.clear()
        _, step = await validation.finished(9, {"orders": {0: records}})
        assert isinstance(step, Respond)
        assert (threading.get_ident() not in validation.policy.threads) is elsewhere


async def test_a_small_batch_that_inflates_to_much_is_validated_in_a_thread() -> None:
    validation = validating(limit=100 << 20)
    _, step = validation.validated(9, {"orders": {0: batch("x" * (MAX_INLINE_BYTES - 100), codec=4)}})
    assert isinstance(step, bytes)
    _, step = await validation.finished(9, {"orders": {0: batch("x" * MAX_INLINE_BYTES, codec=4), 1: batch("bad")}})
    assert len(validation.needs) == 1
    assert step == produce_request(9, {"orders": {0: batch("x" * MAX_INLINE_BYTES, codec=4)}})
    assert validation.stats.batches == {"contents": 3}


async def test_a_policy_says_how_many_bytes_it_validates_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stub, "bytes_at_once", 1000)
    validation = validating()
    for size, waits in ((900, 0), (1000, 1)):
        _, step = await validation.finished(9, {"orders": {0: batch("x" * size)}})
        assert isinstance(step, bytes)
        assert len(validation.needs) == waits


@pytest.mark.parametrize(("records", "waits"), [(1000, 0), (1001, 1)])
async def test_many_records_for_a_policy_that_validates_one_by_one_are_validated_in_a_thread(
    records: int, waits: int
) -> None:
    validation = validating()
    _, step = await validation.finished(9, {"orders": {0: batch(*["good"] * records)}})
    assert isinstance(step, bytes)
    assert len(validation.needs) == waits


@pytest.mark.measured
async def test_a_policy_that_takes_long_for_a_record_validates_batches_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    validate = Stub.validate

    def slow(self: Stub, topic: TopicMetadata, record: Record) -> None:
        time.sleep(MAX_TURN_S / 2)
        validate(self, topic, record)

    monkeypatch.setattr(Stub, "validate", slow)
    validation = validating()
    for records, waits in ((1, 0), (3, 1)):
        _, step = await validation.finished(9, {"orders": {0: batch(*["good"] * records)}})
        assert isinstance(step, bytes)
        assert len(validation.needs) == waits


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
@pytest.mark.parametrize("waits_for", [Work, PolicyFetch])
def test_a_batch_that_is_not_validated_in_time_is_rejected_for_now(mode: Mode, waits_for: type) -> None:
    validation = validating(TopicRule("orders", "stub", mode, 100))
    late = batch(*["good"] * 1001) if waits_for is Work else batch("ask a")
    exchange, step = validation.validated(9, {"orders": {0: late, 1: GOOD}})
    assert isinstance(step, waits_for)
    step = exchange.fail(TimeoutError())
    assert step == produce_request(9, {"orders": {1: GOOD} if mode == "enforce" else {0: late, 1: GOOD}})
    if mode == "enforce":
        out = exchange.response(produce_response(9, {"orders": {1: 5}}))
        assert results(9, out) == [("orders", 0, REQUEST_TIMED_OUT, -1), ("orders", 1, 0, 5)]
    assert validation.stats.rejections == {("orders", "(time limit)", mode, "timed_out"): 1}
    assert validation.stats.batches == {"contents": 1}


def test_a_small_batch_that_holds_much_leaves_the_thread_for_light_work_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "MAX_LIGHT_INFLATED", 5000)
    validation = validating()
    many = batch(*["good"] * 1001)
    exchange, first = validation.validated(9, {"orders": {0: many}})
    assert isinstance(first, Work)
    assert first.is_light
    assert first.run() is None
    second = exchange.answer(None)
    assert isinstance(second, Work)
    assert not second.is_light
    released: list[int] = []
    monkeypatch.setattr(PartitionRecords, "release", lambda partition: released.append(partition.size))
    verdict = second.run()
    assert len(released) == 1
    assert released[0] > 5000
    assert exchange.answer(verdict) == produce_request(9, {"orders": {0: many}})


def test_all_batches_of_a_request_have_one_time_limit_and_those_of_others_another() -> None:
    validation = validating(time_limit=TimeLimit("validation", 10.0, 4.0))
    long = batch(*["good"] * 1001)
    exchange, first = validation.validated(9, {"orders": {0: long, 1: long}})
    second = exchange.answer([])
    _, other = validation.validated(9, {"orders": {0: long}})
    assert isinstance(first, Work)
    assert isinstance(second, Work)
    assert isinstance(other, Work)
    assert first.limit is second.limit
    assert first.limit == other.limit == TimeLeft("validation", 10.0, 4.0)
    assert first.limit is not other.limit


async def test_other_connections_may_have_a_turn_before_each_batch() -> None:
    frame = produce_request(9, {"orders": {0: GOOD, 1: GOOD}, "free": {0: GOOD}})
    exchange = validating().exchange(9)
    exchange.turns = True
    assert [exchange.request(frame), exchange.answer(), exchange.answer()] == [TURN, TURN, frame]


async def test_a_large_batch_of_which_only_the_header_is_needed_is_validated_at_once() -> None:
    validation = validating(TopicRule("orders", "headers:never", "enforce", 100))
    _, step = validation.validated(9, {"orders": {0: batch("x" * (2 << 20))}})
    assert isinstance(step, Respond)
    assert validation.stats.batches == {"header": 1}


@pytest.mark.parametrize(("why", "codes"), [(None, [INVALID_RECORD]), ("no leader", [REQUEST_TIMED_OUT])])
def test_topic_configs_that_are_not_read_yet_are_waited_for(why: str | None, codes: list[int]) -> None:
    validation = validating()
    validation.configs_are_known = False
    exchange = validation.exchange(9)
    assert exchange.request(produce_request(9, {"orders": {0: BAD}})) == TopicConfigsKnown()
    step = exchange.answer(why)
    assert isinstance(step, Respond)
    assert [code for _, _, code, _ in results(9, step.frame)] == codes


def test_a_large_batch_is_not_kept_inflated_while_its_policy_waits() -> None:
    validation = validating(limit=100 << 20)
    exchange = validation.exchange(9)
    large = batch("x" * (MAX_INLINE_BYTES + 1), "ask a", codec=4)
    work = exchange.request(produce_request(9, {"orders": {0: large}}))
    assert isinstance(work, Work)
    gc.collect()
    before = count_records()
    assert isinstance(exchange.answer(work.run()), PolicyFetch)
    assert count_records() == before - 1 if before else True


def count_records() -> int:
    return sum(type(one) is Records for one in gc.get_objects())
