"""Offsets as li stores them, both ways."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_sidecar.large_messages.offsets import Committed, is_plausible, store, unwrap


def restore(stored: Committed, is_always_wrapped: bool = False) -> Committed:
    """What a client gets where a segment is at the stored offset."""
    committed = unwrap(stored)
    if committed is None or not is_plausible(stored.offset, committed, MAX_INT64, is_always_wrapped):
        return stored
    return committed


MAX_INT64 = (1 << 63) - 1
offsets = st.integers(0, MAX_INT64)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
metadata = texts | st.tuples(st.sampled_from(["", "+", "-", "00"]), st.integers(0, 1 << 70), texts).map(
    lambda parts: f"{parts[0]}{parts[1]},{parts[2]}"
)


@given(offsets, metadata, st.data(), st.booleans())
@example(12, "12,foo", None, False)
@example(3, "٣,arabic digits", None, False)
def test_a_client_gets_what_it_has_committed(
    offset: int, text: str, data: st.DataObject | None, is_always_wrapped: bool
) -> None:
    committed = Committed(offset, text)
    safe = data.draw(st.integers(0, offset)) if data is not None else offset
    stored = store(committed, safe, is_always_wrapped=is_always_wrapped)
    assert restore(stored, is_always_wrapped) == committed


@pytest.mark.parametrize("text", ["", "test", "test,test", ",", "1", " 1,a", "1 ,a", "1_0,a", "x1,a", "--1,a", "+,a"])
def test_a_commit_that_no_large_message_reaches_over_is_stored_as_it_is(text: str) -> None:
    committed = Committed(7, text)
    assert store(committed, 7) is committed
    assert restore(committed) is committed


@pytest.mark.parametrize(("safe", "text", "stored"), [(3, "", "7,"), (0, "mine", "7,mine"), (7, "12,foo", "7,12,foo")])
def test_the_stored_form_is_that_of_li(safe: int, text: str, stored: str) -> None:
    assert store(Committed(7, text), safe) == (safe, stored)


def test_li_wraps_every_commit_and_so_does_the_mode_that_conforms_to_it() -> None:
    assert store(Committed(7, ""), 7, is_always_wrapped=True) == (7, "7,")


def test_what_a_consumer_of_li_has_committed_is_restored() -> None:
    assert restore(Committed(0, "3,")) == (3, "")
    assert restore(Committed(8, "8,")) == (8, "")
    assert restore(Committed(0, "+3,a,b")) == (3, "a,b")


def test_where_the_offsets_are_equal_the_clients_own_metadata_stays_unless_all_commits_are_wrapped() -> None:
    foreign = Committed(8, "8,host-7")
    assert restore(foreign) == foreign
    assert restore(foreign, is_always_wrapped=True) == (8, "host-7")
    assert restore(Committed(8, "8,12,foo")) == (8, "12,foo")  # what `store` has wrapped


@pytest.mark.parametrize(
    ("committed", "is_near"), [(101, True), (1101, True), (1102, False), (1_700_000_000_000, False)]
)
def test_a_number_farther_than_a_message_may_reach_is_not_that_of_li(committed: int, is_near: bool) -> None:
    assert is_plausible(100, Committed(committed, "host"), 1000) is is_near


@pytest.mark.parametrize(
    ("offset", "text"), [(500, "12,foo"), (5, "-7,foo"), (-1, ""), (-1, "4,"), (3, f"{1 << 63},a")]
)
def test_a_number_that_cannot_be_that_of_li_is_the_clients_own(offset: int, text: str) -> None:
    assert restore(Committed(offset, text)) == (offset, text)


def test_metadata_that_would_be_too_long_is_stored_with_the_clients_offset() -> None:
    longest = Committed(7, "x" * 4094)
    assert store(longest, 3) == (3, "7," + longest.metadata)
    assert store(Committed(7, "é" * 4094), 3).offset == 3
    for text in ("x" * 4095, "\N{OCTOPUS}" * 2048):
        assert store(Committed(7, text), 3) == (7, text)


def test_metadata_that_would_be_mistaken_is_wrapped_whatever_its_length() -> None:
    text = "99," + "x" * 4093
    assert store(Committed(7, text), 7) == (7, "7," + text)


def test_a_number_of_any_length_is_read_in_no_time() -> None:
    assert restore(Committed(0, "9" * 30_000 + ",")) == (0, "9" * 30_000 + ",")
    assert restore(Committed(0, "0" * 30_000 + "5,a")) == (5, "a")
