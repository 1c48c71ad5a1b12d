"""The headers that li's producers and consumers add."""

from __future__ import annotations

from kafka_sidecar.codec.records import Header, NewRecord, Records, batches, build_batch
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.special_headers import with_safe_offsets, with_timestamps

NOW, LIMIT = 1_700_000_000_000, 1 << 20


def records(*new: NewRecord, **header: int) -> Records:
    (batch,) = batches(build_batch(list(new), **header))
    return batch.records(LIMIT)


def headers(of: Records) -> list[list[tuple[str, bytes | None]]]:
    return [[(header.key, header.value) for header in record.headers] for record in of]


def test_each_record_gets_its_timestamp_in_8_bytes_after_its_own_headers() -> None:
    mine = Header("mine", b"x")
    got = with_timestamps(
        records(NewRecord(b"a", timestamp_delta=5), NewRecord(b"b", timestamp_delta=-1, headers=(mine,))), NOW
    )
    assert headers(got) == [
        [("_t", b"\0\0\0\0\0\0\0\5")], [("mine", b"x"), ("_t", NOW.to_bytes(8, "big"))],
    ]  # fmt: skip


def test_a_record_that_is_produced_again_to_another_topic_keeps_its_first_timestamp() -> None:
    before = records(NewRecord(b"a", timestamp_delta=9, headers=(Header("_t", b"\0\0\0\0\0\0\0\1"),)))
    assert with_timestamps(before, NOW) is before


def test_records_after_which_a_large_message_is_incomplete_get_the_safe_offset() -> None:
    """li's mixed log: M0 at 0, M1.0 at 1, M2 at 2, M3.0 and its end at 3 and 4, the end of M1 at 5."""
    intervals = Intervals()
    intervals.complete("t", 0, b"M1", 1, 5)
    intervals.complete("t", 0, b"M3", 3, 4)
    delivered = records(NewRecord(b"M0"), NewRecord(b"M2", offset_delta=2), NewRecord(b"M3", offset_delta=4),
                        NewRecord(b"M1", offset_delta=5), NewRecord(b"M6", offset_delta=6))  # fmt: skip
    got = with_safe_offsets(0, delivered, lambda committed: intervals.safe_offset("t", 0, committed))
    one = [("_so", b"\0\0\0\0\0\0\0\1")]
    assert headers(got) == [[], one, one, [], []]


def test_without_incomplete_messages_the_records_are_the_same() -> None:
    before = records(NewRecord(b"a"), NewRecord(b"b"))
    assert with_safe_offsets(7, before, lambda committed: committed) is before
