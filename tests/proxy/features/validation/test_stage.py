"""A validated Produce request: what the broker gets, what the client gets, in every version. kio is the reference."""

from __future__ import annotations

import gc
import logging
import sys

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from support.produce_requests import (
    BAD,
    CORRUPT_MESSAGE,
    FIRST_WITH_IDS,
    FIRST_WITH_RECORD_ERRORS,
    GOOD,
    GUARDED,
    INVALID_RECORD,
    UNKNOWN_SERVER_ERROR,
    VERSIONS,
    Validating,
    batch,
    produce_request,
    produce_response,
    read,
    results,
    topic_id,
    validating,
    without_id,
)

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import MIN_VIEW_BYTES
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Records
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.effects import Need
from kafka_sidecar.policies.contract import TopicMetadata
from kafka_sidecar.proxy.features.validation import stats
from kafka_sidecar.proxy.features.validation.rules import TopicRule
from kafka_sidecar.proxy.relay.exchange import Last, Respond

each_version = pytest.mark.parametrize("version", VERSIONS)


@each_version
def test_a_request_of_which_nothing_is_refused_goes_on_as_the_bytes_that_came(version: int) -> None:
    frame = produce_request(version, {"orders": {0: GOOD}, "free": {0: BAD}})
    exchange = validating().exchange(version)
    assert exchange.request(frame) is frame
    assert not exchange.wants_response


@each_version
def test_refused_partitions_are_cut_out_and_all_else_is_as_it_was(version: int) -> None:
    topics = {"orders": {3: GOOD, 1: BAD, 2: GOOD}, "free": {0: BAD}, "payments": {0: batch("worse"), 5: GOOD}}
    left = {"orders": {3: GOOD, 2: GOOD}, "free": {0: BAD}, "payments": {5: GOOD}}
    exchange, step = validating().validated(version, topics)
    assert step == produce_request(version, left)
    assert exchange.wants_response


@each_version
def test_policies_are_shown_the_topic_partition_and_id_of_every_batch(version: int) -> None:
    validation = validating()
    validation.validated(version, {"orders": {0: GOOD, 3: GOOD}})
    assert validation.policy.topics == {
        TopicMetadata("orders", partition, topic_id("orders"), "") for partition in (0, 3)
    }


def test_a_topic_that_is_named_has_no_id_where_the_sidecar_no_longer_knows_it() -> None:
    validation = validating()
    validation.names.remember([(NO_ID, "orders")])
    validation.validated(FIRST_WITH_IDS - 1, {"orders": {0: GOOD}})
    validation.validated(FIRST_WITH_IDS, {"orders": {1: GOOD}})
    assert {topic.partition: topic.topic_id for topic in validation.policy.topics} == {0: NO_ID, 1: topic_id("orders")}


@each_version
def test_a_topic_of_which_every_partition_is_refused_is_not_in_what_goes_on(version: int) -> None:
    _, step = validating().validated(version, {"orders": {0: BAD, 1: BAD}, "free": {0: GOOD}})
    assert step == produce_request(version, {"free": {0: GOOD}})


@each_version
def test_the_answer_names_all_partitions_in_the_order_of_the_request(version: int) -> None:
    topics = {"orders": {3: GOOD, 1: BAD, 2: GOOD}, "payments": {0: batch("worse")}, "free": {0: GOOD}}
    exchange, _ = validating().validated(version, topics)
    answer = produce_response(version, {"free": {0: 30}, "orders": {2: 20, 3: 10}})
    out = exchange.response(answer)
    assert results(version, out) == [
        ("orders", 3, 0, 10), ("orders", 1, INVALID_RECORD, -1), ("orders", 2, 0, 20),
        ("payments", 0, INVALID_RECORD, -1), ("free", 0, 0, 30),
    ]  # fmt: skip


@each_version
def test_what_is_refused_as_a_whole_is_answered_here(version: int) -> None:
    _, step = validating().validated(version, {"orders": {4: BAD}})
    assert isinstance(step, Respond)
    assert results(version, step.frame) == [("orders", 4, INVALID_RECORD, -1)]


@each_version
def test_from_version_8_on_each_bad_record_is_named_with_its_index(version: int) -> None:
    _, step = validating().validated(version, {"orders": {0: BAD}, "payments": {0: batch("worse")}})
    assert isinstance(step, Respond)
    (orders,), (payments,) = (topic.partition_responses for topic in read(version, step.frame).responses)
    if version < FIRST_WITH_RECORD_ERRORS:
        assert not hasattr(orders, "record_errors")
        return
    text = "orders takes no bad"
    assert [(one.batch_index, without_id(one.batch_index_error_message)) for one in orders.record_errors] == [
        (1, text),
        (3, text),
    ]
    text = f"stub: {text}"
    assert without_id(orders.error_message) == (
        "One or more records have been rejected due to 2 record errors in total, "
        f"and only showing the first three errors at most: [{text}, {text}]"
    )
    assert without_id(payments.error_message) == "other: payments takes no worse"


