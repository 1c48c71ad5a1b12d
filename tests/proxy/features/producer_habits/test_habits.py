"""What is wrong with a request or a batch, by the entry that applies."""

from __future__ import annotations

from typing import Any

import pytest
from support.producer_habits import entry, habits, sent

from kafka_sidecar.codec.records.log_validator import InvalidBatch
from kafka_sidecar.proxy.features.producer_habits.habits import Entries, Entry, Fault, explain
from kafka_sidecar.proxy.relay.acks import ProduceHead

JAVA = "apache-kafka-java 3.9.0"
TRANSACTIONAL = 0x10
HEAD = ProduceHead("app", None, -1)
LONG = "x" * 2000


def of_request(one: Entry, head: ProduceHead = HEAD, software: str | None = JAVA) -> list[str]:
    return [str(fault.habit) for fault in one.faults_of_request(head, software)]


def of_batch(one: Entry, *values: str, **header: Any) -> list[str]:
    found = sent(*values, **header).header
    return [str(fault.habit) for fault in one.faults_of_batch(found, found.codec)]


@pytest.mark.parametrize(
    ("least", "acks", "is_right"),
    [("all", -1, True), ("all", 1, False), ("all", 0, False), (1, -1, True), (1, 1, True), (1, 0, False)],
)
def test_acks_are_at_least_as_many_as_required(least: str | int, acks: int, is_right: bool) -> None:
    assert of_request(entry(acks=least), ProduceHead("app", None, acks)) == ([] if is_right else ["acks"])


def test_a_transactional_id_is_refused_where_transactions_are_forbidden() -> None:
    assert of_request(entry(transactions="forbidden"), ProduceHead("app", "tx", -1)) == ["transactions"]
    assert of_request(entry(transactions="forbidden")) == []
    assert of_request(entry(transactions="required")) == []  # its batches say whether they are in one


def test_batches_are_in_a_transaction_where_these_are_required() -> None:
    required = entry(transactions="required")
    assert of_batch(required, attributes=TRANSACTIONAL, producer_id=7) == []
    assert of_batch(required, producer_id=7) == ["transactions"]


@pytest.mark.parametrize(
    ("client_id", "is_right"),
    [
        ("orders-app", True),
        ("Orders-app", False),
        ("orders-app2", False),
        ("", False),
        (None, False),
        ("\udcff-app", False),
    ],
)
def test_a_client_id_matches_as_a_whole(client_id: str | None, is_right: bool) -> None:
    one = entry(client_id="[a-z]+-app")
    assert of_request(one, ProduceHead(client_id, None, -1)) == ([] if is_right else ["client_id"])


SOFTWARE = {"apache-kafka-java": ">=3.0", "librdkafka": ">=2.3", "kgo": ">=1.18"}


@pytest.mark.parametrize(
    ("software", "is_right"),
    [
        ("apache-kafka-java 3.0.0", True),
        ("apache-kafka-java 10.0", True),
        ("apache-kafka-java 3", True),
        ("apache-kafka-java 2.8.2", False),
        ("apache-kafka-java 3.0.0-SNAPSHOT", True),
        ("librdkafka 2.3.0", True),
        ("librdkafka 2.10.0", True),
        ("librdkafka 2.2.9", False),
        ("confluent-kafka-python 2.8.0-rdkafka-2.8.0", True),
        ("confluent-kafka-go 9.0.0-rdkafka-1.9.2", False),
        ("kgo v1.18.0", True),
        ("kgo v1.17.9", False),
    ],
)
def test_software_is_at_least_as_new_as_required(software: str, is_right: bool) -> None:
    assert of_request(entry(software=SOFTWARE), software=software) == ([] if is_right else ["software"])


@pytest.mark.parametrize(
    ("software", "setting"),
    [
        ("sarama 1.43", "other_software"),
        ("sarama unknown", "other_software"),
        (None, "unknown_software"),
        ("", "unknown_software"),
        ("apache-kafka-java unknown", "unknown_software"),
        ("apache-kafka-java ", "unknown_software"),
    ],
)
def test_a_setting_says_what_becomes_of_other_and_unknown_software(software: str | None, setting: str) -> None:
    settings = {"other_software": "allow", "unknown_software": "allow", setting: "reject"}
    assert of_request(entry(software=SOFTWARE), software=software) == []
    assert of_request(entry(software=SOFTWARE, **settings), software=software) == ["software"]
    others = {"other_software": "reject", "unknown_software": "reject", setting: "allow"}
    assert of_request(entry(software=SOFTWARE, **others), software=software) == []


def test_software_may_only_have_to_be_known() -> None:
    assert of_request(entry(unknown_software="reject"), software=None) == ["software"]
    assert of_request(entry(unknown_software="reject"), software="anything 1") == []


