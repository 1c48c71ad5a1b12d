"""Requests that pass because others that began alike did."""

from __future__ import annotations

from struct import pack

import pytest
from support.client import Somebody

from kafka_sidecar.proxy.interception.passing import Passing, passes

BEFORE = bytes(12)  # length, api key, version, correlation id
HEAD = b"\x00\x03app" + b"orders"


def test_a_request_that_begins_alike_passes_and_no_other() -> None:
    client, goes_on = Somebody(), pack(">i", 1) + b"\x01"
    assert not passes(client, "note", 7, BEFORE + HEAD + goes_on, 0)
    client.notes["note"] = Passing(7, HEAD, b"\x01")
    assert passes(client, "note", 7, b"xx" + BEFORE + HEAD + goes_on + b"rest", 2)
    assert not passes(client, "note", 8, BEFORE + HEAD + goes_on, 0)
    assert not passes(client, "other", 7, BEFORE + HEAD + goes_on, 0)
    assert not passes(client, "note", 7, BEFORE + HEAD[:-1] + b"x" + goes_on, 0)


@pytest.mark.parametrize(
    ("epoch", "topics", "expected"),
    [(1, b"\x01", True), (2**31 - 1, b"\x01", True), (0, b"\x01", False), (-1, b"\x01", False), (1, b"\x02", False)],
)
def test_of_a_session_that_goes_on_those_pass_that_name_no_topic(epoch: int, topics: bytes, expected: bool) -> None:
    passing = Passing(7, HEAD, no_topics=b"\x01")
    assert passing.fits(7, BEFORE + HEAD + pack(">i", epoch) + topics + b"rest", 0) is expected


def test_a_request_that_is_not_all_here_does_not_pass() -> None:
    passing = Passing(7, HEAD, no_topics=b"\x01")
    frame = BEFORE + HEAD + pack(">i", 1) + b"\x01"
    assert [passing.fits(7, frame[:end], 0) for end in range(len(frame))] == [False] * len(frame)
