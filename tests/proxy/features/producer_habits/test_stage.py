"""What becomes of Produce requests: relayed, rejected by partition, in every version. kio is the reference."""

from __future__ import annotations

import logging
from struct import pack
from typing import Any
from zlib import crc32

import pytest
from support import old_requests, oracle
from support.client import FakeClient
from support.driven import Driven, Step
from support.produce_requests import (
    FIRST_WITH_IDS,
    FIRST_WITH_RECORD_ERRORS,
    UNKNOWN_TOPIC_ID,
    VERSIONS,
    batch,
    produce_request,
    produce_response,
    read,
    results,
    topic_id,
)
from support.producer_habits import Asking, habits

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.plugins.effects import Need, Work
from kafka_sidecar.proxy.relay.exchange import Forward, Last, Look, Pass, Respond

POLICY_VIOLATION = 44
PLAIN, IDEMPOTENT = batch("one", "two"), batch("one", "two", producer_id=7, producer_epoch=0, base_sequence=0)
_MESSAGE = b"\1\0" + bytes(8) + pack(">i", -1) + pack(">i", 3) + b"old"
OLD = pack(">qi", 0, 4 + len(_MESSAGE)) + pack(">I", crc32(_MESSAGE)) + _MESSAGE  # magic 1
each_version = pytest.mark.parametrize("version", VERSIONS)


def drive(exchange: Driven, frame: bytes) -> Step:
    """The outcome of a request in which others have turns."""
    step = exchange.request(frame)
    while isinstance(step, Need):
        step = exchange.answer(step.run() if isinstance(step, Work) else None)
    return step


def without_transaction(version: int, topics: Any, acks: int = -1, client_id: str | None = "app") -> bytes:
    data = [
        {
            "name": name,
            "topic_id": topic_id(name),
            "partition_data": [{"index": at, "records": records} for at, records in partitions.items()],
        }
        for name, partitions in topics.items()
    ]
    entity = oracle.request(ApiKey.PRODUCE, version, acks=acks, transactional_id=None, topic_data=data)
    return oracle.request_frame(entity, 7, client_id)


@each_version
def test_a_batch_that_is_not_sent_as_required_is_rejected_and_others_are_forwarded(version: int) -> None:
    asking = Asking(habits(idempotence="required"))
    frame = produce_request(version, {"orders": {0: PLAIN, 1: IDEMPOTENT}, "free": {0: PLAIN}})
    exchange = asking.started(version, frame)
    assert exchange.request(frame) == produce_request(version, {"orders": {1: IDEMPOTENT}, "free": {0: PLAIN}})
    response = exchange.response(produce_response(version, {"orders": {1: 5}, "free": {0: 6}}))
    assert isinstance(response, bytes)
    assert results(version, response) == [
        ("orders", 0, POLICY_VIOLATION, -1),
        ("orders", 1, 0, 5),
        ("free", 0, 0, 6),
    ]
    if version >= FIRST_WITH_RECORD_ERRORS:
        message = read(version, response).responses[0].partition_responses[0].error_message
        (found,) = asking.stats.rows(10)
        assert message == (
            "idempotence: Topic orders requires batches with a producer id, not without: set enable.idempotence=true "
            f"(kafka-sidecar explain {found['id']})"
        )


@each_version
def test_a_request_that_is_as_required_goes_on_as_the_bytes_that_came(version: int) -> None:
    asking = Asking(habits(idempotence="required", acks="all"))
    frame = produce_request(version, {"orders": {0: IDEMPOTENT}})
    exchange = asking.started(version, frame)
    assert exchange.request(frame) is frame
    assert not exchange.wants_response
    assert not asking.stats.violations


@each_version
def test_a_request_for_other_topics_is_relayed_and_so_are_those_that_begin_alike(version: int) -> None:
    asking = Asking(habits(idempotence="required"), habits(topics=["payments"], mode="off"))
    for topic in ("free", "payments"):
        assert isinstance(asking.begin(version, produce_request(version, {topic: {0: PLAIN}})), Pass)


