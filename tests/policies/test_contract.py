"""What the contract's own values mean."""

from __future__ import annotations

import pytest

from kafka_sidecar.policies.contract import (
    ALL,
    Hints,
    InvalidRecordError,
    RecordValidationPolicy,
)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Hints(), Hints(), Hints()),
        (Hints(access_key_bytes=3), Hints(access_key_bytes=5), Hints(access_key_bytes=5)),
        (Hints(access_value_bytes=ALL), Hints(access_value_bytes=5), Hints(access_value_bytes=ALL)),
        (Hints(access_headers=True), Hints(access_metadata=True), Hints(access_headers=True, access_metadata=True)),
    ],
)
def test_two_policies_need_the_larger_of_what_each_needs(one: Hints, other: Hints, both: Hints) -> None:
    assert one | other == other | one == both


def test_contents_are_needed_by_whoever_needs_anything_of_a_record() -> None:
    assert not Hints().access_contents
    for hints in (Hints(True), Hints(access_key_bytes=1), Hints(access_value_bytes=ALL), Hints(access_metadata=True)):
        assert hints.access_contents


def test_a_policy_that_says_nothing_sees_all_of_a_record() -> None:
    hints = RecordValidationPolicy().hints()
    assert (hints.access_headers, hints.access_key_bytes, hints.access_value_bytes) == (True, ALL, ALL)


def test_a_refusal_carries_its_reason_beside_its_message() -> None:
    refused = InvalidRecordError("no", "size")
    assert (str(refused), refused.reason) == ("no", "size")
    assert InvalidRecordError("no").reason == "rejected"
