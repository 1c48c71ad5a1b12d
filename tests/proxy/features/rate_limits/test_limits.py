"""Which limits are for a client, and from which buckets what it does is taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.client import FakeClient
from support.rate_limits import Limited, limits

from kafka_sidecar.proxy.features.rate_limits.buckets import Buckets
from kafka_sidecar.proxy.features.rate_limits.limits import MAX_TOPICS, ClientLimits, Limit, Taken

RATE: dict[str, Any] = {"produce_bytes": 1000}
ALL_RATES = {"produce_bytes": 10, "produce_records": 20, "consume_bytes": 30, "consume_records": 40, "requests": 50}


def client(client_id: str | None = "app-1", principal: str | None = "User:alice") -> FakeClient:
    return FakeClient(client_id=client_id, principal=principal)


def of(rules: Sequence[Limit], who: FakeClient | None = None, buckets: Buckets | None = None) -> ClientLimits:
    def topic_of(key: str | bytes) -> str:
        return key if isinstance(key, str) else ""

    return ClientLimits(rules, who or client(), buckets or Buckets(), topic_of)


def shown(taken: Taken) -> list[tuple[str, str]]:
    return [(tank.limit.name, tank.rate) for tanks in taken for tank in tanks]


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
    mine = of(limits({**RATE, **entry}), client(*names))
    assert mine.produces is mine.produced["orders"].is_counted is is_for
    assert not mine.consumes


@pytest.mark.parametrize("per", [[], ["client_id"], ["principal"], ["topic"], ["topic", "client_id", "principal"]])
def test_each_combination_of_what_a_limit_is_per_has_a_bucket(per: list[str]) -> None:
    rules, buckets, places = limits({**RATE, "per": per}), Buckets(), {"client_id": 0, "principal": 1, "topic": 2}
    owed: dict[tuple[str, ...], int] = {}
    for names in (("a", "User:x"), ("a", "User:y"), ("b", "User:x")):
        for topic in ("orders", "payments"):
            (tank,) = of(rules, client(*names), buckets).produced[topic].bytes
            place = tuple((*names, topic)[places[one]] for one in per)
            owed[place] = owed.get(place, 0) + 1
            assert tank.bucket.take(1000, 100.0) == pytest.approx(owed[place] - 1)


def test_bytes_records_and_requests_have_buckets_of_their_own() -> None:
    mine = of(limits(ALL_RATES, {**ALL_RATES, "topics": ["orders"]}))
    assert shown(mine.produced["orders"]) == [
        ("limit0", "produce_bytes"), ("limit1", "produce_bytes"), ("limit0", "produce_records"),
        ("limit1", "produce_records"), ("limit1", "requests"),
    ]  # fmt: skip
    assert shown(mine.consumed["other"]) == [("limit0", "consume_bytes"), ("limit0", "consume_records")]
    assert [(tank.limit.name, tank.rate) for tank in mine.requests] == [("limit0", "requests")]
    tanks = [tank for tanks in (*mine.produced["orders"], *mine.consumed["orders"]) for tank in tanks]
    assert [tank.bucket.take(int(tank.limit.rates[tank.rate]) * 3, 100.0) for tank in tanks] == pytest.approx(
        [2.0] * 9 + [5.0]  # the last one: requests that bring records and those that get some are the same bucket's
    )


def test_a_topic_whose_name_is_not_known_is_counted_where_no_topic_is_named() -> None:
    mine = of(limits(RATE, {**RATE, "topics": ["orders"]}))
    assert shown(mine.produced[bytes(16)]) == [("limit0", "produce_bytes")]
    assert not mine.knows(bytes(16))


def test_a_limit_that_rejects_makes_no_client_wait() -> None:
    mine = of(limits(RATE, {**RATE, "action": "reject"}))
    assert shown(mine.produced["orders"]) == [("limit0", "produce_bytes")]
    assert shown(mine.rejected["orders"]) == [("limit1", "produce_bytes")]


def test_another_rate_begins_with_full_buckets() -> None:
    def bucket(**entry: Any) -> int:
        (limit,) = limits({**RATE, **entry})
        return limit.bucket("produce_bytes", "", "app", "User:alice")

    assert bucket() == bucket()
    assert len({bucket(), bucket(produce_bytes=2000), bucket(burst="2s"), bucket(name="other")}) == 4


def test_what_is_remembered_of_topics_is_bounded() -> None:
    mine = of(limits({**RATE, "per": ["topic"]}))
    for number in range(3 * MAX_TOPICS):
        assert mine.produced[f"topic-{number}"].is_counted
    assert len(mine.produced) == MAX_TOPICS


def test_a_request_of_several_topics_is_one_request_unless_each_has_its_own_rate() -> None:
    talk = Limited({"topics": ["*"], "requests": 2}, {"per": ["topic"], "requests": 2, "name": "each"})
    mine = talk.meter.limits_of(talk.session)
    rows = [("orders", 10, 1), ("payments", 10, 1), ("free", 10, 1)]
    for _ in range(2):
        talk.meter.produced(talk.session, mine, rows, talk.now)
    assert talk.session.muted_until == 0
    talk.meter.produced(talk.session, mine, rows[:1], talk.now)
    assert (talk.session.muted_until - talk.now, talk.session.muted_by) == (0.5, "limit0")
