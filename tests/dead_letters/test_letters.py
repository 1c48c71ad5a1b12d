"""Letters as they are read, which are meant, and the records that they become again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.dead_letters import AT, REASONS, letter_record, record_of

from kafka_sidecar.codec.records import Header
from kafka_sidecar.dead_letters.letter import REPLAYED, NotALetterError, is_replayed
from kafka_sidecar.dead_letters.letters import Choice, Letter, OutgoingRecord, marked, read_letter, record_again

LETTER = Letter(7, b"k", b"{", (Header("h", None),), AT, REASONS)


def test_a_letter_has_what_its_record_had_and_why() -> None:
    found = read_letter(letter_record(b"{", [("h", None), (b"\xff", b"1")]), 7)
    assert found == replace(LETTER, headers=(Header("h", None), Header(b"\xff", b"1")))


def test_a_record_that_is_not_a_letter_is_refused() -> None:
    with pytest.raises(NotALetterError, match="own_headers is missing"):
        read_letter(record_of(b"v", [Header("__dlq.errors.topic", b"orders")]), 0)


def test_a_record_is_sent_to_its_partition_as_it_was() -> None:
    letter = replace(LETTER, reasons=replace(REASONS, topic="refunds", partition=3))
    assert record_again(letter) == OutgoingRecord("refunds", 3, b"k", b"{", (Header("h", None),), AT)


def test_a_mark_is_added_once_and_stops_a_second_round() -> None:
    once = marked([Header("h", b"1"), Header(REPLAYED, b"old"), Header("n", None)], "r-2")
    assert once == (Header("h", b"1"), Header("n", None), Header(REPLAYED, b"r-2"))
    assert is_replayed(once)


def test_the_size_of_a_record_has_its_headers() -> None:
    assert OutgoingRecord("t", 0, b"key", None, (Header("name", b"value"), Header("n", None)), 0).size == 13


@pytest.mark.parametrize(
    ("choice", "is_taken"),
    [
        (Choice(), True),
        (Choice(topics=frozenset({"orders", "others"})), True),
        (Choice(topics=frozenset({"others"})), False),
        (Choice(policies=frozenset({"json"}), reasons=frozenset({"not_json"})), True),
        (Choice(policies=frozenset({"json"}), reasons=frozenset({"no_key"})), False),
        (Choice(policies=frozenset({"avro"})), False),
        (Choice(rejection_ids=frozenset({"r-1"})), True),
        (Choice(rejection_ids=frozenset({"r-2"})), False),
        (Choice(since=AT, until=AT + 1), True),
        (Choice(since=AT + 1), False),
        (Choice(until=AT), False),
        (Choice(with_stored=False), True),
    ],
)
def test_letters_are_chosen_by_all_that_is_named(choice: Choice, is_taken: bool) -> None:
    assert choice.takes(LETTER) is is_taken


def test_letters_of_records_that_are_stored_are_taken_only_if_asked() -> None:
    shadow = replace(LETTER, reasons=replace(REASONS, mode="shadow"))
    assert shadow.is_stored
    assert Choice().takes(shadow)
    assert not Choice(with_stored=False).takes(shadow)
