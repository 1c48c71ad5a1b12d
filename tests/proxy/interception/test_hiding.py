"""What an interceptor hides stays hidden: a batch that it cannot look into is not shown at all."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from struct import pack
from types import SimpleNamespace
from zlib import crc32

import pytest
from crc32c import crc32c

from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Context, Hints
from kafka_sidecar.interceptors.guard import Limits
from kafka_sidecar.interceptors.records import ConsumerRecords
from kafka_sidecar.proxy.interception.fetched_partition import Left, Reading, consumed
from kafka_sidecar.proxy.interception.stats import Observed

GOOD = build_batch([NewRecord(b"secret")])
_MESSAGE = b"\1\0" + bytes(8) + pack(">i", -1) + pack(">i", 6) + b"secret"
OLD = pack(">qi", 0, 4 + len(_MESSAGE)) + pack(">I", crc32(_MESSAGE)) + _MESSAGE  # magic 1
LIMIT = 20_000


class Parts:
    def __init__(self) -> None:
        self.observed = Observed(lambda: 0.0)
        masking = InterceptorSettings("mask_fields", "mask_fields", settings={"fields": ["$.a"], "with": "***"})
        self.catalog = InterceptorCatalog([masking], self.observed)

    def consumed(self, data: bytes, aborted: Sequence[tuple[int, int]] = ()) -> Left:
        chain = self.catalog.consumers("customers")
        assert chain is not None
        reading = Reading(chain, Context(lambda: 0), "customers", 0, self.observed, LIMIT, final=True)
        told = [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in aborted]
        return consumed(reading, data, told, marker=True)


@pytest.fixture
def parts() -> Parts:
    return Parts()


def damaged() -> bytes:
    data = bytearray(GOOD)
    data[-3] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    "unseen",
    [damaged(), build_batch([NewRecord(b"x" * 50_000)], codec=4), OLD, b"\0" * 80],
    ids=["crc", "large", "old", "no"],
)
def test_a_batch_that_cannot_be_looked_into_is_refused_and_what_stands_before_it_is_shown(
    unseen: bytes, parts: Parts
) -> None:
    left = parts.consumed(unseen)
    assert (left.records, left.refused) == (b"", True)
    left = parts.consumed(GOOD + unseen)
    if left.records:  # nothing can be told of what is no batch at all
        assert values(left.records) == [b'"***"']
    assert left.refused


def test_aborted_records_do_not_leave_though_no_client_shows_them(parts: Parts) -> None:
    aborted = build_batch(
        [NewRecord(b"secret")], attributes=0x10, producer_id=1, producer_epoch=0, base_sequence=0, base_offset=1
    )
    left = parts.consumed(GOOD + aborted, aborted=[(1, 1)])
    assert left.records is not None
    assert b"secret" not in bytes(left.records)
    assert left.following == 2


def test_a_batch_that_is_cut_off_leaves_nothing_of_what_is_there(parts: Parts) -> None:
    left = parts.consumed(build_batch([NewRecord(None)]) + GOOD[:-2])
    assert left.records is not None
    assert b"secre" not in bytes(left.records)


class Breaks(ConsumerInterceptor):
    def hints(self) -> Hints:
        return Hints(fail_closed=True)

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        raise ValueError("a bug")


def test_what_an_interceptor_fails_to_hide_is_not_shown_however_often_it_fails(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "breaking", SimpleNamespace(Breaks=Breaks))  # type: ignore[misc]
    parts.catalog = InterceptorCatalog(
        [InterceptorSettings("breaking:Breaks", "breaks", limits=Limits(failures=2))], parts.observed
    )
    for _ in range(5):
        left = parts.consumed(GOOD)
        assert (left.records, left.refused) == (b"", True)
    assert parts.catalog.guards[0].failures == {"on_consume": 5}


def test_a_batch_that_announces_no_records_and_has_some_is_refused(parts: Parts) -> None:
    data = bytearray(GOOD)
    data[57:61] = bytes(4)
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    left = parts.consumed(bytes(data))
    assert (left.records, left.refused) == (b"", True)


def values(data: bytes | memoryview) -> list[bytes | None]:
    return [record.value for batch in batches(data) for record in batch.records()]
