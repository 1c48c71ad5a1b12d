"""The contract of auditors: which of li's calls a batch becomes."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_sidecar.audit.contract import (
    NO_OFFSET,
    NO_TIMESTAMP,
    AuditedClient,
    Auditor,
    AuditType,
    BatchAuditor,
    RecordCalls,
    Result,
    TopicName,
)
from kafka_sidecar.audit.counters import BatchCount, FetchCounter, ProduceCounter

CLIENT = AuditedClient("app", None, "10.0.0.1")


class Noting(Auditor):
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def start(self) -> None:
        self.calls.append(("start",))

    def record(self, *arguments: Any) -> None:
        self.calls.append(arguments)

    def close(self, timeout: float | None = None) -> None:
        self.calls.append(("close", timeout))


@pytest.mark.parametrize(
    ("result", "types"),
    [
        (Result.ACKED, [AuditType.ATTEMPT, AuditType.SUCCESS]),
        (Result.UNCONFIRMED, [AuditType.ATTEMPT, AuditType.SUCCESS]),
        (Result.REJECTED, [AuditType.ATTEMPT, AuditType.FAILURE]),
        (Result.FAILED, [AuditType.ATTEMPT, AuditType.FAILURE]),
        (Result.UNKNOWN, [AuditType.ATTEMPT]),
    ],
)
def test_a_produced_batch_is_an_attempt_and_its_result(result: Result, types: list[AuditType]) -> None:
    auditor = Noting()
    RecordCalls(auditor).produced(CLIENT, "orders", 0, BatchCount(1000, 5, 300, result=result, first_offset=7))
    assert auditor.calls == [(None, "orders", 1000, 5, 300, type_) for type_ in types]


def test_a_delivered_batch_is_a_success_of_the_records_that_are_shown() -> None:
    auditor = Noting()
    RecordCalls(auditor).delivered(CLIENT, "g", "orders", 0, BatchCount(NO_TIMESTAMP, 5, 300, first_offset=7, hidden=1))
    assert auditor.calls == [(None, "orders", None, 5, 300, AuditType.SUCCESS)]


def test_commits_are_no_calls_of_li() -> None:
    auditor = Noting()
    RecordCalls(auditor).committed(CLIENT, "g", "orders", 0, 12)
    assert auditor.calls == []


def test_start_and_close_reach_an_auditor_that_takes_no_batches() -> None:
    auditor = Noting()
    calls = RecordCalls(auditor)
    calls.start()
    calls.close(1.5)
    assert auditor.calls == [("start",), ("close", 1.5)]


def test_a_token_of_the_auditor_is_passed_to_its_record() -> None:
    class Tokens(Noting):
        def audit_token(self, key: bytes | None, value: bytes | None) -> object:
            return "token"

    auditor = Tokens()
    RecordCalls(auditor).produced(CLIENT, "orders", 0, BatchCount(1, 1, 1, result=Result.UNKNOWN))
    assert [call[0] for call in auditor.calls] == ["token"]


def test_an_auditor_that_overrides_nothing_ignores_everything() -> None:
    auditor = BatchAuditor()
    auditor.configure({})
    auditor.start()
    auditor.produced(CLIENT, "orders", 0, BatchCount(1, 1, 1, result=Result.ACKED, first_offset=0))
    auditor.delivered(CLIENT, None, "orders", 0, BatchCount(1, 1, 1, first_offset=0))
    auditor.close()


def test_types_can_be_added() -> None:
    assert AuditType("EXPIRED") not in (AuditType.ATTEMPT, AuditType.SUCCESS, AuditType.FAILURE)
    assert AuditType("ATTEMPT") == AuditType.ATTEMPT


def test_clients_with_the_same_id_and_principal_share_a_key() -> None:
    assert AuditedClient("app", None, "10.0.0.2").key == CLIENT.key
    assert AuditedClient("app", "User:a", "10.0.0.1").key != CLIENT.key
    assert AuditedClient(None, None, None).key != AuditedClient("None", None, None).key


def test_a_counter_of_an_auditors_own_has_to_count() -> None:
    with pytest.raises(NotImplementedError):
        ProduceCounter().count(BatchCount(0, 1, 10, result=Result.ACKED, first_offset=0))
    with pytest.raises(NotImplementedError):
        FetchCounter().count(BatchCount(0, 1, 10, first_offset=0))


@pytest.mark.parametrize(("first", "last"), [(NO_OFFSET, NO_OFFSET), (0, 4), (7, 11)])
def test_a_batch_ends_at_its_last_record_unless_given_otherwise(first: int, last: int) -> None:
    assert BatchCount(0, 5, 10, first_offset=first).last_offset == last
    assert BatchCount(0, 5, 10, first_offset=first, last_offset=20).last_offset == 20


def test_an_auditor_without_a_lock_can_be_counted_with_again_and_again() -> None:
    auditor = BatchAuditor()
    with auditor.counting, auditor.counting:
        auditor.produce_counter(CLIENT, "orders", 0).count(BatchCount(1, 1, 1, result=Result.ACKED))


def test_names_with_two_ids_are_two_topics_and_each_is_its_name() -> None:
    first, second, again = TopicName("t", b"1" * 16), TopicName("t", b"2" * 16), TopicName("t", b"1" * 16)
    assert first != second
    assert first == again
    assert first == "t"
    assert second == "t"
    assert first != "u"
    assert len({first, second, again}) == 2
