"""What a replay does that the proxy does not: ranges, control batches, old formats, groups, and the time of the log."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import pytest
from support.in_process import config

from kafka_sidecar.codec.records import Header, NewRecord, batches, build_batch, build_commit_marker
from kafka_sidecar.pipeline.records.slices import Slice
from kafka_sidecar.pipeline.replay.job import Grouping, Job, Outcome, Row
from kafka_sidecar.pipeline.replay.validation import NoPolicyError, Replay, find_applied, open_rules
from pipeline.records.logs import SENT_AT

RECORDS = [NewRecord(b"{}", b"a"), NewRecord(b"{", b"b", [Header("h", b"1")]), NewRecord(b"{", None)]


def replayed(policy: str, log: Sequence[bytes], part: Slice, grouping: Grouping | None = None) -> list[Row]:
    job = Job(config("a:1"), policy, grouping)
    found = [batch for one in log for batch in batches(one)]
    return list(Replay(job, "t", find_applied(open_rules(job), "t")).rows(part, found))


def build(first: int, **more: int) -> bytes:
    return build_batch(RECORDS, base_offset=first, base_timestamp=SENT_AT, **more)


def test_a_rejected_batch_is_counted_once_with_all_its_records() -> None:
    *rejected, sums = replayed("json", [build(10)], Slice("t", 0, 10, 13))
    assert [(row.offset, row.records, row.batches, row.batch_records) for row in rejected] == [
        (11, 1, 1, 3),
        (12, 1, 0, 0),
    ]
    assert (sums.outcome, sums.records, sums.batches) == (Outcome.VALIDATED.value, 3, 1)


def test_batches_outside_the_range_and_control_batches_are_not_validated() -> None:
    marker = build_commit_marker(batches(build(6))[0], 6, 6)
    log = [build(0), build(3), marker, build(7)]
    *rejected, sums = replayed("json", log, Slice("t", 0, 4, 9))
    assert {row.batch_offset for row in rejected} == {3}
    assert sums.batches == 1


def test_an_old_message_is_counted_as_one_that_cannot_be_validated() -> None:
    body = struct.pack(">IBBi", 0, 0, 0, -1) + struct.pack(">i", -1)
    row, _ = replayed("json", [struct.pack(">qi", 5, len(body)) + body], Slice("t", 0, 0, 10))
    assert (row.batch_offset, row.policy, row.reason) == (5, "(structure)", "old_format")


def test_records_that_cannot_be_read_are_rejected_with_the_brokers_code() -> None:
    broken = bytearray(build(0))
    broken[-1] = 9  # one header more than there is
    row, _ = replayed("json", [bytes(broken)], Slice("t", 0, 0, 10))
    assert (row.reason, row.error_code, row.offset) == ("unreadable", 87, None)


@pytest.mark.parametrize(
    ("grouping", "groups"),
    [
        (Grouping(), [hashlib.sha256(b"b").hexdigest()[:16], "(none)"]),
        (Grouping(plain=True), ["b", "(none)"]),
        (Grouping("h", plain=True), ["1", "(none)"]),
        (None, [None, None]),
    ],
)
def test_rejected_records_are_grouped_by_key_or_header(grouping: Grouping | None, groups: list[str | None]) -> None:
    *rejected, _ = replayed("json", [build(0)], Slice("t", 0, 0, 3), grouping)
    assert [row.by for row in rejected] == groups


def test_a_topic_without_a_policy_is_an_error_with_its_remedy() -> None:
    with pytest.raises(NoPolicyError, match="t has no policy: give one with --policy"):
        find_applied(open_rules(Job(config("a:1"))), "t")
