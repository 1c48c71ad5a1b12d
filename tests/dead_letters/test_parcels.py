"""Letters of a batch, and batches of letters: every record as it was sent, followed by why it was rejected."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.records import Codec, Header, NewRecord, Record, Records, batches, build_batch, with_producer
from kafka_sidecar.dead_letters.letter import REPLAYED, REST_OF_BATCH, Reasons, read_headers
from kafka_sidecar.dead_letters.parcels import (
    LETTER_BYTES,
    Envelope,
    Fault,
    Letter,
    Parcel,
    build,
    merge,
    pack,
    read_batch,
    seal_records,
)

WHY = Reasons("orders", 3, "-", "-", "-", "enforce", "k3-1", 0, 1_700_000_000_000, "shop", "User:a", 9, 1, 2**31 - 2)
BAD, REST = Fault("no JSON", "json", "not_json"), Fault("others are", "json", REST_OF_BATCH)

headers = st.lists(st.builds(Header, st.binary(max_size=6), st.none() | st.binary(max_size=6)), max_size=3)
records = st.lists(
    st.builds(
        NewRecord, value=st.none() | st.binary(max_size=300), key=st.none() | st.binary(max_size=9), headers=headers,
        timestamp_delta=st.integers(-(2**63), 2**63 - 1),
    ),
    min_size=1, max_size=12,
)  # fmt: skip
EACH = st.lists(st.sampled_from(range(12)), unique=True)


def read(new: list[NewRecord], codec: int = 0) -> Records:
    (batch,) = batches(build_batch(new, codec=codec, base_timestamp=1_600_000_000_000, max_timestamp=0))
    return batch.records()


def same(one: Record, other: Record) -> bool:
    return (one.key, one.value, one.timestamp) == (other.key, other.value, other.timestamp)


@given(records, EACH, st.sampled_from(list(Codec)), st.booleans())
def test_a_record_is_in_its_letter_as_it_was_sent(
    new: list[NewRecord], faulty: list[int], codec: int, is_idempotent: bool
) -> None:
    sent = read(new, codec)
    why = WHY if is_idempotent else replace(WHY, producer_id=None, producer_epoch=None, sequence=None)
    faults = dict.fromkeys(faulty, BAD)
    letters = [one for one in seal_records(sent, None, faults, REST, Envelope(why)) if one is not None]
    (batch,) = batches(build(letters))
    assert batch.crc_is_right()
    for index, (record, letter) in enumerate(zip(sent, batch.records(), strict=True)):
        own, found = read_headers(letter.headers)
        assert same(record, letter)
        assert own == list(record.headers)
        fault = faults.get(index, REST)
        sequence = (2**31 - 2 + index) % 2**31 if is_idempotent else None
        assert found == replace(
            why, message=fault.message, policy=fault.policy, reason=fault.reason, index=index, sequence=sequence
        )


@given(records)
def test_a_batch_of_letters_is_read_as_it_was_built(new: list[NewRecord]) -> None:
    letters = [one for one in seal_records(read(new), None, {}, REST, Envelope(WHY)) if one is not None]
    data = build(letters)
    assert build(read_batch(data)) == data


def test_only_the_chosen_records_are_letters_and_none_that_was_one_before() -> None:
    replayed = NewRecord(b"c", headers=(Header(REPLAYED, b"k3-0"),))
    sent = read([NewRecord(b"a"), NewRecord(b"b"), replayed])
    found = list(seal_records(sent, [1, 2], {1: BAD}, REST, Envelope(WHY)))
    assert [one is None for one in found] == [False, True]
    assert found[0] is not None
    assert b"not_json" in b"".join(found[0].parts)


def test_letters_are_packed_until_they_are_refused() -> None:
    letters = [None, *[Letter(0, (b"x" * 100,))] * 5]
    packed: list[int] = []

    def put(some: tuple[Letter, ...], size: int) -> bool:
        packed.append(size)
        return len(packed) < 3

    assert pack(letters, 2 * (100 + LETTER_BYTES), put) == (4, 1)
    one = 100 + LETTER_BYTES
    assert packed == [2 * one, 2 * one, one]


def test_a_batch_gets_the_numbers_of_its_producer() -> None:
    (batch,) = batches(with_producer(build([Letter(5, (b"\1\1\0",))]), 7, 2, 90))
    assert batch.crc_is_right()
    assert (batch.header.producer_id, batch.header.producer_epoch, batch.header.base_sequence) == (7, 2, 90)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(1, 40)), max_size=20))
def test_merged_parcels_have_the_same_letters_in_their_order(some: list[tuple[str, int, int]]) -> None:
    parcels = [
        Parcel(topic, partition, (Letter(number, (b"",)),), number, size)
        for number, (topic, partition, size) in enumerate(some)
    ]
    merged = merge(parcels, 50)
    found = [(one.topic, one.partition, letter.timestamp) for one in merged for letter in one.letters]
    assert found == [(topic, partition, number) for number, (topic, partition, _) in enumerate(some)]
    assert sum(one.size for one in merged) == sum(size for _, _, size in some)
    assert all(one.size <= 50 for one in merged)
    assert [one.at for one in merged] == [one.letters[0].timestamp for one in merged]
