"""The records of one partition after `on_consume`: a consumer gets the remaining records, at the same positions as
without the interceptor. The reference is Kafka's CompletedFetch, ported to Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.interception import Intercepting

from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.codec.visibility import committed_only
from kafka_sidecar.interceptors.contract import Context
from kafka_sidecar.proxy.exchanges.fetched_records import PartitionReading, Remaining
from kafka_sidecar.proxy.features.interception.consume_stage import ChainLook

CONTEXT = Context(clock=lambda: 0)
TRANSACTIONAL, CONTROL = 0x10, 0x20
LIMIT = 1 << 20
# docs of the carrier: base 1000, last 1009, leader epoch 3, time 1700000000000.
MARKER = bytes.fromhex(
    "00000000000003e8 00000042 00000003 02 e7b9cd44 0030 00000009 0000018bcfe56800 0000018bcfe56800"
    "ffffffffffffffff ffff ffffffff 00000001    20 00 00 12 08 00000001 0c 0000 00000000 00"
)
MOSTLY = ["transactional", "transactional", "abort", "commit"]
FEWER = settings(max_examples=settings().max_examples // 3)
Aborted = Sequence[tuple[int, int]]  # producer id, first offset


def records(*values: str | None, base: int = 0, **header: Any) -> bytes:
    """A batch; None: a record that compaction has taken away."""
    new = [NewRecord(value.encode(), offset_delta=at) for at, value in enumerate(values) if value is not None]
    return build_batch(new, base_offset=base, last_offset_delta=len(values) - 1, **header)


def mark(abort: bool, producer: int, base: int) -> bytes:
    key = bytes((0, 0, 0, 0 if abort else 1))
    return build_batch(
        [NewRecord(bytes(6), key)], attributes=TRANSACTIONAL | CONTROL, base_offset=base, producer_id=producer,
        producer_epoch=0,
    )  # fmt: skip


def read(intercepting: Intercepting, data: bytes | memoryview, aborted: Aborted | None = None) -> PartitionReading:
    chain = intercepting.catalog.consumers("orders")
    assert chain is not None
    transactions = [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in aborted or ()]
    visibilities = committed_only(transactions)
    return PartitionReading(ChainLook(chain, CONTEXT, "orders", 3), "orders", intercepting.stats, data, visibilities)


def consume(
    intercepting: Intercepting,
    data: bytes | memoryview,
    aborted: Aborted | None = None,
    *,
    marker: bool = True,
    limit: int = LIMIT,
    offset: int = 0,
    inline: bool = False,
) -> Remaining:
    """What is left; ``inline``: with an attempt on the loop before."""
    reading = read(intercepting, data, aborted)
    if inline:
        reading.inflate(limit)
    return reading.consume(limit, marker=marker, offset=offset)


def consumer(data: bytes | memoryview, aborted: Aborted | None) -> tuple[list[tuple[int, bytes | None]], int]:
    """What Kafka's consumer shows of a partition's records, and where it goes on: CompletedFetch, line by line."""
    queue = sorted(aborted or (), key=lambda one: one[1])
    aborted_producers: set[int] = set()
    shown, position = [], 0
    for batch in batches(data, may_end_early=True):
        header = batch.header
        last = header.base_offset + header.last_offset_delta
        if aborted is not None and header.producer_id != -1:
            while queue and queue[0][1] <= last:
                aborted_producers.add(queue.pop(0)[0])
            first = next(iter(batch.records()), None) if header.is_control else None
            if first is not None and (first.key or b"")[2:4] == b"\0\0":
                aborted_producers.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in aborted_producers:
                position = last + 1
                continue
        if not header.is_control:
            shown += [(header.base_offset + record.offset_delta, record.value) for record in batch.records()]
        position = last + 1
    return shown, position


@dataclass(frozen=True)
class Log:
    """What a broker might send of a partition."""

    data: bytes
    aborted: tuple[tuple[int, int], ...]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    parts, offset, began = [], draw(st.integers(0, 5)), dict[int, int]()
    aborted: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(
            st.sampled_from(["plain", "idempotent", "transactional", "transactional", "commit", "abort", "own"])
        )
        producer = draw(st.sampled_from([1, 2]))
        if kind == "own":  # a marker of ours, as of a sidecar in front of this one
            parts.append(build_batch([NewRecord(bytes(6), bytes((0, 0, 0, 1)))], attributes=0x30, base_offset=offset))
            offset += 1
            continue
        if kind in ("commit", "abort"):
            parts.append(mark(kind == "abort", producer, offset))
            if kind == "abort" and producer in began:
                aborted.append((producer, began[producer]))
            began.pop(producer, None)
            offset += 1
            continue
        values = draw(st.lists(st.sampled_from([None, "keep", "drop", "edit", "drop"]), min_size=1, max_size=3))
        more: dict[str, Any] = {} if kind == "plain" else {"producer_id": producer, "base_sequence": 0}
        if kind == "transactional":
            more["attributes"] = TRANSACTIONAL
            began.setdefault(producer, offset)
        parts.append(records(*values, base=offset, codec=draw(st.sampled_from([0, 3])), **more))
        offset += len(values) + draw(st.integers(0, 2))
    aborted += [(producer, first) for producer, first in began.items() if draw(st.booleans())]  # continues after it
    tail = draw(st.sampled_from([b"", bytes(7), records("never", base=offset)[:-1]]))
    return Log(b"".join(parts) + tail, tuple(draw(st.permutations(aborted))))


def kept(shown: Iterable[tuple[int, bytes | None]]) -> list[tuple[int, bytes | None]]:
    return [(at, b"edited" if value == b"edit" else value) for at, value in shown if value != b"drop"]


@settings(max_examples=settings().max_examples // 2)
@given(logs(), st.booleans())
def test_a_consumer_sees_what_interceptors_leave_and_goes_on_where_it_would_have(log: Log, committed: bool) -> None:
    intercepting = Intercepting("Reads")
    aborted = log.aborted if committed else None
    shown, position = consumer(log.data, aborted)
    left = consume(intercepting, log.data, aborted)
    assert intercepting.interceptors[0].seen == [("orders", 3, at) for at, _ in shown]
    if left.records is None:
        assert kept(shown) == shown
        return
    assert consumer(left.records, aborted) == (kept(shown), position)
    counts = {one.header.base_offset: one.header.count for one in batches(log.data, may_end_early=True)}
    for batch in batches(left.records):
        header = batch.header
        assert header.count > 0 or bytes(batch.data) in log.data  # none is sent empty that was not
        assert batch.crc_is_right()
        ours = header.is_control and header.producer_id == -1
        changed = header.count != counts.get(header.base_offset) or any(
            one.value == b"edited" for one in batch.records()
        )
        assert ours or changed or bytes(batch.data) in log.data  # what is not changed is the broker's bytes


@FEWER
@given(logs(), st.booleans())
def test_without_markers_hidden_records_at_the_end_are_removed_and_the_next_offset_is_known(
    log: Log, committed: bool
) -> None:
    aborted = log.aborted if committed else None
    with_marker, without = (
        consume(Intercepting("Reads"), log.data, aborted, marker=marker) for marker in (True, False)
    )
    assert with_marker.following == without.following
    if with_marker.records is None:
        assert without.records is None
        return
    assert without.records is not None
    shown, position = consumer(with_marker.records, aborted)
    assert consumer(without.records, aborted)[0] == shown
    assert len(with_marker.records) - len(without.records) in (0, len(MARKER))
    if without.following is not None:
        assert without.following == position == consumer(log.data, aborted)[1]


@FEWER
@given(logs(), st.binary(max_size=40), st.integers(0, 10_000))
def test_noise_does_not_raise(log: Log, noise: bytes, at: int) -> None:
    data = bytearray(log.data)
    at %= len(data)
    data[at : at + len(noise)] = noise
    for inline in (True, False):
        consume(Intercepting("Reads"), bytes(data), log.aborted, inline=inline)


@FEWER
@given(logs(), st.booleans(), st.lists(st.tuples(st.integers(0, 5000), st.binary(min_size=1, max_size=4)), max_size=3))
def test_no_records_leave_that_a_hiding_interceptor_has_not_seen(
    log: Log, committed: bool, damages: list[tuple[int, bytes]]
) -> None:
    data = bytearray(log.data)
    for at, noise in damages:
        at %= len(data)
        data[at : at + len(noise)] = noise[: len(data) - at]
    for inline in (True, False):
        left = consume(Intercepting("Hides"), bytes(data), log.aborted if committed else None, inline=inline)
        out = bytes(data) if left.records is None else left.records
        for batch in batches(out):  # none is cut off
            header = batch.header
            if not header.is_control and header.count > 0:
                assert {record.value for record in batch.records()} <= {b"***"}


@pytest.mark.parametrize(("first", "last"), [(2**40, 7), (-5, 7), (2**63 - 1, 2**63 - 1)])
def test_dropped_records_with_impossible_offsets_are_withheld(first: int, last: int) -> None:
    data = records("drop", base=first) + records("drop", base=last)
    left = consume(Intercepting("Reads"), data)
    assert (left.records, left.following, left.withheld_from) == (b"", None, first)


def test_a_marker_leads_over_more_dropped_records_than_one_batch_can_span() -> None:
    data = records("drop", base=7) + records("drop", base=2**40)
    left = consume(Intercepting("Reads"), data)
    assert left.records is not None
    assert left.following == consumer(left.records, None)[1] == 2**40 + 1


@FEWER
@given(logs(), st.booleans())
def test_a_consumer_of_hidden_records_goes_on_where_others_do(log: Log, committed: bool) -> None:
    aborted = log.aborted if committed else None
    shown, position = consumer(log.data, aborted)
    left = consume(Intercepting("Hides"), log.data, aborted)
    if left.records is not None and (left.records or position):
        assert consumer(left.records, aborted) == ([(at, b"***") for at, _ in shown], position)


def test_a_partition_of_which_all_is_dropped_becomes_one_marker() -> None:
    data = build_batch(
        [NewRecord(b"drop", offset_delta=at) for at in range(10)], base_offset=1000, leader_epoch=3,
        base_timestamp=1_699_999_999_000, max_timestamp=1_700_000_000_000,
    )  # fmt: skip
    left = consume(Intercepting("Reads"), data)
    assert left == Remaining(MARKER, 1010)
    assert len(MARKER) == 78


def test_no_marker_is_needed_before_visible_records() -> None:
    last = records("keep", base=7)
    assert consume(Intercepting("Reads"), records("drop") + records("drop", base=3) + last) == Remaining(last)


def test_no_marker_is_needed_before_a_control_batch_of_the_broker() -> None:
    last = mark(False, 1, 2)
    data = records("drop", "drop", attributes=TRANSACTIONAL, producer_id=1, base_sequence=0) + last
    assert consume(Intercepting("Reads"), data) == Remaining(last)


def test_no_marker_is_needed_before_aborted_records_where_only_committed_ones_are_read() -> None:
    aborted = records("drop", base=2, attributes=TRANSACTIONAL, producer_id=1, base_sequence=0)
    intercepting = Intercepting("Reads")
    assert consume(intercepting, records("drop", "drop") + aborted, [(1, 2)]) == Remaining(aborted)
    assert intercepting.interceptors[0].seen == [("orders", 3, 0), ("orders", 3, 1)]
    left = consume(intercepting, records("drop", "drop") + aborted)
    assert left.following == 3


def transactional(word: str, base: int, producer: int = 1) -> bytes:
    return records(word, base=base, attributes=TRANSACTIONAL, producer_id=producer, base_sequence=0)


def test_a_producer_whose_transaction_was_aborted_may_commit_the_next() -> None:
    intercepting = Intercepting("Reads")
    data = b"".join((
        transactional("edit", 0), transactional("edit", 1, producer=2), mark(True, 1, 2), transactional("edit", 3),
        mark(False, 1, 4), mark(False, 2, 5), transactional("edit", 6), mark(True, 1, 7),
    ))  # fmt: skip
    consume(intercepting, data, [(1, 6), (1, 0)])
    assert [offset for _, _, offset in intercepting.interceptors[0].seen] == [1, 3]


def test_a_commit_marker_does_not_end_an_aborted_transaction() -> None:
    intercepting = Intercepting("Reads")
    consume(intercepting, transactional("edit", 0) + mark(False, 1, 1) + transactional("edit", 2), [(1, 0)])
    assert intercepting.interceptors[0].seen == []  # as Kafka's: only an ABORT marker ends it


def test_one_marker_replaces_all_hidden_batches_at_the_end() -> None:
    data = b"".join(records("drop", base=at) for at in range(15))
    left = consume(Intercepting("Reads"), data + records("cut off", base=15)[:-3])
    assert left.following == 15
    assert left.records is not None
    (one,) = batches(left.records)
    assert (one.header.base_offset, one.header.last_offset_delta, one.header.is_control) == (0, 14, True)


def test_a_batch_whose_last_records_are_dropped_ends_before_a_marker_for_them() -> None:
    """Otherwise librdkafka would commit the offset after the last record that it has shown."""
    left = consume(Intercepting("Reads"), records("keep", "drop", "drop", base=4) + records("drop", base=7))
    one, marker = batches(left.records or b"")
    assert (one.header.base_offset, one.header.last_offset_delta, one.header.count) == (4, 0, 1)
    assert one.crc_is_right()
    assert (marker.header.base_offset, marker.header.last_offset_delta, marker.header.is_control) == (5, 2, True)


def test_a_batch_whose_last_records_are_dropped_keeps_its_last_offset_before_others_and_without_markers() -> None:
    left = consume(Intercepting("Reads"), records("keep", "drop", "drop") + records("keep", base=3))
    assert [one.header.last_offset_delta for one in batches(left.records or b"")] == [2, 0]
    left = consume(Intercepting("Reads"), records("keep", "drop", "drop"), marker=False)
    assert [one.header.last_offset_delta for one in batches(left.records or b"")] == [2]


def test_a_batch_that_compaction_has_emptied_is_not_shown_and_stays() -> None:
    intercepting, data = Intercepting("Reads"), records(None, None)
    assert consume(intercepting, data) == Remaining(None)
    assert intercepting.interceptors[0].seen == []
    assert consume(intercepting, records("drop", base=2) + records(None, base=3)) == Remaining(records(None, base=3))


OLD = {
    magic: bytes(8) + (22 + 8 * magic).to_bytes(4, "big") + bytes(4) + bytes((magic,)) + bytes(17 + 8 * magic)
    for magic in (0, 1)
}


@pytest.mark.parametrize("magic", [0, 1])
def test_batches_of_an_older_format_stay_as_they_are_among_others(magic: int) -> None:
    intercepting = Intercepting("Reads")
    assert consume(intercepting, OLD[magic]) == Remaining(None)
    left = consume(intercepting, records("drop") + OLD[magic] + records("edit", base=5))
    assert left.records == OLD[magic] + records("edited", base=5)
    assert intercepting.stats.batches["Fetch", "old_format"] == 2


def test_a_damaged_batch_does_not_get_a_valid_checksum() -> None:
    intercepting, damaged = Intercepting("Reads"), bytearray(records("edit", "keep"))
    damaged[17] ^= 1
    assert consume(intercepting, bytes(damaged)) == Remaining(None)
    assert intercepting.stats.batches == {("Fetch", "unreadable"): 1}


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_batch_over_the_limit_stays_as_it_is_and_others_are_intercepted(codec: int) -> None:
    intercepting, large = Intercepting("Reads"), records("edit " * 5000, codec=codec)
    left = consume(intercepting, large + records("edit", base=1), limit=20_000)
    assert left.records == large + records("edited", base=1)
    assert intercepting.stats.batches["Fetch", "too_large"] == 1


def test_an_unreadable_batch_stays_as_it_is_and_others_are_intercepted() -> None:
    intercepting = Intercepting("Reads")
    whole = records("edit")
    odd = whole[:22] + b"\4" + whole[23:]
    for inline in (True, False):
        left = consume(intercepting, odd + records("edit", base=1), inline=inline)
        assert left.records == odd + records("edited", base=1)
    assert consume(intercepting, bytes(range(100))) == Remaining(None)


def test_too_many_bytes_are_found_out_before_any_record_is_seen() -> None:
    intercepting = Intercepting("Reads")
    assert not read(intercepting, records("keep") + records("edit " * 5000, base=1, codec=4)).inflate(20_000)
    assert not read(intercepting, b"".join(records("x" * 9_000, base=at, codec=4) for at in range(3))).inflate(20_000)
    assert intercepting.interceptors[0].seen == []


def test_too_many_records_are_found_out_before_any_is_seen() -> None:
    intercepting = Intercepting("Reads")
    assert not read(intercepting, records(*["k"] * 1001)).inflate(LIMIT)
    assert read(intercepting, records(*["k"] * 1000)).inflate(LIMIT)
    assert consume(intercepting, records(*["k"] * 1001)) == Remaining(None)


def test_an_interceptor_that_fails_leaves_the_batch_as_it_was() -> None:
    intercepting = Intercepting("Reads")
    assert consume(intercepting, records("drop", "fails")) == Remaining(None)
    assert intercepting.stats.batches == {("Fetch", "unchanged"): 1}
    assert intercepting.catalog.guards[0].failures == {"on_consume": 1}


def test_batches_are_counted_by_what_became_of_them() -> None:
    intercepting = Intercepting("Reads")
    consume(intercepting, records("edit") + records("drop", base=1) + records("keep", base=2) + mark(True, 1, 3))
    assert intercepting.stats.batches == {("Fetch", "changed"): 1, ("Fetch", "dropped"): 1, ("Fetch", "unchanged"): 1}


def test_views_are_read_as_bytes_are() -> None:
    intercepting, data = Intercepting("Reads"), records("drop", "edit")
    assert consume(intercepting, memoryview(data)) == consume(intercepting, data)


@pytest.mark.parametrize(("offset", "is_seen"), [(1000, False), (1001, False), (1002, True), (1003, True)])
def test_a_client_without_markers_does_not_get_the_rest_of_a_batch_twice(offset: int, is_seen: bool) -> None:
    data = records("drop", "keep", "drop", "drop", base=1000)
    held = consume(Intercepting("Reads"), data, marker=False, offset=offset)
    assert bool(held.records) is not is_seen
    assert held.following == (1004 if is_seen else None)
    assert (
        consume(Intercepting("Reads"), data, offset=offset).records
        == consume(Intercepting("Reads"), data).records
        != b""
    )
