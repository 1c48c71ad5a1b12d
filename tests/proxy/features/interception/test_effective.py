"""The interceptors of a topic as they are shown."""

from __future__ import annotations

from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.proxy.features.interception.effective import describe_interceptors
from kafka_sidecar.proxy.features.interception.from_config import NoReport


def test_an_interceptor_is_shown_with_its_hooks_and_all_its_settings() -> None:
    own = InterceptorSettings("create_timestamp", "stamp", ("a", "ord*"))
    (found,) = describe_interceptors(InterceptorCatalog([own], NoReport()), "orders")
    assert (found["name"], found["source"], found["disabled"]) == ("stamp", "topics: ord*", False)
    assert found["class"] == "kafka_sidecar.interceptors.builtin.create_timestamp:CreateTimestamp"
    assert found["hooks"] == ["on_send"]
    assert found["settings"] == {}


def test_only_interceptors_of_the_topic_are_shown() -> None:
    own = InterceptorSettings("counting", "tally", ("orders",))
    assert describe_interceptors(InterceptorCatalog([own], NoReport()), "words") == []
