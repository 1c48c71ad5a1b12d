"""A policy sees only the fields of a record that its hints name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_sidecar.policies.contract import ALL, Hints, RecordValidationPolicy, TopicMetadata
from kafka_sidecar.policies.plans import Plan, PolicyFailedError, Rule

LIMIT = 1 << 20
Batches = Callable[..., Any]


class Looking(RecordValidationPolicy):
    """Accesses a field of every record."""

    def __init__(self, look: Callable[[Any], object], hints: Hints) -> None:
        self.look, self.wanted = look, hints

    def hints(self) -> Hints:
        return self.wanted

    def validate(self, topic: TopicMetadata, record: Any) -> None:
        self.look(record)


def looking(look: Callable[[Any], object], hints: Hints) -> Rule:
    return Rule("looking", Looking(look, hints), hints=hints)


SIGHTS: dict[str, tuple[Callable[[Any], object], object]] = {
    "access_key_bytes": (lambda record: record.key, b"some key"),
    "access_value_bytes": (lambda record: record.value, b"some value"),
    "access_headers": (lambda record: [(one.key, one.value) for one in record.headers], [("h", b"v")]),
}


@pytest.mark.parametrize("part", SIGHTS)
@pytest.mark.parametrize("asked", SIGHTS)
def test_a_policy_sees_only_the_fields_in_its_hints(
    part: str, asked: str, batch: Batches, orders: TopicMetadata
) -> None:
    look, expected = SIGHTS[part]
    seen: list[object] = []
    values: dict[str, Any] = {asked: True if asked == "access_headers" else ALL}
    plan = Plan((looking(lambda record: seen.append(look(record)), Hints(**values)),))
    contents = batch({"key": b"some key", "value": b"some value", "headers": [("h", b"v")]})
    if part == asked:
        plan.validate(orders, contents, LIMIT)
        assert seen == [expected]
    else:
        with pytest.raises(PolicyFailedError) as failed:
            plan.validate(orders, contents, LIMIT)
        assert part in str(failed.value.error)


def test_hints_of_another_policy_show_no_more_fields(batch: Batches, orders: TopicMetadata) -> None:
    curious = looking(lambda record: record.value, Hints(access_headers=True))
    entitled = looking(lambda record: record.value, Hints(access_value_bytes=ALL))
    with pytest.raises(PolicyFailedError):
        Plan((entitled, curious)).validate(orders, batch({}), LIMIT)


def test_a_hint_of_some_bytes_shows_only_the_first_bytes(batch: Batches, orders: TopicMetadata) -> None:
    seen: list[object] = []

    def look(record: Any) -> None:
        seen.extend([record.value, record.value_prefix(2), record.key, record.key_prefix(1)])

    hints = Hints(access_key_bytes=2, access_value_bytes=4)
    Plan((looking(look, hints),)).validate(orders, batch({"key": b"abc", "value": b"012345"}), LIMIT)
    assert seen == [b"0123", b"01", b"ab", b"a"]
    for size in (5, ALL):
        too_far = looking(lambda record, size=size: record.value_prefix(size), hints)  # type: ignore[misc]
        with pytest.raises(PolicyFailedError):
            Plan((too_far,)).validate(orders, batch({"value": b"012345"}), LIMIT)


def test_with_access_metadata_sizes_and_timestamps_are_visible(batch: Batches, orders: TopicMetadata) -> None:
    seen: list[object] = []

    def look(record: Any) -> None:
        seen.extend([record.timestamp, record.key_size, record.value_size, record.index])

    contents = batch({"key": b"abc", "value": b"012345", "timestamp": 17})
    Plan((looking(look, Hints(access_metadata=True)),)).validate(orders, contents, LIMIT)
    assert seen == [17, 3, 6, 0]
