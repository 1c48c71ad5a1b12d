"""Which limits are for a client, and from which buckets it takes what."""

from __future__ import annotations

from typing import Any

import pytest
from support.client import FakeClient
from support.rate_limits import limits

from kafka_sidecar.proxy.features.rate_limits.limits import (
    CONSUME,
    MAX_KEYS,
    PRODUCE,
    Amount,
    ClientLimits,
    Limit,
)

RATE: dict[str, Any] = {"produce_bytes": 1000}


def client(client_id: str | None = "app-1", principal: str | None = "User:alice") -> FakeClient:
    return FakeClient(client_id=client_id, principal=principal)


@pytest.mark.parametrize(
    ("entry", "names", "is_for"),
    [
        ({}, ("app-1", "User:alice"), True),
        ({"client_ids": ["app-*"]}, ("app-1", "User:alice"), True),
        ({"client_ids": ["app-*"]}, ("job", "User:alice"), False),
        ({"client_ids": ["app-*"]}, (None, "User:alice"), False),
        ({"client_ids": ["*"]}, (None, "User:alice"), True),
        ({"principals": ["User:a*"]}, ("job", "User:alice"), True),
        ({"principals": ["User:a*"]}, ("job", "User:bob"), False),
        ({"principals": ["User:ANONYMOUS"]}, ("job", None), True),
        ({"principals": ["User:a*"], "client_ids": ["app-*"]}, ("job", "User:alice"), False),
    ],
)
def test_a_limit_is_for_clients_that_match_all_that_it_names(
    entry: dict[str, Any], names: tuple[str | None, str | None], is_for: bool
) -> None:
    rules = limits({**RATE, **entry})
    assert ClientLimits(rules, client(*names)).produce == (list(rules) if is_for else [])


def keys(rules: tuple[Limit, ...], who: FakeClient, amounts: dict[str, Amount]) -> list[int]:
    mine = ClientLimits(rules, who)
    return [one.key for one in mine.of_records(mine.produce, PRODUCE, amounts)]


@pytest.mark.parametrize("per", [[], ["client_id"], ["principal"], ["topic"], ["topic", "client_id", "principal"]])
def test_each_combination_of_what_a_limit_is_per_has_a_bucket(per: list[str]) -> None:
    rules = limits({**RATE, "per": per})
    found = {
        (names, topic): keys(rules, client(*names), {topic: Amount(10, 1)})
        for names in (("a", "User:x"), ("a", "User:y"), ("b", "User:x"))
        for topic in ("orders", "payments")
    }
    places = {"client_id": 0, "principal": 1, "topic": 2}
    expected = {tuple((*names, topic)[places[one]] for one in per) for names, topic in found}
    assert len({key for one in found.values() for key in one}) == len(expected)
    assert all(len(one) == 1 for one in found.values())


def test_several_topics_are_added_up_unless_each_has_its_bucket() -> None:
    amounts = {"orders": Amount(10, 1), "other": Amount(500, 7), "orders-eu": Amount(20, 2)}
    together, apart = limits({**RATE, "topics": ["orders*"]}, {**RATE, "topics": ["orders*"], "per": ["topic"]})
    mine = ClientLimits((together, apart), client())
    charges = mine.of_records(mine.produce, PRODUCE, amounts)
    assert [(one.limit.name, one.amount) for one in charges] == [("limit0", 30), ("limit1", 10), ("limit1", 20)]
    assert [one.seconds for one in charges] == [0.03, 0.01, 0.02]


def test_a_topic_whose_name_is_not_known_is_counted_where_no_topic_is_named() -> None:
    every, named = limits(RATE, {**RATE, "topics": ["*"]})
    mine = ClientLimits((every, named), client())
    charges = mine.of_records(mine.produce, PRODUCE, {"": Amount(10, 1)})
    assert [one.limit.name for one in charges] == ["limit0", "limit1"]
    (orders,) = limits({**RATE, "topics": ["orders"]})
    assert not orders.counts("")


def test_bytes_records_and_requests_have_buckets_of_their_own() -> None:
    entry = {"produce_bytes": 10, "produce_records": 20, "consume_bytes": 30, "consume_records": 40, "requests": 50}
    every, named = limits(entry, {**entry, "topics": ["orders"]})
    mine = ClientLimits((every, named), client())
    amounts = {"orders": Amount(100, 10)}
    produced = mine.of_records(mine.produce, PRODUCE, amounts)
    consumed = mine.of_records(mine.consume, CONSUME, amounts)
    asked = mine.of_request()
    assert [(one.rate, one.seconds) for one in produced if one.limit is every] == [
        ("produce_bytes", 10.0), ("produce_records", 0.5),
    ]  # fmt: skip
    assert [(one.rate, one.seconds) for one in consumed if one.limit is named] == [
        ("consume_bytes", 100 / 30), ("consume_records", 0.25), ("requests", 0.02),
    ]  # fmt: skip
    assert [(one.limit, one.rate) for one in asked] == [(every, "requests")]
    assert len({one.key for one in (*produced, *consumed, *asked)}) == 10


def test_a_limit_that_rejects_makes_nobody_wait() -> None:
    waits, rejects = limits(RATE, {**RATE, "action": "reject"})
    mine = ClientLimits((waits, rejects), client())
    assert (mine.produce, mine.rejecting) == ([waits], [rejects])


def test_an_unchanged_limit_keeps_its_buckets_and_another_rate_begins_with_full_ones() -> None:
    def bucket(**entry: Any) -> int:
        (limit,) = limits({**RATE, **entry})
        return limit.bucket("produce_bytes", "", "app", "User:alice")

    assert bucket() == bucket()
    assert len({bucket(), bucket(produce_bytes=2000), bucket(burst="2s"), bucket(name="other")}) == 4


def test_what_is_remembered_of_topics_is_bounded() -> None:
    rules = limits({**RATE, "per": ["topic"]})
    mine = ClientLimits(rules, client())
    for number in range(3 * MAX_KEYS):
        mine.of_records(mine.produce, PRODUCE, {f"topic-{number}": Amount(1, 1)})
    assert len(mine._keys) == MAX_KEYS
