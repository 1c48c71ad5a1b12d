"""Which changes of a log are a loss of what was read, and which are its normal life."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from kafka_sidecar.proxy.features.topic_configs.kafka_store import LogHistory, LogLostError

ID, OTHER_ID, MISSING = b"1" * 16, b"2" * 16, bytes(16)


def history() -> LogHistory:
    """Of a log with records at the offsets 3 to 6, of which 4 and 6 are current."""
    read = LogHistory()
    for offset, key, value in ((3, b"a", b"1"), (4, b"b", b"1"), (5, b"a", None), (6, b"c", b"1")):
        read.read(offset, key, value)
    return read


@pytest.mark.parametrize(
    ("start", "end", "lost"),
    [
        (0, 7, None),
        (0, 9, None),
        (4, 7, None),  # the record at 3 was deleted before
        (5, 7, "records were deleted: now it begins at offset 5"),
        (7, 7, "records were deleted"),
        (0, 6, "it was truncated: it was read up to offset 7, now it ends at 6"),
        (0, 0, "it was truncated"),
    ],
)
def test_a_log_must_hold_the_current_records(start: int, end: int, lost: str | None) -> None:
    with pytest.raises(LogLostError, match=lost) if lost else nullcontext():
        history().check_offsets(start, end)


def test_an_emptied_log_without_current_records_is_no_loss() -> None:
    read = LogHistory()
    read.read(0, b"a", b"1")
    read.read(1, b"a", None)
    read.check_offsets(2, 2)


def test_a_topic_that_was_created_again_stays_another_one() -> None:
    read = history()
    read.check_id(ID)
    with pytest.raises(LogLostError, match="created again"):
        read.check_id(OTHER_ID)
    for topic_id in (ID, OTHER_ID, None):  # ID: of a broker that lags
        with pytest.raises(LogLostError, match="its id was MTExMTExMTExMTExMTExMQ, now it is MjIy"):
            read.check_id(topic_id)
    with pytest.raises(LogLostError, match="created again"):
        read.check_offsets(0, 7)


def test_a_topic_that_is_missing_may_come_back() -> None:
    read = history()
    for topic_id in (MISSING, None, ID):  # created just now: no broker knows it
        read.check_id(topic_id)
    with pytest.raises(LogLostError, match="it no longer exists"):
        read.check_id(MISSING)
    read.check_id(None)
    read.check_id(ID)
    read.check_offsets(0, 7)


def test_a_log_that_grew_again_after_it_was_truncated_is_still_lost() -> None:
    read = history()
    for end in (6, 100):
        with pytest.raises(LogLostError, match="now it ends at 6"):
            read.check_offsets(0, end)
