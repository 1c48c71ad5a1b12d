"""How entries are written, and which of them applies to a name."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.proxy.features.topic_configs.entries import MAX_LAG_S, Entries, Entry, entry_of, id_of, record_of

POLICY = "record.validation.policy"
ONE, TWO = b"1" * 16, b"2" * 16
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\udcff\udc80"))


def entry(topic_id: bytes, policy: str = "headers", topic: str = "orders") -> Entry:
    return Entry(topic, topic_id, {POLICY: policy})


@given(st.binary(min_size=16, max_size=16), TEXTS, st.dictionaries(TEXTS, TEXTS, min_size=1))
def test_a_written_entry_can_be_read(topic_id: bytes, topic: str, configs: dict[str, str]) -> None:
    key, value = record_of(Entry(topic, topic_id, configs))
    assert id_of(key) == topic_id
    assert value is not None
    assert entry_of(topic_id, value) == Entry(topic, topic_id, configs)


def test_an_entry_can_be_read_by_a_person() -> None:
    key, value = record_of(entry(b"\xfb" * 16))
    assert key == b"-_v7-_v7-_v7-_v7-_v7-w"  # as kafka-topics.sh --describe prints it
    assert json.loads(value or b"") == {"version": 1, "topic": "orders", "configs": {POLICY: "headers"}}


@given(st.binary())
def test_any_key_is_an_id_or_a_value_error(key: bytes) -> None:
    with suppress(ValueError):
        assert len(id_of(key)) == 16


@pytest.mark.parametrize(
    "value",
    [b"", b"\xff", b"[]", b"{}", b"1", b'{"version": 2, "topic": "a", "configs": {}}', b'{"version": 1, "topic": "a"}',
     b'{"version": 1, "topic": 1, "configs": {}}', b'{"version": 1, "topic": "a", "configs": {"a": null}}',
     b'{"version": 1, "topic": "a", "configs": {"a": "\\ud800"}}',
     b'{"version": 1, "topic": "a", "configs": {"a": "%s"}}' % (b"x" * 32768)],
)  # fmt: skip
def test_an_invalid_value_is_a_value_error(value: bytes) -> None:
    with pytest.raises(ValueError):
        entry_of(ONE, value)


def test_an_entry_applies_to_its_topic_id_only() -> None:
    entries = Entries()
    entries.set(entry(ONE), 0.0)
    assert entries.configs("orders", ONE) == {POLICY: "headers"}
    assert entries.configs("orders", TWO) == {}
    assert entries.configs("payments", ONE) == {}


def test_a_name_means_the_topic_that_has_it_now() -> None:
    entries = Entries()
    entries.set(entry(ONE), 0.0)
    assert entries.configs("orders") == {POLICY: "headers"}
    entries.update_ids([(TWO, "orders"), (ONE, "unknown")], MAX_LAG_S)
    assert entries.configs("orders") == {}
    assert list(entries.topics()) == ["orders"]
    entries.set(entry(TWO, "new"), MAX_LAG_S)
    assert entries.configs("orders") == {POLICY: "new"}
    assert [found.topic_id for found in entries.of("orders", bytes(16))] == [ONE, TWO]
    assert entries.of(None, TWO) == [entry(TWO, "new")]


def test_a_broker_that_lags_does_not_bring_the_former_id_back() -> None:
    entries = Entries()
    entries.set(entry(TWO, "new"), 100.0)
    for now in (100.0, 105.0, 109.0):
        entries.update_ids([(ONE, "orders")], now)
        assert entries.configs("orders") == {POLICY: "new"}
    entries.update_ids([(TWO, "orders")], 109.0)
    entries.update_ids([(ONE, "orders")], 118.9)
    assert entries.configs("orders") == {POLICY: "new"}


def test_an_id_that_brokers_no_longer_name_is_replaced() -> None:
    entries = Entries()
    entries.set(entry(ONE), 0.0)
    entries.update_ids([(ONE, "orders")], 20.0)
    entries.update_ids([(TWO, "orders")], 29.9)
    assert entries.configs("orders") == {POLICY: "headers"}
    entries.update_ids([(TWO, "orders")], 30.0)
    assert entries.configs("orders") == {}
    entries.update_ids([(ONE, "orders")], 39.9)  # the last broker that lags
    assert entries.configs("orders") == {}


def test_what_is_set_for_a_new_topic_applies_at_once() -> None:
    entries = Entries()
    entries.set(entry(ONE), 0.0)
    entries.update_ids([(ONE, "orders")], 20.0)
    entries.set(entry(TWO, "new"), 20.1)
    assert entries.configs("orders") == {POLICY: "new"}


def test_nothing_is_left_of_removed_entries() -> None:
    entries = Entries()
    for topic_id in (ONE, TWO, ONE):
        entries.set(entry(topic_id), 0.0)
    assert len(entries) == 2
    for topic_id in (ONE, TWO, ONE):
        entries.remove(topic_id)
    assert (len(entries), list(entries.topics())) == (0, [])
    entries.update_ids([(ONE, "orders")], 0.0)
    assert entries.of("orders", ONE) == []
