"""Names that topics may have: those that Kafka's own check accepts."""

from __future__ import annotations

import pytest

from kafka_sidecar.codec.topic_names import is_topic_name


@pytest.mark.parametrize("name", ["orders", "a", "A-b_c.9", "...", ".a", "o" * 249, "__consumer_offsets"])
def test_a_name_that_kafka_accepts_is_one(name: str) -> None:
    assert is_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "o" * 250, "a b", "a/b", "a\n", "\n", "ü", "\udcff", "a\0"])
def test_a_name_that_kafka_rejects_is_none(name: str) -> None:
    assert not is_topic_name(name)
