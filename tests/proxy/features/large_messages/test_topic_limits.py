"""What is known of topics whose names clients have chosen."""

from __future__ import annotations

import pytest

from kafka_sidecar.proxy.features.large_messages.topic_limits import TopicLimit, TopicLimits

LONGEST = "x" * 249  # that Kafka has


@pytest.mark.parametrize(("name", "is_kept"), [(LONGEST, True), (LONGEST + "x", False), ("x" * 32_000, False)])
def test_no_name_is_kept_that_no_topic_can_have(name: str, is_kept: bool) -> None:
    limits = TopicLimits(lambda: 0.0)
    assert limits.learn(name, b"no response").max_batch == TopicLimit().max_batch
    assert (limits.find(name) is not None) == is_kept
    limits.lower(name, TopicLimit(), 1000)
    limits.forget(name)
    assert limits.was_needed(name) == is_kept