@each_version
def test_with_acks_0_what_is_left_goes_on_and_it_is_the_last_request(version: int) -> None:
    _, step = validating().validated(version, {"orders": {0: BAD, 1: GOOD}}, acks=0)
    assert isinstance(step, Last)
    assert (step.frame, step.cause) == (
        produce_request(version, {"orders": {1: GOOD}}, acks=0),
        "rejected_without_acks",
    )
    assert "stub: orders takes no bad" in step.detail


def test_with_acks_0_and_nothing_left_no_byte_goes_on() -> None:
    _, step = validating().validated(9, {"orders": {0: BAD}}, acks=0)
    assert isinstance(step, Last)
    assert step.frame == b""


def test_a_header_with_any_client_id_stays_as_it_was() -> None:
    frame, exchange = produce_request(3, {"orders": {0: GOOD, 1: BAD}}), validating().exchange(3)
    left = produce_request(3, {"orders": {0: GOOD}})
    anonymous = frame[12:14], b"\xff\xff"
    assert anonymous[0] == b"\0\3"  # "app"
    frame = (len(frame) - 4 - 3).to_bytes(4, "big") + frame[4:12] + anonymous[1] + frame[17:]
    assert exchange.request(frame) == (len(left) - 7).to_bytes(4, "big") + left[4:12] + b"\xff\xff" + left[17:]


def shadowed(percent: int = 100, mode: str = "shadow") -> Validating:
    return validating(TopicRule("orders", "stub", mode, percent))  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [BAD, batch("bug"), b"", b"nonsense", batch("good")[:-1]])
def test_in_shadow_everything_goes_on_and_is_counted(bad: bytes) -> None:
    validation = shadowed()
    frame, exchange = produce_request(9, {"orders": {0: bad}}), validation.exchange(9)
    assert exchange.request(frame) is frame
    counted = [mode for _, _, mode, _ in validation.stats.rejections] + [mode for _, mode in validation.stats.failures]
    assert counted == ["shadow"]


def test_off_is_not_looked_at() -> None:
    validation = shadowed(mode="off")
    frame, exchange = produce_request(9, {"orders": {0: b"nonsense"}}), validation.exchange(9)
    assert exchange.request(frame) is frame
    assert not validation.stats.rejections


def test_a_percentage_enforces_about_that_share_of_the_batches_and_always_the_same() -> None:
    validation = shadowed(percent=30, mode="enforce")
    batches = [batch("bad", str(number)) for number in range(300)]
    refused = [isinstance(validation.validated(9, {"orders": {0: one}})[1], Respond) for one in batches]
    assert 50 < sum(refused) < 130
    assert [isinstance(validation.validated(9, {"orders": {0: one}})[1], Respond) for one in batches] == refused
    modes = [mode for (_, _, mode, _), number in validation.stats.rejections.items() for _ in range(number)]
    assert (modes.count("enforce"), modes.count("shadow")) == (2 * sum(refused), 2 * (300 - sum(refused)))


@pytest.mark.parametrize("bad", [BAD, b"nonsense", batch("bug")])
def test_nothing_is_refused_at_0_percent(bad: bytes) -> None:
    frame, exchange = produce_request(9, {"orders": {0: bad}}), shadowed(percent=0, mode="enforce").exchange(9)
    assert exchange.request(frame) is frame


def test_beyond_the_budget_of_a_response_only_the_first_record_error_of_a_batch_is_in_it() -> None:
    validation = validating()
    validation.max_record_errors = 3
    bad = batch("bad one", "good", "bad two")
    _, step = validation.validated(9, {"orders": {0: bad, 1: bad, 2: bad, 3: batch("bad one")}})
    assert isinstance(step, Respond)
    partitions = read(9, step.frame).responses[0].partition_responses
    assert [[one.batch_index for one in partition.record_errors] for partition in partitions] == [[0, 2], [0], [0], [0]]
    assert partitions[1].error_message == (
        "One or more records have been rejected due to 2 record errors in total, the first is: "
        + partitions[1].record_errors[0].batch_index_error_message
    )
    assert {partition.error_code for partition in partitions} == {INVALID_RECORD}
    assert validation.stats.omitted_errors == 2
    assert validation.stats.rejections["orders", "stub", "enforce", "bad"] == 7


def test_record_errors_that_are_not_in_the_response_take_no_room() -> None:
    validation = validating(TopicRule("orders", "stub", "shadow", 100))
    validation.max_record_errors = 1
    validation.validated(9, {"orders": {0: batch("bad one", "bad two")}})
    assert validation.stats.omitted_errors == 0


