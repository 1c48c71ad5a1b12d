"""What needs attention: the rules are about metrics that exist, and each trouble leads to a view of the page."""

from __future__ import annotations

from importlib.resources import files

from support.all_metrics import all_metrics
from support.snapshots import family, snapshot

from kafka_sidecar.proxy.server.admin import live
from kafka_sidecar.proxy.server.admin.exposition import all_families
from kafka_sidecar.proxy.server.admin.live.reading import Series
from kafka_sidecar.proxy.server.admin.live.troubles import RULES, VIEWS, troubles


def test_what_fails_comes_before_what_is_only_to_be_looked_at() -> None:
    denied = family(
        "denials", "counter", ["api_key", "operation", "resource_type"],
        {"of": ["Produce", "write", "topic"], "value": 1, "rate": 1.0},
    )  # fmt: skip
    disabled = family("interceptor_disabled", "gauge", ["interceptor"], {"of": ["masking"], "value": 1})
    found = troubles(snapshot(denied, disabled, features={"auditing": {"failure": "no leader"}}))
    assert [(one["severity"], one["text"], one["view"]) for one in found] == [
        ("bad", "auditing: no leader", "audit"),
        ("bad", "interceptor masking is disabled after failures", "plug-ins"),
        ("warn", "denied: write of a topic in Produce, 1/s", "rejections"),
    ]


def test_failures_of_registries_and_dead_letters_are_named() -> None:
    features = {
        "schema_registries": {"registries": [{"name": "main", "failure": "refused"}, {"name": "b", "failure": None}]},
        "dead_letters": {"failure": None, "spool_failure": "disk full", "unusable_topics": {"a.dlq": "does not exist"}},
    }
    texts = [one["text"] for one in troubles(snapshot(features=features))]
    assert texts == [
        "schema registries main: refused", "dead letters: disk full", "dead letters: a.dlq: does not exist",
    ]  # fmt: skip


def test_what_a_feature_names_with_its_reason_is_one_trouble_whatever_its_metrics_say() -> None:
    features = {
        "schema_registries": {"registries": [{"name": "main", "failure": "refused"}]},
        "dead_letters": {"unusable_topics": {"a.dlq": "does not exist"}},
    }
    missing = family("dead_letters_missing_topics", "gauge", [], {"of": [], "value": 1})
    reachable = family("schema_registry_reachable", "gauge", ["registry"], {"of": ["main"], "value": 0})
    texts = [one["text"] for one in troubles(snapshot(missing, reachable, features=features))]
    assert texts == ["schema registries main: refused", "dead letters: a.dlq: does not exist"]


def test_of_many_topics_that_cannot_be_used_some_are_named_and_all_are_counted() -> None:
    topics = {f"{number}.dlq": "does not exist" for number in range(8)}
    found = troubles(snapshot(features={"dead_letters": {"unusable_topics": topics}}))
    assert (len(found), found[-1]["text"]) == (6, "dead letters: 3 more topics cannot be used")


def test_each_rule_names_a_metric_with_the_labels_that_its_text_has() -> None:
    """Those of the program: a metric that is renamed would never be a trouble."""
    known = {one.name: set(one.labels) for one in all_families(all_metrics())}
    for rule in RULES:
        assert rule.metric in known, rule.metric
    figures = {"rate", "value", "p99", "duration"}
    for rule in RULES:
        named = {part.partition("}")[0] for part in rule.text.split("{")[1:]} - figures
        assert named <= known[rule.metric], rule.metric
        any_labels = dict.fromkeys(known[rule.metric], "x")
        assert isinstance(rule.has(Series(any_labels, 1.0, 1.0)), bool)
        rule.counts({"value": 1.0, "rate": 1.0, "p50_s": None, "p99_s": None})


def test_what_has_its_letter_already_is_no_trouble() -> None:
    dropped = family(
        "dead_letters_dropped", "counter", ["reason"], {"of": ["replayed"], "value": 5, "rate": 2.0},
        {"of": ["rate"], "value": 7, "rate": 1.0},
    )  # fmt: skip
    found = [one["text"] for one in troubles(snapshot(dropped))]
    assert found == ["rejected records are not kept as dead letters (rate): 1/s"]


def test_each_view_is_one_of_the_page() -> None:
    page = files(live).joinpath("page", "index.html").read_text()
    views = {rule.view for rule in RULES} | set(VIEWS.values()) | {"now", "plug-ins", "connections"}
    assert [view for view in views if f'href="#{view}"' not in page] == []
