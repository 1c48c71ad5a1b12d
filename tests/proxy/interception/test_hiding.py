"""What an interceptor hides stays hidden: a batch that it cannot look into is withheld."""

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
from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Hints
from kafka_sidecar.interceptors.guard import Limits
from kafka_sidecar.interceptors.records import ConsumerRecords
from kafka_sidecar.interceptors.values import Context
from kafka_sidecar.proxy.interception.fetched_partition import PartitionReading, Remaining
from kafka_sidecar.proxy.interception.stats import InterceptionStats

GOOD = build_batch([NewRecord(b"secret")])
_MESSAGE = b"\1\0" + bytes(8) + pack(">i", -1) + pack(">i", 6) + b"secret"
OLD = pack(">qi", 0, 4 + len(_MESSAGE)) + pack(">I", crc32(_MESSAGE)) + _MESSAGE  # magic 1
LIMIT = 20_000


class Masking:
    """The records of one topic, in which a field is masked."""

    def __init__(self) -> None:
        self.stats = InterceptionStats(lambda: 0.0)
        settings = InterceptorSettings("mask_fields", "mask_fields", settings={"fields": ["$.a"], "with": "***"})
        self.catalog = InterceptorCatalog([settings], self.stats)

    def consume(self, data: bytes, aborted: Sequence[tuple[int, int]] = ()) -> Remaining:
        chain = self.catalog.consumers("customers")
        assert chain is not None
        transactions = [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in aborted]
        context = Context(lambda: 0)
        return PartitionReading(chain, context, "customers", 0, self.stats, data, transactions).consume(LIMIT)


@pytest.fixture
def masking() -> Masking:
    return Masking()


def damaged() -> bytes:
    data = bytearray(GOOD)
    data[-3] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    "unseen",
    [damaged(), build_batch([NewRecord(b"x" * 50_000)], codec=4), OLD, b"\0" * 80],
    ids=["crc", "large", "old", "no"],
)
def test_a_batch_that_cannot_be_looked_into_is_withheld_and_those_before_it_are_shown(
    unseen: bytes, masking: Masking
) -> None:
    left = masking.consume(unseen)
    assert (left.records, left.withheld) == (b"", True)
    left = masking.consume(GOOD + unseen)
    if left.records:  # what is no batch at all leaves nothing
        assert values(left.records) == [b'"***"']
    assert left.withheld


def test_aborted_records_are_removed_though_no_client_delivers_them(masking: Masking) -> None:
    aborted = build_batch(
        [NewRecord(b"secret")], attributes=0x10, producer_id=1, producer_epoch=0, base_sequence=0, base_offset=1
    )
    left = masking.consume(GOOD + aborted, aborted=[(1, 1)])
    assert left.records is not None
    assert b"secret" not in bytes(left.records)
    assert left.following == 2


def test_nothing_of_a_batch_that_is_cut_off_is_sent(masking: Masking) -> None:
    left = masking.consume(build_batch([NewRecord(None)]) + GOOD[:-2])
    assert left.records is not None
    assert b"secre" not in bytes(left.records)


class Breaks(ConsumerInterceptor):
    def hints(self) -> Hints:
        return Hints(fail_closed=True)

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        raise ValueError("a bug")


def test_records_that_an_interceptor_fails_to_hide_are_withheld_however_often_it_fails(
    masking: Masking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "breaking", SimpleNamespace(Breaks=Breaks))
    masking.catalog = InterceptorCatalog(
        [InterceptorSettings("breaking:Breaks", "breaks", limits=Limits(failures=2))], masking.stats
    )
    for _ in range(5):
        left = masking.consume(GOOD)
        assert (left.records, left.withheld) == (b"", True)
    assert masking.catalog.guards[0].failures == {"on_consume": 5}


def test_a_batch_that_announces_no_records_and_has_some_is_withheld(masking: Masking) -> None:
    data = bytearray(GOOD)
    data[57:61] = bytes(4)
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    left = masking.consume(bytes(data))
    assert (left.records, left.withheld) == (b"", True)


def values(data: bytes | memoryview) -> list[bytes | None]:
    return [record.value for batch in batches(data) for record in batch.records()]
