"""What an interceptor hides stays hidden: a batch that it cannot look into is hidden too, or withheld with the rest."""

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
from kafka_sidecar.codec.visibility import committed_only
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Hints
from kafka_sidecar.interceptors.guard import Limits
from kafka_sidecar.interceptors.records import ConsumerRecords
from kafka_sidecar.plugins.values import Context
from kafka_sidecar.proxy.exchanges.fetched_records import PartitionReading, Remaining
from kafka_sidecar.proxy.features.interception.consume_stage import ChainLook
from kafka_sidecar.proxy.features.interception.interception import InterceptionStats

GOOD = build_batch([NewRecord(b"secret")])
_MESSAGE = b"\1\0" + bytes(8) + pack(">i", -1) + pack(">i", 6) + b"secret"
OLD = pack(">qi", 0, 4 + len(_MESSAGE)) + pack(">I", crc32(_MESSAGE)) + _MESSAGE  # magic 1
NONE = b"\0" * 80
LIMIT = 20_000


class Masking:
    """The records of one topic, in which a field is masked."""

    def __init__(self) -> None:
        self.stats = InterceptionStats(lambda: 0.0)
        settings = InterceptorSettings("mask_fields", "mask_fields", settings={"fields": ["$.a"], "with": "***"})
        self.catalog = InterceptorCatalog([settings], self.stats)

    def consume(self, data: bytes, aborted: Sequence[tuple[int, int]] = (), hides_unreadable: bool = True) -> Remaining:
        chain = self.catalog.consumers("customers")
        assert chain is not None
        transactions = [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in aborted]
        return PartitionReading(
            ChainLook(chain, Context(lambda: 0), "customers", 0), "customers", self.stats, data,
            committed_only(transactions),
            hides_unreadable=hides_unreadable,
        ).consume(LIMIT)  # fmt: skip


@pytest.fixture
def masking() -> Masking:
    return Masking()


def damaged() -> bytes:
    data = bytearray(GOOD)
    data[-3] ^= 1
    return bytes(data)


LARGE = build_batch([NewRecord(b"x" * 50_000)], codec=4)
UNSEEN = {"unreadable": damaged(), "too_large": LARGE, "old_format": OLD}
each_unseen = pytest.mark.parametrize(("reason", "unseen"), UNSEEN.items(), ids=UNSEEN)


def moved(data: bytes, offset: int) -> bytes:
    """The batch at another offset, which no checksum covers."""
    return pack(">q", offset) + data[8:]


@each_unseen
def test_a_batch_that_cannot_be_looked_into_is_hidden_and_those_around_it_are_shown(
    reason: str, unseen: bytes, masking: Masking, caplog: pytest.LogCaptureFixture
) -> None:
    left = masking.consume(GOOD + moved(unseen, 1) + moved(GOOD, 2))
    assert values(left.records or b"") == [b'"***"'] * 2
    assert left[1:] == (None, None)
    assert masking.stats.batches["Fetch", f"hidden_{reason}"] == 1
    (line,) = (record for record in caplog.records if record.levelname == "WARNING")
    assert (line.getMessage(), line.__dict__["reason"]) == ("unreadable batch hidden", reason)


@each_unseen
@pytest.mark.parametrize("shown", [b"", GOOD])
def test_a_consumer_goes_on_after_a_batch_that_cannot_be_looked_into(
    reason: str, unseen: bytes, shown: bytes, masking: Masking
) -> None:
    left = masking.consume(shown + moved(unseen, 7))
    *before, marker = batches(left.records or b"")
    assert len(before) == bool(shown)
    header = marker.header
    assert header.is_control
    assert (header.base_offset + header.last_offset_delta + 1, left.following, left.withheld_from) == (8, 8, None)


@each_unseen
def test_where_such_batches_fail_they_are_withheld_and_those_before_them_are_shown(
    reason: str, unseen: bytes, masking: Masking
) -> None:
    assert masking.consume(moved(unseen, 7), hides_unreadable=False) == Remaining(b"", withheld_from=7)
    left = masking.consume(GOOD + moved(unseen, 7) + moved(GOOD, 8), hides_unreadable=False)
    assert (values(left.records or b""), left.withheld_from) == ([b'"***"'], 7)
    assert masking.stats.batches["Fetch", reason] == 2


@pytest.mark.parametrize("hides_unreadable", [True, False])
def test_what_is_no_batch_at_all_is_withheld_as_it_does_not_say_where_a_consumer_would_go_on(
    masking: Masking, hides_unreadable: bool
) -> None:
    for data in (NONE, GOOD + NONE):
        left = masking.consume(data, hides_unreadable=hides_unreadable)
        assert (left.records, left.withheld_from) == (b"", -1)


def test_a_damaged_last_offset_does_not_lead_a_consumer_back(masking: Masking) -> None:
    data = bytearray(moved(GOOD, 7))
    data[23:27] = b"\xff" * 4
    assert masking.consume(bytes(data)).following == 8


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
    for hides_unreadable in (True, False, True, False, True):
        left = masking.consume(GOOD, hides_unreadable=hides_unreadable)
        assert (left.records, left.withheld_from) == (b"", 0)
    assert masking.catalog.guards[0].failures == {"on_consume": 5}


def test_a_batch_that_announces_no_records_and_has_some_is_hidden(masking: Masking) -> None:
    data = bytearray(GOOD)
    data[57:61] = bytes(4)
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    left = masking.consume(bytes(data))
    assert b"secret" not in (left.records or b"secret")
    assert left.following == 1


def values(data: bytes | memoryview) -> list[bytes | None]:
    return [record.value for batch in batches(data) for record in batch.records()]
