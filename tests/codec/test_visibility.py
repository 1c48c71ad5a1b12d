"""What consumers show of batches. Transactions are compared with Kafka's consumer in test_fetched_records.py."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.messages.share_fetch import AcquiredRecords
from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.codec.visibility import Visibility, acquired_only, all_visible, committed_only

SHOWN, NEVER, SKIPPED, OLD = Visibility.SHOWN, Visibility.NEVER, Visibility.SKIPPED, Visibility.OLD


def of(*values: bytes, base: int, **header: int) -> bytes:
    return build_batch([NewRecord(value) for value in values], base_offset=base, **header)


PLAIN = of(b"a", b"b", base=4)
CONTROL = build_batch([NewRecord(bytes(6), bytes((0, 0, 0, 1)))], attributes=0x30, base_offset=6, producer_id=1)
EMPTIED = build_batch([], base_offset=7, last_offset_delta=2)
OF_ONE = of(b"c", base=10, attributes=0x10, producer_id=1)
OLD_FORMAT = bytes(8) + (22).to_bytes(4, "big") + bytes(22)
ALL = PLAIN + CONTROL + EMPTIED + OF_ONE + OLD_FORMAT


def test_a_consumer_of_uncommitted_records_shows_all_but_control_batches_and_emptied_ones() -> None:
    assert [one for _, one in all_visible(batches(ALL))] == [SHOWN, NEVER, NEVER, SHOWN, OLD]


def test_a_consumer_of_committed_records_skips_aborted_ones() -> None:
    aborted = [AbortedTransaction(producer_id=1, first_offset=10)]
    assert [one for _, one in committed_only(aborted)(batches(ALL))] == [SHOWN, NEVER, NEVER, SKIPPED, OLD]


@pytest.mark.parametrize(
    ("acquired", "plain", "of_one"),
    [
        ([(0, 20)], SHOWN, SHOWN),
        ([(0, 3), (6, 9), (11, 20)], SKIPPED, SKIPPED),
        ([(0, 4)], SHOWN, SKIPPED),
        ([(5, 10)], SHOWN, SHOWN),
        ([], SKIPPED, SKIPPED),
    ],
)
def test_a_share_consumer_shows_batches_of_which_it_has_acquired_something(
    acquired: Sequence[tuple[int, int]], plain: Visibility, of_one: Visibility
) -> None:
    ranges = [AcquiredRecords(first_offset=first, last_offset=last, delivery_count=1) for first, last in acquired]
    assert [one for _, one in acquired_only(ranges)(batches(ALL))] == [plain, NEVER, NEVER, of_one, OLD]