def test_a_policy_that_fails_refuses_the_batch_with_a_server_error() -> None:
    validation = validating()
    _, step = validation.validated(9, {"orders": {0: batch("good", "bug"), 1: GOOD}})
    assert step == produce_request(9, {"orders": {1: GOOD}})
    assert validation.stats.failures == {("stub", "enforce"): 1}
    _, step = validation.validated(9, {"orders": {0: batch("bug")}})
    assert isinstance(step, Respond)
    (partition,) = read(9, step.frame).responses[0].partition_responses
    assert (partition.error_code, without_id(partition.error_message)) == (
        UNKNOWN_SERVER_ERROR,
        "the policy stub failed",
    )
    assert partition.record_errors == ()


def test_a_policy_that_cannot_decide_now_gets_the_batch_sent_again() -> None:
    validation = validating()
    _, step = validation.validated(9, {"orders": {0: batch("away")}})
    assert isinstance(step, Respond)
    (partition,) = read(9, step.frame).responses[0].partition_responses
    assert (partition.error_code, without_id(partition.error_message)) == (
        ErrorCode.REQUEST_TIMED_OUT,
        "the policy stub cannot decide now: the registry is away",
    )
    (rejected,) = validation.stats.recent.newest()
    assert (rejected.reason, rejected.message) == (
        "unavailable",
        "the policy cannot decide now: the registry is away",
    )
    accepting, same = validating(fail_open=True), produce_request(9, {"orders": {0: batch("away")}})
    assert accepting.exchange(9).request(same) is same


def test_a_policy_that_fails_open_accepts_the_records() -> None:
    validation = validating(fail_open=True)
    frame, exchange = produce_request(9, {"orders": {0: batch("good", "bug")}}), validation.exchange(9)
    assert exchange.request(frame) is frame


def test_an_invalid_string_rejects_only_its_topic_and_is_reported_once_for_each_partition() -> None:
    validation = validating(TopicRule("orders", "stub:nonsense", "enforce", 100), GUARDED[1])
    _, step = validation.validated(9, {"orders": {3: GOOD, 1: GOOD}, "payments": {0: GOOD}, "free": {0: GOOD}})
    assert step == produce_request(9, {"payments": {0: GOOD}, "free": {0: GOOD}})
    assert [one.partition for one in validation.stats.recent.newest()] == [3]
    assert validation.stats.rejections == {("orders", "(configuration)", "enforce", "misconfigured"): 2}
    _, step = validation.validated(9, {"orders": {0: GOOD}})
    assert isinstance(step, Respond)
    (partition,) = read(9, step.frame).responses[0].partition_responses
    assert partition.error_code == UNKNOWN_SERVER_ERROR
    assert (
        without_id(partition.error_message) == "record.validation.policy of orders: policy stub: nonsense means nothing"
    )


@pytest.mark.parametrize("version", VERSIONS[: VERSIONS.index(FIRST_WITH_IDS)])
def test_the_error_of_such_a_string_fits_into_every_response_version(version: int) -> None:
    name = "n" * 249
    validation = Validating(TopicRule("*", "stub:nonsense", "enforce", 100), names=[name])
    _, step = validation.validated(version, {name: {0: GOOD}})
    assert isinstance(step, Respond)
    assert results(version, step.frame) == [(name, 0, UNKNOWN_SERVER_ERROR, -1)]


def test_a_string_that_no_policy_understands_refuses_nothing_in_shadow() -> None:
    validation = validating(TopicRule("orders", "stub:nonsense", "shadow", 100))
    frame, exchange = produce_request(9, {"orders": {0: GOOD}}), validation.exchange(9)
    assert exchange.request(frame) is frame
    assert validation.stats.rejections == {("orders", "(configuration)", "shadow", "misconfigured"): 1}


def resealed(records: bytes, codec: int) -> bytes:
    """The batch with another codec in its header, and the checksum that belongs to that."""
    data = bytearray(records)
    data[22] = codec
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


