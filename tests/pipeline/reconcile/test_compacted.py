"""Which topics are compacted, as the cluster or the configuration says."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka_sidecar.pipeline.reconcile.compacted import MAX_AGE_S, CompactedTopics


class Cluster:
    """Knows topics, and counts how often it is asked."""

    def __init__(self, **policies: str) -> None:
        self.policies = policies
        self.asked: list[list[str]] = []
        self.now = 0.0

    def ask(self, names: Collection[str]) -> tuple[str, Mapping[str, str]]:
        self.asked.append(list(names))
        if not self.policies:
            raise OSError("timeout")
        return "c1", {name: self.policies[name] for name in names if name in self.policies}


def test_the_cluster_says_which_of_its_topics_are_compacted() -> None:
    cluster = Cluster(a="delete", b="compact", c="compact,delete")
    known = CompactedTopics(ask=cluster.ask)
    topics = [("c1", name) for name in "abcd"] + [("c2", "b"), ("", "b")]
    assert known.of(topics) == {("c1", "b"), ("c1", "c"), ("", "b")}
    assert cluster.asked == [["a", "b", "c", "d"]]


def test_it_is_asked_again_after_a_time_and_what_is_deleted_stays_known() -> None:
    cluster = Cluster(a="compact", b="compact")
    known = CompactedTopics(ask=cluster.ask, clock=lambda: cluster.now)
    topics = [("c1", "a"), ("c1", "b")]
    assert known.of(topics) == set(topics)
    cluster.policies = {"a": "delete"}
    cluster.now = MAX_AGE_S - 1
    assert known.of(topics) == set(topics)
    cluster.now = MAX_AGE_S
    assert known.of(topics) == {("c1", "b")}
    assert len(cluster.asked) == 2


def test_without_an_answer_nothing_changes_and_the_next_batch_asks_again() -> None:
    cluster = Cluster()
    known = CompactedTopics(ask=cluster.ask)
    assert known.of([("c1", "a")]) == set()
    cluster.policies = {"a": "compact"}
    assert known.of([("c1", "a")]) == {("c1", "a")}


def test_the_configuration_names_those_of_any_cluster() -> None:
    known = CompactedTopics(["users", "*-changelog"])
    topics = {("c1", "users"), ("", "app-changelog"), ("c1", "orders")}
    assert known.of(topics) == topics - {("c1", "orders")}