@each_version
def test_where_only_the_head_counts_a_request_that_is_as_required_is_relayed(version: int) -> None:
    asking = Asking(habits(acks="all", client_id="app", software={"apache-kafka-java": ">=3"}, report=False))
    begun = asking.begin(version, produce_request(version, {"orders": {0: PLAIN}}))
    assert isinstance(begun, Pass)
    # Acks and client id are part of what later requests are compared with.
    head = produce_request(version, {"orders": {0: PLAIN}})[12:]
    assert head.startswith(begun.head)
    assert not produce_request(version, {"orders": {0: PLAIN}}, acks=1)[12:].startswith(begun.head)


@each_version
@pytest.mark.parametrize(
    ("settings", "habit"),
    [
        ({"acks": "all"}, "acks"),
        ({"client_id": "[0-9]+"}, "client_id"),
        ({"software": {"apache-kafka-java": ">=99"}}, "software"),
        ({"transactions": "forbidden"}, "transactions"),
    ],
)
def test_where_only_the_head_counts_all_partitions_of_the_topic_are_rejected(
    version: int, settings: dict[str, Any], habit: str
) -> None:
    asking = Asking(habits(report=False, **settings))
    frame = produce_request(version, {"orders": {0: PLAIN, 3: PLAIN}}, acks=1)
    step = asking.started(version, frame).request(frame)
    assert isinstance(step, Respond)
    assert results(version, step.frame) == [("orders", 0, POLICY_VIOLATION, -1), ("orders", 3, POLICY_VIOLATION, -1)]
    assert asking.stats.violations == {("orders", habit, "enforce"): 2}
    assert len(asking.stats.producers) == 0  # no report


def test_several_topics_are_looked_into_one_by_one() -> None:
    asking = Asking(habits(acks="all", report=False))
    frame = produce_request(12, {"free": {0: PLAIN}, "orders": {0: PLAIN}}, acks=1)
    exchange = asking.started(12, frame)
    assert exchange.request(frame) == produce_request(12, {"free": {0: PLAIN}}, acks=1)
    assert asking.begun(12, produce_request(12, {"free": {0: PLAIN}, "orders": {0: PLAIN}})) is None


def test_each_batch_of_very_many_topics_is_looked_at_once() -> None:
    asking = Asking(habits(topics=["many-*"], mode="shadow", idempotence="required"), habits(acks="all", report=False))
    topics = {f"many-{number}": {0: PLAIN} for number in range(1001)}
    frame = produce_request(12, {**topics, "orders": {0: PLAIN}}, acks=1)
    exchange = asking.started(12, frame)
    assert drive(exchange, frame) == produce_request(12, topics, acks=1)
    assert set(asking.stats.violations.values()) == {1}


@each_version
def test_forbidden_transactions_are_those_with_an_id(version: int) -> None:
    asking = Asking(habits(transactions="forbidden", report=False))
    assert isinstance(asking.begin(version, without_transaction(version, {"orders": {0: PLAIN}})), Pass)


def test_a_client_without_an_id_is_rejected_where_ids_have_a_form() -> None:
    asking = Asking(habits(client_id=".+", report=False))
    frame = without_transaction(12, {"orders": {0: PLAIN}}, client_id=None)
    assert isinstance(asking.started(12, frame).request(frame), Respond)


@each_version
def test_with_acks_0_the_rest_goes_on_and_the_connection_ends_as_at_a_broker(version: int) -> None:
    asking = Asking(habits(acks=1, report=False))
    frame = produce_request(version, {"orders": {0: PLAIN}, "free": {0: PLAIN}}, acks=0)
    step = asking.started(version, frame).request(frame)
    assert isinstance(step, Last)
    assert step.frame == produce_request(version, {"free": {0: PLAIN}}, acks=0)
    assert step.cause == "rejected_without_acks"
    assert "set acks=1" in step.detail


@each_version
def test_in_shadow_everything_is_forwarded_and_counted(version: int, caplog: pytest.LogCaptureFixture) -> None:
    asking = Asking(habits(mode="shadow", acks="all", idempotence="required"))
    frame = produce_request(version, {"orders": {0: PLAIN}}, acks=1)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert asking.started(version, frame).request(frame) is frame
    assert asking.stats.violations == {("orders", "acks", "shadow"): 3, ("orders", "idempotence", "shadow"): 3}
    assert [record.message for record in caplog.records] == ["producer would be rejected"]


