"""The records of one partition after `on_consume`: a consumer sees what is left of what it would have seen, and goes on
where it would have gone on. Kafka's CompletedFetch, written down a second time, is the judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.interception import Intercepting

from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.interceptors.contract import Context
from kafka_sidecar.proxy.interception.fetched_partition import Left, Reading, TooLongError, consumed

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


def made(
    around: Intercepting,
    data: bytes | memoryview,
    aborted: Aborted | None = None,
    *,
    marker: bool = True,
    limit: int = LIMIT,
    final: bool = True,
    asked: int = 0,
) -> Left:
    chain = around.catalog.consumers("orders")
    assert chain is not None
    reading = Reading(chain, CONTEXT, "orders", 3, around.observed, limit, final)
    told = None if aborted is None else [AbortedTransaction(producer_id=a, first_offset=b) for a, b in aborted]
    return consumed(reading, data, told, marker=marker, asked=asked)


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
    aborted += [(producer, first) for producer, first in began.items() if draw(st.booleans())]  # goes on behind it
    tail = draw(st.sampled_from([b"", bytes(7), records("never", base=offset)[:-1]]))
    return Log(b"".join(parts) + tail, tuple(draw(st.permutations(aborted))))


def kept(shown: Iterable[tuple[int, bytes | None]]) -> list[tuple[int, bytes | None]]:
    return [(at, b"edited" if value == b"edit" else value) for at, value in shown if value != b"drop"]


@settings(max_examples=settings().max_examples // 2)
@given(logs(), st.booleans())
def test_interceptors_see_what_a_consumer_shows_and_it_sees_what_they_leave_and_goes_on_where_it_would(
    log: Log, committed: bool
) -> None:
    around = Intercepting("Reads")
    aborted = log.aborted if committed else None
    shown, position = consumer(log.data, aborted)
    left = made(around, log.data, aborted)
    assert around.interceptors[0].seen == [("orders", 3, at) for at, _ in shown]
    if left.records is None:
        assert kept(shown) == shown
        return
    assert consumer(left.records, aborted) == (kept(shown), position)
    for batch in batches(left.records):
        header = batch.header
        assert header.count > 0 or bytes(batch.data) in log.data  # none is sent empty that was not
        assert batch.crc_is_right()
        ours = header.is_control and header.producer_id == -1
        changed = header.count <= header.last_offset_delta or any(one.value == b"edited" for one in batch.records())
        assert ours or changed or bytes(batch.data) in log.data  # what nobody changes is the broker's bytes


@FEWER
@given(logs(), st.booleans())
def test_without_markers_what_is_hidden_at_the_end_is_nothing_and_it_is_known_where_to_go_on(
    log: Log, committed: bool
) -> None:
    aborted = log.aborted if committed else None
    with_marker, without = (made(Intercepting("Reads"), log.data, aborted, marker=marker) for marker in (True, False))
    assert with_marker.following == without.following
    if with_marker.records is None:
        assert without.records is None
    elif with_marker.following is None:
        assert without.records == with_marker.records
    else:
        assert without.records is not None
        assert bytes(with_marker.records).startswith(bytes(without.records))
        assert len(with_marker.records) - len(without.records) == len(MARKER)
        assert without.following == consumer(log.data, aborted)[1]


@FEWER
@given(logs(), st.binary(max_size=40), st.integers(0, 10_000))
def test_noise_passes_or_is_left_alone(log: Log, noise: bytes, at: int) -> None:
    data = bytearray(log.data)
    at %= len(data)
    data[at : at + len(noise)] = noise
    for final in (True, False):
        with suppress(TooLongError):
            made(Intercepting("Reads"), bytes(data), log.aborted, final=final)


@FEWER
@given(logs(), st.booleans(), st.lists(st.tuples(st.integers(0, 5000), st.binary(min_size=1, max_size=4)), max_size=3))
def test_whatever_is_sent_nothing_leaves_that_an_interceptor_has_to_hide_and_has_not_seen(
    log: Log, committed: bool, damages: list[tuple[int, bytes]]
) -> None:
    data = bytearray(log.data)
    for at, noise in damages:
        at %= len(data)
        data[at : at + len(noise)] = noise[: len(data) - at]
    for final in (True, False):
        try:
            left = made(Intercepting("Hides"), bytes(data), log.aborted if committed else None, final=final)
        except TooLongError:
            assert not final
            continue
        out = bytes(data) if left.records is None else left.records
        for batch in batches(out):  # none is cut off
            header = batch.header
            if not header.is_control and header.count > 0:
                assert {record.value for record in batch.records()} <= {b"***"}


@FEWER
@given(logs(), st.booleans())
def test_who_must_not_see_records_goes_on_where_all_others_do(log: Log, committed: bool) -> None:
    aborted = log.aborted if committed else None
    shown, position = consumer(log.data, aborted)
    left = made(Intercepting("Hides"), log.data, aborted)
    if left.records is not None and (left.records or position):
        assert consumer(left.records, aborted) == ([(at, b"***") for at, _ in shown], position)


def test_a_partition_of_which_all_is_dropped_becomes_one_marker() -> None:
    data = build_batch(
        [NewRecord(b"drop", offset_delta=at) for at in range(10)], base_offset=1000, leader_epoch=3,
        base_timestamp=1_699_999_999_000, max_timestamp=1_700_000_000_000,
    )  # fmt: skip
    left = made(Intercepting("Reads"), data)
    assert left == Left(MARKER, 1010)
    assert len(MARKER) == 78


def test_what_is_dropped_in_front_of_visible_records_needs_nothing() -> None:
    last = records("keep", base=7)
    assert made(Intercepting("Reads"), records("drop") + records("drop", base=3) + last) == Left(last)


def test_what_is_dropped_in_front_of_a_brokers_control_batch_needs_nothing() -> None:
    last = mark(False, 1, 2)
    data = records("drop", "drop", attributes=TRANSACTIONAL, producer_id=1, base_sequence=0) + last
    assert made(Intercepting("Reads"), data) == Left(last)


def test_what_is_dropped_in_front_of_aborted_records_needs_nothing_where_only_committed_ones_are_read() -> None:
    aborted = records("drop", base=2, attributes=TRANSACTIONAL, producer_id=1, base_sequence=0)
    around = Intercepting("Reads")
    assert made(around, records("drop", "drop") + aborted, [(1, 2)]) == Left(aborted)
    assert around.interceptors[0].seen == [("orders", 3, 0), ("orders", 3, 1)]
    left = made(around, records("drop", "drop") + aborted)
    assert left.following == 3


def transactional(word: str, base: int, producer: int = 1) -> bytes:
    return records(word, base=base, attributes=TRANSACTIONAL, producer_id=producer, base_sequence=0)


def test_a_producer_whose_transaction_was_aborted_may_commit_the_next() -> None:
    around = Intercepting("Reads")
    data = b"".join((
        transactional("edit", 0), transactional("edit", 1, producer=2), mark(True, 1, 2), transactional("edit", 3),
        mark(False, 1, 4), mark(False, 2, 5), transactional("edit", 6), mark(True, 1, 7),
    ))  # fmt: skip
    made(around, data, [(1, 6), (1, 0)])
    assert [offset for _, _, offset in around.interceptors[0].seen] == [1, 3]


def test_a_transaction_that_is_committed_does_not_end_one_that_is_aborted() -> None:
    around = Intercepting("Reads")
    made(around, transactional("edit", 0) + mark(False, 1, 1) + transactional("edit", 2), [(1, 0)])
    assert around.interceptors[0].seen == []  # as Kafka's: only an ABORT marker ends it


def test_one_marker_stands_for_all_batches_that_are_hidden_at_the_end() -> None:
    data = b"".join(records("drop", base=at) for at in range(15))
    left = made(Intercepting("Reads"), data + records("cut off", base=15)[:-3])
    assert left.following == 15
    assert left.records is not None
    (one,) = batches(left.records)
    assert (one.header.base_offset, one.header.last_offset_delta, one.header.is_control) == (0, 14, True)


def test_a_batch_whose_last_record_is_dropped_still_says_where_it_ends() -> None:
    left = made(Intercepting("Reads"), records("keep", "drop", "drop"))
    assert left.following is None
    (one,) = batches(left.records or b"")
    assert (one.header.count, one.header.last_offset_delta) == (1, 2)


def test_a_batch_that_was_emptied_by_compaction_is_not_shown_and_stays() -> None:
    around, data = Intercepting("Reads"), records(None, None)
    assert made(around, data) == Left(None)
    assert around.interceptors[0].seen == []
    assert made(around, records("drop", base=2) + records(None, base=3)) == Left(records(None, base=3))


OLD = {
    magic: bytes(8) + (22 + 8 * magic).to_bytes(4, "big") + bytes(4) + bytes((magic,)) + bytes(17 + 8 * magic)
    for magic in (0, 1)
}


@pytest.mark.parametrize("magic", [0, 1])
def test_batches_of_an_older_format_pass_as_they_are_among_others(magic: int) -> None:
    around = Intercepting("Reads")
    assert made(around, OLD[magic]) == Left(None)
    left = made(around, records("drop") + OLD[magic] + records("edit", base=5))
    assert left.records == OLD[magic] + records("edited", base=5)


def test_a_damaged_batch_is_not_made_whole() -> None:
    around, damaged = Intercepting("Reads"), bytearray(records("edit", "keep"))
    damaged[17] ^= 1
    assert made(around, bytes(damaged)) == Left(None)
    assert around.observed.batches == {("Fetch", "unreadable"): 1}


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_batch_of_more_than_the_limit_passes_and_the_others_are_intercepted(codec: int) -> None:
    around, large = Intercepting("Reads"), records("edit " * 5000, codec=codec)
    left = made(around, large + records("edit", base=1), limit=20_000)
    assert left.records == large + records("edited", base=1)
    assert around.observed.batches["Fetch", "too_large"] == 1


def test_a_batch_that_cannot_be_read_passes_and_the_others_are_intercepted() -> None:
    around = Intercepting("Reads")
    whole = records("edit")
    odd = whole[:22] + b"\4" + whole[23:]
    for final in (True, False):
        assert made(around, odd + records("edit", base=1), final=final).records == odd + records("edited", base=1)
    assert made(around, bytes(range(100))) == Left(None)


def test_before_anything_is_seen_it_is_known_that_it_takes_too_long() -> None:
    around = Intercepting("Reads")
    data = records("keep") + records("edit " * 5000, base=1, codec=4)
    with pytest.raises(TooLongError):
        made(around, data, limit=20_000, final=False)
    assert around.interceptors[0].seen == []
    many = b"".join(records("x" * 9_000, base=at, codec=4) for at in range(3))
    with pytest.raises(TooLongError):
        made(around, many, limit=20_000, final=False)


def test_many_records_take_too_long() -> None:
    around = Intercepting("Reads")
    with pytest.raises(TooLongError):
        made(around, records(*["k"] * 1001), final=False)
    assert made(around, records(*["k"] * 1000), final=False) == Left(None)
    assert made(around, records(*["k"] * 1001)) == Left(None)


def test_an_interceptor_that_fails_leaves_the_batch_as_it_was() -> None:
    around = Intercepting("Reads")
    assert made(around, records("drop", "fails")) == Left(None)
    assert around.observed.batches == {("Fetch", "unchanged"): 1}
    assert around.catalog.guards[0].failures == {"on_consume": 1}


def test_what_becomes_of_batches_is_counted() -> None:
    around = Intercepting("Reads")
    made(around, records("edit") + records("drop", base=1) + records("keep", base=2) + mark(True, 1, 3))
    assert around.observed.batches == {("Fetch", "changed"): 1, ("Fetch", "dropped"): 1, ("Fetch", "unchanged"): 1}


def test_views_are_read_as_bytes_are() -> None:
    around, data = Intercepting("Reads"), records("drop", "edit")
    assert made(around, memoryview(data)) == made(around, data)


@pytest.mark.parametrize(("asked", "is_seen"), [(1000, False), (1001, False), (1002, True), (1003, True)])
def test_a_client_without_markers_is_not_sent_again_what_it_has_seen_of_a_batch(asked: int, is_seen: bool) -> None:
    data = records("drop", "keep", "drop", "drop", base=1000)
    held = made(Intercepting("Reads"), data, marker=False, asked=asked)
    assert bool(held.records) is not is_seen
    assert held.following == (1004 if is_seen else None)
    assert made(Intercepting("Reads"), data, asked=asked).records == made(Intercepting("Reads"), data).records != b""
