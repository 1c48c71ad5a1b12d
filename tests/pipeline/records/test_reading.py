"""Slices of segment files, of topics with large messages and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.in_process import config
from support.large_logs import Log

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.records import batches
from kafka_sidecar.large_messages.reading import Read
from kafka_sidecar.pipeline.records.segments import find_segments, read_again
from kafka_sidecar.pipeline.records.source import read_slice
from kafka_sidecar.pipeline.replay.job import Job, Outcome
from kafka_sidecar.pipeline.replay.source import replay_slice
from pipeline.records.logs import write_log
from pipeline.records.test_whole import SHOWN, log_of_both_formats

LARGE: dict[str, Any] = {"large_messages": {"topics": [{"name": "orders"}]}}


def test_a_slice_of_segment_files_has_whole_records(tmp_path: Path) -> None:
    log = log_of_both_formats()
    for topic in ("orders", "raw"):
        write_log(tmp_path, topic, 0, log.batches, per_file=3)
    parts = find_segments(tmp_path, ["orders", "raw"])
    rows = {part.topic: list(read_slice(config("a:1", **LARGE), part)) for part in parts}
    assert [(row[4], row[1]) for row in rows["orders"]] == SHOWN
    assert len(rows["raw"]) == log.end  # it has no large messages by the configuration


def test_segment_files_are_read_from_any_offset(tmp_path: Path) -> None:
    log = log_of_both_formats()
    write_log(tmp_path, "orders", 0, log.batches, per_file=3)
    (part,) = find_segments(tmp_path, ["orders"])
    for offset in range(log.end):
        for max_bytes in (1, 10_000, 1 << 20):
            assert read_again(part, Read(offset, max_bytes)).records == b"".join(expected(log, offset, max_bytes))
    assert read_again(part, Read(log.end, 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def expected(log: Log, offset: int, max_bytes: int) -> list[bytes]:
    """Whole batches, one at least."""
    at = next(index for index, data in enumerate(log.batches) if end_of(data) > offset)
    ends = [end for end in range(at + 1, len(log.batches) + 1) if len(b"".join(log.batches[at:end])) <= max_bytes]
    return log.batches[at : max([at + 1, *ends])]


def end_of(data: bytes) -> int:
    header = batches(data)[0].header
    return header.base_offset + header.last_offset_delta + 1


def test_replay_validates_whole_values(tmp_path: Path) -> None:
    log = log_of_both_formats()
    for topic in ("orders", "raw"):
        write_log(tmp_path, topic, 0, log.batches)
    for part in find_segments(tmp_path, ["orders", "raw"]):
        rows = list(replay_slice(Job(config("a:1", **LARGE), "json"), part))
        rejected = [row.offset for row in rows if row.outcome == Outcome.REJECTED.value]
        (validated,) = (row.records for row in rows if row.outcome == Outcome.VALIDATED.value)
        if part.topic == "orders":
            assert (rejected, validated) == ([0, 11, 13], len(SHOWN))
        else:  # slices and carriers are no JSON
            assert (len(rejected), validated) == (log.end, log.end)
