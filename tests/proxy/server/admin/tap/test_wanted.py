"""What may be asked for, and what is refused with the remedy."""

from __future__ import annotations

import pytest

from kafka_sidecar.proxy.config.sections import Tap
from kafka_sidecar.proxy.server.admin.tap.wanted import Filter, RefusedError, wanted_of


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("", "name a kind: records, requests, rejections, connections"),
        ("kind=all", "name a kind"),
        ("kind=records&api=Produce", "records have no filter 'api': choose from topic"),
        ("kind=requests&api=Prodce", "'Prodce' is not an API of Kafka"),
        ("kind=records&direction=up", "choose from produced, fetched"),
        ("kind=records&partition=-1", "'-1' is no number"),
        ("kind=records&show=headers", "'headers' cannot be shown: choose from keys, values"),
        ("kind=requests&show=values", "only records have values"),
        ("kind=records&count=0", "count: write a number above 0"),
        ("kind=records&seconds=nan", "seconds: write a number above 0"),
        ("kind=records&seconds=inf", "seconds: write a number above 0"),
        ("kind=records&topic=" + "a" * 301, "at most 20 patterns of 300 characters"),
        ("kind=records" + "&topic=a" * 21, "at most 20 patterns"),
        ("kind=records" + "&topic=a" * 200, "too many filters"),
    ],
)
def test_a_query_that_means_nothing_is_refused(query: str, error: str) -> None:
    with pytest.raises(RefusedError) as refused:
        wanted_of(query)
    assert error in str(refused.value)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("query", "settings", "status"),
    [
        ("kind=records&show=keys", {}, 403),
        ("kind=records&show=values", {"allow_keys": True}, 403),
        ("kind=records&show=keys,values", {"allow_values": True}, 403),
        ("kind=records", {"enabled": False}, 404),
        ("kind=records&show=keys&show=values", {"allow_values": True, "allow_keys": True}, None),
        ("kind=records", {}, None),
    ],
)
def test_payloads_are_shown_only_where_the_configuration_lets_it(
    query: str, settings: dict[str, bool], status: int | None
) -> None:
    refusal = wanted_of(query).refusal(Tap(**settings))
    assert (refusal.status if refusal is not None else None) == status
    assert refusal is None or "set tap." in str(refusal)


def test_filters_are_patterns_of_which_one_has_to_match() -> None:
    one = Filter(wanted_of("kind=rejections&topic=a*&topic=b&principal=User:ANONYMOUS&policy=json"))
    row = {"topic": "ab", "policy": "json", "principal": None}
    assert one.allows_row(row)
    assert not one.allows_row({**row, "topic": "c"})
    assert not one.allows_row({**row, "topic": None})
    assert not one.allows_row({**row, "principal": "User:x"})
    assert not one.allows_row({**row, "policy": "size"})


def test_each_tap_hashes_keys_with_a_secret_of_its_own() -> None:
    assert wanted_of("kind=records").salt != wanted_of("kind=records").salt


def test_a_log_line_says_what_is_shown() -> None:
    wanted = wanted_of("kind=records&topic=orders&show=values")
    assert wanted.describe() == "records, topic orders, keys not shown, values shown"
