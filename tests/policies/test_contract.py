"""The values of the contract: hints and rejections."""

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
def test_the_hints_of_two_policies_combine_to_the_larger_of_each(one: Hints, other: Hints, both: Hints) -> None:
    assert one | other == other | one == both


def test_any_access_to_records_needs_the_contents_of_the_batch() -> None:
    assert not Hints().access_contents
    for hints in (Hints(True), Hints(access_key_bytes=1), Hints(access_value_bytes=ALL), Hints(access_metadata=True)):
        assert hints.access_contents


def test_without_hints_a_policy_sees_whole_records() -> None:
    hints = RecordValidationPolicy().hints()
    assert (hints.access_headers, hints.access_key_bytes, hints.access_value_bytes) == (True, ALL, ALL)


def test_a_rejection_has_a_reason_and_a_message() -> None:
    refused = InvalidRecordError("no", "size")
    assert (str(refused), refused.reason) == ("no", "size")
    assert InvalidRecordError("no").reason == "rejected"
