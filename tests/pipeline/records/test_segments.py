"""Segment files, as brokers and backups have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_sidecar.pipeline.records.segments import SegmentError, find_segments, read_segments
from pipeline.records.logs import sent_batches, stored, write_log


def test_the_batches_of_all_files_are_read_in_order(tmp_path: Path) -> None:
    log = stored(sent_batches(2000))
    write_log(tmp_path, "a-b", 12, log, per_file=7)
    write_log(tmp_path, "other", 0, log)
    (part,) = find_segments(tmp_path, ["a-b"])
    assert (part.topic, part.partition) == ("a-b", 12)
    assert len(part.files) > 5
    assert [bytes(batch.data) for batch in read_segments(part)] == log


def test_what_a_broker_allocates_in_advance_is_not_read(tmp_path: Path) -> None:
    log = stored(sent_batches(100))
    write_log(tmp_path, "t", 0, log)
    (file,) = (tmp_path / "t-0").iterdir()
    file.write_bytes(file.read_bytes() + bytes(4096))
    (tmp_path / "t-0" / "99999999999999999999.log").touch()
    (part,) = find_segments(tmp_path, ["t"])
    assert [bytes(batch.data) for batch in read_segments(part)] == log


def test_a_file_that_is_none_is_an_error_with_its_place(tmp_path: Path) -> None:
    write_log(tmp_path, "t", 0, [b"x" * 100])
    (part,) = find_segments(tmp_path, ["t"])
    with pytest.raises(SegmentError, match=r"\.log, byte 0: unknown magic"):
        list(read_segments(part))


def test_a_missing_topic_is_an_error_with_the_expected_names(tmp_path: Path) -> None:
    with pytest.raises(SegmentError, match=r"no segment files of t: expected .*/TOPIC-PARTITION/\*\.log"):
        find_segments(tmp_path, ["t"])
