"""Policies can be tested without a proxy, under the same rules."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_sidecar.policies.contract import Hints, InvalidRecordError, RecordValidationPolicy, TopicMetadata, Unresolved
from kafka_sidecar.policies.plans import PolicyFailedError, ResolveRequired
from kafka_sidecar.policies.testing import Example, check, check_batch


class Echo(RecordValidationPolicy):
    """Rejects every record with what it got as the message."""

    def check(self, text: str) -> None:
        if text == "bad":
            raise ValueError("bad")

    def validate(self, topic: TopicMetadata, record: Any) -> None:
        headers = [(one.key, one.value) for one in record.headers]
        seen = (topic.topic, topic.validation_policy, record.key, record.value, headers, record.timestamp)
        raise InvalidRecordError(repr(seen))


class Hasty(RecordValidationPolicy):
    def hints(self) -> Hints:
        return Hints(access_headers=True)

    def validate(self, topic: TopicMetadata, record: Any) -> None:
        raise InvalidRecordError(record.value)


class Asking(RecordValidationPolicy):
    def validate(self, topic: TopicMetadata, record: Any) -> None:
        raise Unresolved("schema 1")


def test_a_policy_gets_the_given_record_and_topic() -> None:
    headers = [("a", b"1"), ("a", None)]
    error = check(Echo(), value=b"v", key=b"k", headers=headers, timestamp=17, topic="orders", argument="x")
    assert error == repr(("orders", "x", b"k", b"v", headers, 17))


def test_an_accepted_record_returns_none() -> None:
    assert check("key", key=b"k") is None
    assert check("key") == "Topic topic requires records to have a key"


def test_several_records_are_validated_as_one_batch() -> None:
    found = check_batch("key, timestamp", [Example(key=b"k", timestamp=5), Example(timestamp=1 << 50), Example()])
    assert [(one.index, one.reason) for one in found] == [(1, "no_key"), (2, "no_key")]


def test_a_policy_cannot_access_fields_that_its_hints_do_not_name() -> None:
    with pytest.raises(PolicyFailedError):
        check(Hasty(), value=b"v")


def test_an_unresolved_value_is_raised_to_the_caller() -> None:
    with pytest.raises(ResolveRequired) as waiting:
        check(Asking())
    assert waiting.value.key == "schema 1"


def test_an_argument_is_checked_before_validation() -> None:
    with pytest.raises(ValueError, match="bad"):
        check(Echo(), argument="bad")
