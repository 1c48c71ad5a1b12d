"""The headers of dead letters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.records import Header
from kafka_sidecar.dead_letters.letter import REPLAYED, Name, NotALetterError, Reasons, is_replayed, read_headers

REASONS = Reasons(
    "orders", 3, "json: not JSON at byte 4", "json", "syntax", "enforce", "k3v9qz-1f", 7, 1_700_000_000_000,
    "checkout", "User:shop", 4711, 2, 90,
)  # fmt: skip
LETTER = [Header("trace", b"1"), Header("trace", None), *REASONS.headers(own=2)]

names = st.binary(max_size=8) | st.sampled_from(list(Name)).map(str.encode)
any_headers = st.lists(st.builds(Header, names, st.none() | st.binary(max_size=8)), max_size=6)
texts = st.text(max_size=20)
optional_numbers = st.none() | st.integers(-1, 2**62)
reasons = st.builds(
    Reasons, topic=texts, partition=st.integers(0, 2**31), message=texts, policy=texts, reason=texts, mode=texts,
    rejection_id=texts, index=st.integers(-1, 2**31), rejected_at=st.integers(-1, 2**62), client_id=st.none() | texts,
    principal=st.none() | texts, producer_id=optional_numbers, producer_epoch=optional_numbers,
    sequence=optional_numbers,
)  # fmt: skip


@given(any_headers, reasons)
def test_the_records_own_headers_are_found_again_whatever_they_are(own: list[Header], why: Reasons) -> None:
    assert read_headers([*own, *why.headers(len(own))]) == (own, why)


@given(any_headers)
def test_other_headers_are_no_letter_or_one_with_all_that_it_needs(headers: list[Header]) -> None:
    try:
        _, why = read_headers(headers)
    except NotALetterError:
        return
    assert why.topic is not None


def test_the_names_of_kafka_have_the_values_of_kafka() -> None:
    values = {header.key: header.value for header in LETTER}
    assert values["__dlq.errors.topic"] == b"orders"
    assert values["__dlq.errors.partition"] == b"3"
    assert values["__dlq.errors.message"] == b"json: not JSON at byte 4"


def test_an_unknown_value_has_no_header() -> None:
    names = [header.key for header in replace(REASONS, principal=None, sequence=None).headers(0)]
    assert Name.PRINCIPAL not in names
    assert Name.SEQUENCE not in names


def test_headers_that_others_append_are_left_away() -> None:
    assert read_headers([*LETTER, Header("appended", b"x")]) == (LETTER[:2], REASONS)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ([], "the header kafka_sidecar.dlq.own_headers is missing"),
        ([Header(Name.OWN_HEADERS, b"x")], "kafka_sidecar.dlq.own_headers is no number"),
        ([Header(Name.OWN_HEADERS, b"1")], "kafka_sidecar.dlq.own_headers is 1, and 0 headers are before it"),
        ([Header(Name.OWN_HEADERS, b"0")], "the header __dlq.errors.topic is missing"),
        ([*LETTER[:3], *LETTER[4:]], "the header __dlq.errors.partition is missing"),
        ([Header(Name.TOPIC, b"t"), Header(Name.PARTITION, b"x"), *LETTER[4:-1], Header(Name.OWN_HEADERS, b"0")],
         "invalid literal for int() with base 10: 'x'"),
    ],
)  # fmt: skip
def test_a_record_that_is_no_letter_says_what_is_missing(headers: list[Header], message: str) -> None:
    with pytest.raises(NotALetterError) as caught:
        read_headers(headers)
    assert str(caught.value) == message


def test_a_replayed_record_is_known_by_its_header() -> None:
    assert is_replayed([Header("a", b""), Header(REPLAYED, b"k3v9qz-1f")])
    assert not is_replayed(LETTER)