@each_version
def test_the_principal_decides_which_entry_applies(version: int) -> None:
    asking = Asking(habits(principals=["User:alice"], acks="all"), habits(mode="off"))
    frame = produce_request(version, {"orders": {0: PLAIN}}, acks=1)
    assert isinstance(asking.started(version, frame, FakeClient(principal="User:alice")).request(frame), Respond)
    assert isinstance(asking.started(version, frame, FakeClient(principal="User:bob")).request(frame), bytes)


def test_all_requests_of_a_topic_are_looked_into_by_the_same_prefix_where_batches_count() -> None:
    asking = Asking(habits(compression=["zstd"]))
    assert isinstance(asking.begin(12, produce_request(12, {"orders": {0: PLAIN}})), Look)


@pytest.mark.parametrize("records", [None, b"", b"nonsense that is not a batch", PLAIN + PLAIN])
def test_what_is_no_batch_is_rejected_where_something_is_required_of_batches(records: bytes | None) -> None:
    frame = produce_request(12, {"orders": {0: records}})
    step = Asking(habits(idempotence="required")).started(12, frame).request(frame)
    assert isinstance(step, Respond)
    assert results(12, step.frame) == [("orders", 0, POLICY_VIOLATION, -1)]
    allowing = Asking(habits(acks="all"))
    assert allowing.started(12, frame).request(frame) is frame  # the broker decides
    assert not allowing.stats.violations


@pytest.mark.parametrize("version", range(3))
def test_records_in_older_formats_are_rejected_where_something_is_required_of_batches(version: int) -> None:
    asking = Asking(habits(compression=["none"]))
    frame = old_requests.produce_request(version, {"orders": {0: OLD}})
    step = asking.started(version, frame).request(frame)
    assert isinstance(step, Respond)
    assert old_requests.produce_results(version, step.frame) == [("orders", 0, POLICY_VIOLATION, -1)]
    assert asking.stats.violations == {("orders", "format", "enforce"): 1}


def test_a_topic_whose_id_is_unknown_is_looked_up_again_by_the_client() -> None:
    asking = Asking(habits(acks="all"))
    frame = produce_request(FIRST_WITH_IDS, {"new": {0: PLAIN}})
    exchange = asking.started(FIRST_WITH_IDS, frame)
    exchange.request(frame)
    step = exchange.answer(None)
    assert isinstance(step, Respond)
    assert [code for _, _, code, _ in results(FIRST_WITH_IDS, step.frame)] == [UNKNOWN_TOPIC_ID]


def test_each_client_is_listed_with_how_it_sends() -> None:
    asking = Asking(habits(mode="shadow", compression=["zstd"], compress_from=0))
    for acks, one in ((-1, IDEMPOTENT), (1, PLAIN), (1, batch("x" * 3000, codec=4))):
        frame = produce_request(12, {"orders": {0: one}}, acks=acks)
        step = asking.started(12, frame, FakeClient(principal="User:alice", host="10.0.0.1")).request(frame)
        assert step is frame or isinstance(step, Forward)
    (found,) = [one.describe(str) for one in asking.stats.producers.newest({})]
    assert (found["client_id"], found["principal"], found["topic"]) == ("app", "User:alice", "orders")
    assert (found["software"], found["client"]) == ("apache-kafka-java 4.3.1", "10.0.0.1")
    assert (found["batches"], found["records"], found["acks"]) == (3, 5, {"all": 1, "1": 2})
    assert (found["compression"], found["idempotent"]) == ({"none": 2, "zstd": 1}, 0.333)
    assert found["not_as_required"] == {"compression": 2}
    assert list(asking.stats.producers.newest({"topic": "payments"})) == []


def test_small_batches_are_reported_once_a_minute_and_never_rejected(caplog: pytest.LogCaptureFixture) -> None:
    asking = Asking(habits(min_mean_records=10))
    frame = produce_request(12, {"orders": {0: PLAIN}})
    with caplog.at_level(logging.WARNING):
        for number in range(400):
            asking.now = number * 0.3  # 200 a minute
            assert asking.started(12, frame).request(frame) is frame
    assert asking.stats.violations == {("orders", "min_mean_records", "shadow"): 1}
    assert [record.message for record in caplog.records] == ["producer sends small batches"]