@pytest.mark.parametrize("codec", range(5))
def test_batches_have_one_of_the_codecs(codec: int) -> None:
    assert of_batch(entry(compression=["lz4", "zstd"]), LONG, codec=codec) == ([] if codec > 2 else ["compression"])
    assert of_batch(entry(compression=["none"]), LONG, codec=codec) == (["compression"] if codec else [])
    assert of_batch(entry(), LONG, codec=codec) == []


def test_small_batches_may_come_without_compression() -> None:
    one = entry(compression=["zstd"], compress_from=1000)
    size = len(sent("x" * 900).data)
    assert of_batch(one, "x" * (900 + 999 - size)) == []
    assert of_batch(one, "x" * (900 + 1000 - size)) == ["compression"]
    assert of_batch(one, "x", codec=1) == ["compression"]  # another codec is a choice
    assert of_batch(entry(compression=["zstd"], compress_from=0), "x") == ["compression"]


def test_batches_of_an_idempotent_producer_have_its_id() -> None:
    assert of_batch(entry(idempotence="required"), producer_id=0) == []
    assert of_batch(entry(idempotence="required")) == ["idempotence"]


def test_the_size_of_a_batch_is_that_of_all_its_bytes() -> None:
    size = len(sent("one", "two").data)
    assert of_batch(entry(max_batch_bytes=size), "one", "two") == []
    assert of_batch(entry(max_batch_bytes=size - 1), "one", "two") == ["max_batch_bytes"]


def test_a_batch_has_at_most_so_many_records() -> None:
    assert of_batch(entry(max_records=2), "one", "two") == []
    assert of_batch(entry(max_records=2), "one", "two", "three") == ["max_records"]


def test_what_is_no_batch_fulfils_nothing_that_is_required_of_batches() -> None:
    invalid = InvalidBatch(43, "records of format 1 where format 2 is needed")
    (fault,) = entry(idempotence="required").fault_of_invalid(invalid)
    assert (fault.habit, fault.found) == ("format", invalid.message)
    assert entry(acks="all").fault_of_invalid(invalid) == []  # the broker decides


def test_averages_count_all_batches_together() -> None:
    one = entry(min_mean_batch_bytes=1000, min_mean_records=10)
    assert one.faults_of_mean(100, 100_000, 1000) == []
    assert [fault.habit for fault in one.faults_of_mean(100, 99_999, 999)] == [
        "min_mean_batch_bytes",
        "min_mean_records",
    ]


def test_a_message_names_habit_topic_value_and_remedy() -> None:
    (fault,) = entry(compression=["zstd", "lz4"]).faults_of_batch(sent(LONG).header, 0)
    assert fault.of("orders") == (
        "compression: Topic orders requires compression zstd or lz4, not none: set compression.type=zstd"
    )


def test_a_message_has_three_habits_and_the_number_of_others() -> None:
    required = {"idempotence": "required", "transactions": "required", "max_batch_bytes": 1, "max_records": 1}
    faults: list[Fault] = entry(compression=["zstd"], **required).faults_of_batch(sent(LONG, LONG).header, 0)
    message = explain("orders", faults)
    assert message.count("Topic orders requires") == 3
    assert message.endswith("; and 2 more")


def test_the_first_entry_applies_whose_topics_and_principals_match() -> None:
    entries = Entries([
        habits(topics=["orders-*"], principals=["User:a*"], acks="all"),
        habits(topics=["orders-eu"], acks=1),
        habits(topics=["*"], mode="off"),
    ])  # fmt: skip
    first, second, _ = entries.entries
    assert entries.find("orders-eu", "User:alice") is first
    assert entries.find("orders-us", "User:alice") is first
    assert entries.find("orders-eu", "User:bob") is second
    assert entries.find("orders-us", "User:bob") is None  # off
    assert entries.of_topic("payments") == ()
    assert not entries.are_empty


def test_a_client_without_a_login_is_kafkas_anonymous_user() -> None:
    entries = Entries([habits(principals=["User:ANONYMOUS"])])
    assert entries.find("orders", None) is entries.entries[0]
    assert entries.find("orders", "User:alice") is None


def test_a_share_of_batches_is_rejected_the_same_one_each_time() -> None:
    one = entry(acks="all", percent=30)
    assert [one.enforces(crc) for crc in (0, 29, 30, 99, 129, 130)] == [True, True, False, False, True, False]
    assert not entry(acks="all", mode="shadow").enforces(0)


def test_only_what_is_required_is_shown_of_an_entry() -> None:
    assert entry(acks=1, compression=["lz4"], principals=["User:a"], mode="shadow").describe() == {
        "source": "producers (entry 1)",
        "principals": ["User:a"],
        "mode": "shadow",
        "percent": 100,
        "report": True,
        "required": {"acks": "1", "compression": ["lz4"]},
    }