BROKEN = {
    "nothing": (b"", INVALID_RECORD),
    "null": (None, INVALID_RECORD),
    "no whole batch": (GOOD[:-1], INVALID_RECORD),
    "two batches": (GOOD + GOOD, INVALID_RECORD),
    "old format": (GOOD[:16] + b"\1" + GOOD[17:], INVALID_RECORD),
    "unknown format": (GOOD[:16] + b"\3" + GOOD[17:], CORRUPT_MESSAGE),
    "wrong checksum": (BAD[:-1] + b"?", CORRUPT_MESSAGE),
    "unknown codec": (resealed(GOOD, 5), UNKNOWN_SERVER_ERROR),
    "not what the codec says": (resealed(GOOD, 3), UNKNOWN_SERVER_ERROR),
    "too large": (batch("x" * 2_000_000, codec=1), INVALID_RECORD),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_what_is_no_batch_is_refused_and_the_partitions_beside_it_go_on(kind: str) -> None:
    records, code = BROKEN[kind]
    validation = validating()
    _, step = await validation.finished(9, {"orders": {0: records, 1: GOOD}})
    assert step == produce_request(9, {"orders": {1: GOOD}})
    _, step = await validation.finished(9, {"orders": {0: records}})
    assert isinstance(step, Respond)
    assert results(9, step.frame) == [("orders", 0, code, -1)]
    assert validation.stats.rejections == {("orders", "(structure)", "enforce", "unreadable"): 2}


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_large_batch_of_an_unknown_codec_is_rejected_at_once(codec: int) -> None:
    records = bytearray(batch("x" * (1 << 20)))
    records[22] = codec
    _, step = validating().validated(9, {"orders": {0: bytes(records)}})
    assert isinstance(step, Respond)


@given(st.binary(max_size=300), st.sampled_from(VERSIONS))
def test_any_bytes_after_a_header_raise_codec_errors_only(body: bytes, version: int) -> None:
    head = produce_request(version, {})[4:17] + (b"\0" if version >= 9 else b"")
    frame = (len(head) + len(body)).to_bytes(4, "big") + head + body
    _endure(validating(), version, frame)


@given(st.data(), st.sampled_from(VERSIONS))
def test_a_request_that_is_changed_anywhere_raises_codec_errors_only(data: st.DataObject, version: int) -> None:
    frame = bytearray(produce_request(version, {"orders": {0: BAD, 1: batch("ask x", codec=3)}, "free": {0: GOOD}}))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(17, len(frame) - 1))] = data.draw(st.integers(0, 255))
    _endure(validating(), version, bytes(frame))


def _endure(validation: Validating, version: int, frame: bytes) -> None:
    try:
        step = validation.exchange(version).request(frame)
    except CodecError:
        return
    assert isinstance(step, bytes | Respond | Last | Need)


@given(st.binary(max_size=200), st.sampled_from(VERSIONS))
def test_any_answer_of_a_broker_raises_codec_errors_only(body: bytes, version: int) -> None:
    exchange, _ = validating().validated(version, {"orders": {0: BAD, 1: GOOD}})
    frame = (4 + len(body)).to_bytes(4, "big") + bytes(4) + body
    try:
        exchange.response(frame)
    except CodecError:
        return


@pytest.mark.parametrize("size", [0, MIN_VIEW_BYTES])
def test_no_record_is_kept_while_the_broker_is_to_answer_what_is_left(size: int) -> None:
    frame, exchange = (
        produce_request(9, {"orders": {0: BAD, 1: GOOD}, "free": {0: b"x" * size}}),
        validating().exchange(9),
    )
    before = sys.getrefcount(frame)
    exchange.request(frame)
    gc.collect()
    assert sys.getrefcount(frame) == before
    out = exchange.response(produce_response(9, {"orders": {1: 5}, "free": {0: 6}}))
    assert results(9, out) == [("orders", 0, INVALID_RECORD, -1), ("orders", 1, 0, 5), ("free", 0, 0, 6)]


@pytest.mark.parametrize("value", ["bug", "ask a"])
def test_nothing_that_was_inflated_is_kept_for_what_a_policy_raised(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = validating().exchange(9)
    monkeypatch.setattr(logging.getLogger(stats.__name__), "disabled", True)  # pytest keeps what is logged
    gc.collect()
    gc.disable()
    try:
        before = sum(type(one) is Records for one in gc.get_objects())
        step = exchange.request(produce_request(9, {"orders": {0: batch(value), 1: GOOD}}))
        after = sum(type(one) is Records for one in gc.get_objects())
    finally:
        gc.enable()
    kept = value == "ask a"  # by the partition, so that a small batch is not inflated twice
    assert isinstance(step, Need if kept else bytes)
    assert after == before + kept


def test_error_messages_contain_no_payload() -> None:
    secret = "bad 4111111111111111"
    _, step = validating().validated(9, {"orders": {0: batch(secret)}})
    assert isinstance(step, Respond)
    assert b"4111" not in step.frame


def test_batches_are_counted_by_how_deep_they_were_looked_at_and_a_count_below_zero_is_none() -> None:
    validation = validating(TopicRule("orders", "headers:ok", "enforce", 100), GUARDED[1])
    lying = batch("a", "b")[:57] + b"\xff" * 4 + batch("a", "b")[61:]
    validation.validated(9, {"orders": {0: GOOD, 1: lying}, "payments": {0: batch("a", "b")}})
    assert (validation.stats.batches, validation.stats.records) == ({"contents": 1, "header": 2}, 3)
