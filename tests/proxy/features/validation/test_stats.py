"""Counters and recent rejected batches: bounded, without payloads, with rate-limited log lines."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.produce_requests import BAD, GOOD, Validating, batch

from kafka_sidecar.policies.contract import TopicMetadata
from kafka_sidecar.policies.plans import PolicyFailedError, Rejection
from kafka_sidecar.proxy.features.validation import stats as stats_module
from kafka_sidecar.proxy.features.validation.rejections import MAX_ERRORS
from kafka_sidecar.proxy.features.validation.stage import Origin, Sender
from kafka_sidecar.proxy.features.validation.stats import LOG_INTERVAL_S, OTHER, ValidationStats
from kafka_sidecar.proxy.telemetry.logs import JsonLines

ORDERS = TopicMetadata("orders", 3, bytes(16), "json")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def refusal(index: int = 0, reason: str = "no_json", policy: str = "json") -> Rejection:
    return Rejection(index, "ends too early", policy, reason)


APP = Origin(Sender(7, "10.0.0.1", "app"))


def topic(name: str) -> TopicMetadata:
    return TopicMetadata(name, 0, bytes(16), "json")


def test_rejected_records_are_counted_by_topic_policy_mode_and_reason() -> None:
    seen = ValidationStats(Clock())
    seen.rejected(ORDERS, [refusal(1), refusal(4), refusal(5, "too_large", "limits")], True, APP)
    seen.rejected(ORDERS, [refusal(0)], False, APP)
    assert seen.rejections == {
        ("orders", "json", "enforce", "no_json"): 2, ("orders", "limits", "enforce", "too_large"): 1,
        ("orders", "json", "shadow", "no_json"): 1,
    }  # fmt: skip


def test_the_line_of_a_batch_that_was_stored_says_that_it_would_be_rejected(caplog: pytest.LogCaptureFixture) -> None:
    for is_enforced in (True, False):
        ValidationStats(Clock()).rejected(ORDERS, [refusal()], is_enforced, APP)
    found = [(one.getMessage(), vars(one)["mode"]) for one in caplog.records]
    assert found == [("records rejected", "enforce"), ("records would be rejected", "shadow")]


def test_a_rejected_batch_is_stored_with_its_first_record_and_its_sender() -> None:
    seen = ValidationStats(Clock())
    found = seen.rejected(ORDERS, [refusal(4), refusal(5)], True, APP)
    (last,) = seen.recent.newest()
    assert (last.id, last.at, last.topic, last.partition, last.mode) == (found, 1000.0, "orders", 3, "enforce")
    assert (last.policy, last.reason, last.message, last.index) == ("json", "no_json", "ends too early", 4)
    assert (last.rejected_records, last.origin, last.errors) == (2, APP, (refusal(4), refusal(5)))


def test_a_failed_policy_is_among_the_rejected_batches_without_the_text_of_its_error() -> None:
    seen = ValidationStats(Clock())
    found = seen.failed(ORDERS, PolicyFailedError("json", RuntimeError("quotes 4111")), True, APP)
    last = seen.recent.find(found)
    assert last is not None
    assert (last.policy, last.reason, last.message) == ("json", "policy_failed", "the policy failed: RuntimeError")


def test_of_a_batch_with_many_rejected_records_the_first_ones_are_stored() -> None:
    seen = ValidationStats(Clock())
    seen.rejected(ORDERS, [refusal(index) for index in range(1000)], True, APP)
    (last,) = seen.recent.newest()
    assert (last.rejected_records, len(last.errors)) == (1000, MAX_ERRORS)


def test_labels_are_bounded_however_many_topics_and_reasons_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_module, "MAX_SERIES", 10)
    seen = ValidationStats(Clock())
    for number in range(50):
        seen.rejected(topic(f"t{number}"), [refusal()], True)
        seen.rejected(topic("t1"), [refusal(reason=f"r{number}")], True)
    assert len(seen.rejections) == 11
    assert seen.rejections.total() == 100
    assert seen.rejections[OTHER, "json", "enforce", OTHER] == 90


def test_configured_topics_have_series_of_their_own_when_clients_have_filled_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stats_module, "MAX_SERIES", 10)
    seen = ValidationStats(Clock(), is_reserved=lambda topic: topic.startswith("payments"))
    for number in range(50):
        seen.rejected(topic(f"t{number}"), [refusal()], True)
    seen.rejected(topic("payments"), [refusal()] * 3, True)
    assert seen.rejections["payments", "json", "enforce", "no_json"] == 3
    for number in range(50):
        seen.rejected(topic(f"payments-{number}"), [refusal()], True)
    assert len(seen.rejections) == 20


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records]


def test_one_line_for_each_kind_is_written_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    seen = ValidationStats(clock)
    for _ in range(5):
        seen.rejected(ORDERS, [refusal(2)], True, APP)
        seen.rejected(topic("other"), [refusal()], True, APP)
    clock.now += LOG_INTERVAL_S
    seen.rejected(ORDERS, [refusal(2)], True, APP)
    assert [(line["topic"], line["suppressed"]) for line in lines(caplog)] == [
        ("orders", 0),
        ("other", 0),
        ("orders", 4),
    ]
    last = lines(caplog)[-1]
    assert (last["levelno"], last["message"]) == (logging.WARNING, "records rejected")
    assert (last["policy"], last["mode"], last["reason"], last["index"]) == ("json", "enforce", "no_json", 2)
    assert (last["detail"], last["client_id"], last["rejected_records"]) == ("ends too early", "app", 1)
    assert (last["rejection"], last["session"]) == (next(iter(seen.recent.newest())).id, 7)


def test_a_failing_policy_is_counted_and_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    seen = ValidationStats(Clock())
    for enforced in (True, True, False):
        seen.failed(ORDERS, PolicyFailedError("json", RuntimeError("a bug")), enforced)
    seen.policy_failed("json", RuntimeError("a bug"))
    seen.policy_failed("json", KeyError("another"))
    assert seen.failures == {("json", "enforce"): 2, ("json", "shadow"): 1, ("json", "open"): 2}
    assert [(line["message"], line["mode"]) for line in lines(caplog)] == [
        ("policy failed", "enforce"), ("policy failed", "open"),
    ]  # fmt: skip
    assert lines(caplog)[0]["exc_info"][0] is RuntimeError


@pytest.mark.parametrize(("level", "is_logged"), [("INFO", False), ("DEBUG", True)])
def test_the_text_of_a_failure_may_quote_a_record_and_is_logged_at_debug_only(
    level: str, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level)
    secret = "4111" * 4
    try:
        int(f"card {secret}")
    except ValueError as error:
        ValidationStats(Clock()).policy_failed("json", error)
    written = JsonLines().format(caplog.records[0])
    assert "ValueError" in written
    assert "test_stats.py" in written
    assert (secret in written) is is_logged


def test_invalid_batches_are_counted_without_a_policy() -> None:
    seen = ValidationStats(Clock())
    seen.unreadable(ORDERS, "not a record batch", True)
    seen.misconfigured("orders", [1, 4], "there is no policy", False)
    seen.misconfigured("orders", [], "there is no policy", False)
    assert seen.rejections == {
        ("orders", "(structure)", "enforce", "unreadable"): 1,
        ("orders", "(configuration)", "shadow", "misconfigured"): 2,
    }
    assert [(one.partition, one.index, one.message) for one in seen.recent.newest()] == [
        (1, -1, "there is no policy"), (3, -1, "not a record batch"),
    ]  # fmt: skip


def test_what_a_request_counts() -> None:
    validation = Validating()
    validation.validated(9, {"a": {0: BAD, 1: GOOD, 2: batch("bug")}})
    seen = validation.stats
    assert seen.rejections == {("a", "stub", "enforce", "bad"): 2}
    assert seen.failures == {("stub", "enforce"): 1}
    assert (seen.batches, seen.records) == ({"contents": 3}, 6)
