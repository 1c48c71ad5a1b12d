"""Timestamps within a window around the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.policies.builtin.timestamp import Timestamp
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import TopicMetadata

NOW = 1_700_000_000_000  # ms
HOUR = 3_600_000


@pytest.fixture
def reasons(orders: TopicMetadata) -> Callable[..., list[tuple[int, str, str]]]:
    def of(settings: dict[str, Any], *timestamps: int) -> list[tuple[int, str, str]]:
        policy = Timestamp(clock=lambda: NOW / 1000)
        policy.configure(settings)
        (batch,) = batches(build_batch([NewRecord(b"", timestamp_delta=at) for at in timestamps]))
        return [(fault.index, fault.reason, fault.message) for fault in policy.validate_batch(orders, batch.records())]

    return of


def test_by_default_a_timestamp_up_to_an_hour_ahead_is_accepted(reasons: Callable[..., Any]) -> None:
    text = "Topic orders requires record timestamps at most 3600000 ms after the sidecar's clock"
    assert reasons({}, 0, NOW, NOW + HOUR, NOW + HOUR + 1) == [(3, "timestamp_ahead", text)]


def test_a_timestamp_older_than_the_limit_is_rejected(reasons: Callable[..., Any]) -> None:
    text = "Topic orders requires record timestamps at most 5400000 ms before the sidecar's clock"
    found = reasons({"before_max": "1h30m"}, NOW - HOUR * 3 // 2, NOW - HOUR * 3 // 2 - 1)
    assert found == [(1, "timestamp_too_old", text)]


def test_the_limit_for_future_timestamps_can_be_disabled(reasons: Callable[..., Any]) -> None:
    assert reasons({"before_max": "1s", "after_max": None}, NOW + 100 * HOUR) == []


def test_a_record_without_a_timestamp_is_accepted_unless_one_is_required(reasons: Callable[..., Any]) -> None:
    assert reasons({"before_max": "1s"}, -1) == []
    text = "Topic orders requires records to have a timestamp"
    assert reasons({"required": True}, NOW, -1) == [(1, "no_timestamp", text)]


def test_a_negative_timestamp_other_than_minus_one_is_a_timestamp(reasons: Callable[..., Any]) -> None:
    assert [(index, why) for index, why, _ in reasons({"before_max": "1s"}, -2, -1)] == [(0, "timestamp_too_old")]
    assert reasons({"required": True}, -2) == []


def test_the_system_clock_is_the_default(batch: Callable[..., Any], orders: TopicMetadata) -> None:
    plan = PolicyCatalog({"recent": PolicySettings("timestamp", settings={"before_max": "1d"})}).plan("recent")
    assert [one.reason for one in plan.validate(orders, batch({"timestamp": NOW}), 1 << 20)] == ["timestamp_too_old"]


def test_only_record_metadata_is_accessed() -> None:
    hints = PolicyCatalog({}).plan("timestamp").hints
    assert (hints.access_metadata, hints.access_headers, hints.access_value_bytes) == (True, False, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"after_max": None}, "has no effect"),
        ({"before_max": 5}, "before_max: write a duration with its unit"),
        ({"before_max": "-5s"}, "before_max: write a duration with its unit"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PolicyCatalog({"it": PolicySettings("timestamp", settings=settings)})
