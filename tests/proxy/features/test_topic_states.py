"""What features say of a topic and of themselves, for the page of the admin port."""

from __future__ import annotations

from typing import Any

from support.client import FakeClient
from support.features import load, started

from kafka_sidecar.proxy.features.compose import Features
from kafka_sidecar.proxy.features.rate_limits.rate_limits import RateLimits

EMPTY: dict[str, Any] = {}
LETTERS = {
    "topics": [
        {"name": "*.dlq"},
        {"name": "orders", "policy": "json", "dead_letters": {"topic": "{topic}.dlq", "shadow": True}},
        {"name": "payments", "policy": "json", "mode": "shadow", "consume": "hide"},
    ]
}


def said(features: Features, topic: str) -> dict[str, Any]:
    """Of all features."""
    return {key: value for one in features.made.values() for key, value in one.topic_state(topic).items()}


def test_features_that_have_nothing_for_a_topic_say_nothing_of_it() -> None:
    features = started(
        rate_limits=[{"name": "shop", "topics": ["orders"], "produce_bytes": 1}],
        producers=[{"topics": ["orders"], "acks": "all"}],
        topic_guards=[{"topics": ["orders"], "delete": "deny"}],
        **LETTERS,
    )
    assert said(features, "free") == EMPTY
    assert set(said(features, "orders")) == {"rate limits", "habits", "guards", "dead letters", "of shadow"}


def test_the_limits_of_a_topic_are_those_that_count_what_is_sent_to_it_or_read_of_it() -> None:
    features = started(
        rate_limits=[
            {"name": "shop", "topics": ["ord*"], "produce_bytes": 1},
            {"name": "all", "consume_records": 1},
            {"name": "asks", "requests": 1},
            {"name": "clicks", "topics": ["clicks"], "requests": 1},
        ]
    )
    assert said(features, "orders") == {"rate limits": ["shop", "all"]}
    assert said(features, "clicks") == {"rate limits": ["all", "clicks"]}


def test_a_limit_says_how_much_of_what_may_be_taken_at_once_is_used() -> None:
    now = 1000.0
    features = started(
        rate_limits=[
            {"name": "shop", "produce_bytes": 1000, "burst": "2s"},
            {"name": "each", "per": ["client_id"], "produce_records": 10, "action": "reject"},
        ]
    )
    feature = features.made["rate_limits"]
    assert isinstance(feature, RateLimits)
    feature.meter.clock = lambda: now
    client = FakeClient()
    limits = feature.meter.limits_of(client)
    feature.meter.produced(client, limits, [("orders", 500, 1)], now)
    shop, each = feature.state()["limits"]
    assert shop == {
        "limit": "shop", "rate": "produce_bytes", "a_second": 1000.0, "each": None, "action": "throttle",
        "used": 0.25, "throttled": 0, "rejected": 0,
    }  # fmt: skip
    assert (each["each"], each["used"], each["action"]) == ("client_id", None, "reject")
    feature.meter.produced(client, limits, [("orders", 4500, 1)], now)
    assert feature.state()["limits"][0]["used"] == 2.5  # owed
    assert feature.state()["limits"][0]["throttled"] == 1
    now += 3.0
    assert feature.state()["limits"][0]["used"] == 1.0
    now += 9.0
    assert feature.state()["limits"][0]["used"] == 0.0


def test_guards_and_habits_are_named_by_entry_rules_mode_and_whose_they_are() -> None:
    features = started(
        topic_guards=[
            {"principals": ["User:platform"]},
            {"topics": ["other"], "delete": "deny"},
            {"partitions": {"max": 3}, "naming": "x", "mode": "shadow"},
        ],
        producers=[
            {"topics": ["orders"], "principals": ["User:alice"], "acks": "all", "compression": ["zstd"]},
            {"topics": ["ord*"], "mode": "shadow"},
        ],
    )
    assert said(features, "orders") == {
        "guards": ["entry 1 of User:platform: nothing (enforce)", "entry 3: naming, partitions (shadow)"],
        "habits": ["entry 1 of User:alice: acks, compression (enforce)", "entry 2: nothing (shadow)"],
    }
    load(features)
    assert said(features, "orders") == EMPTY


def test_a_topic_says_where_its_dead_letters_go_and_what_its_consumers_get() -> None:
    features = started(**LETTERS)
    assert said(features, "orders") == {"dead letters": "orders.dlq", "of shadow": True}
    assert said(features, "payments") == {"consumers": "hide"}
    letters = features.dead_letters
    assert letters is not None
    letters.missing = {"orders.dlq": "it does not exist"}
    assert said(features, "orders")["unusable"] == "it does not exist"
