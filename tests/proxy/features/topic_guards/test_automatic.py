"""Topics that a broker would create because a client names them, in every version of Metadata."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.features import FEWER, started
from support.guarded_broker import UNKNOWN, Exchanged, GuardedBroker, Topic, through

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafka_sidecar.proxy.features.compose import Features

VERSIONS = [*range(APIS[ApiKey.METADATA].max_version + 1)]
each_version = pytest.mark.parametrize("version", VERSIONS)
GUARD: dict[str, Any] = {"topics": ["guarded*"], "partitions": {"min": 3}}


def guarded(**more: Any) -> Features:
    return started(topic_guards=[{**GUARD, **more}])


def named(
    features: Features, broker: GuardedBroker, *names: str, version: int = 13, allow: bool = True
) -> Exchanged:  # fmt: skip
    topics = tuple(MetadataRequestTopic(name=name) for name in names)
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=allow)
    return through(features, broker, ApiKey.METADATA, version, request)


def codes(of: Exchanged) -> list[tuple[str, int]]:
    return [(topic.name, topic.error_code) for topic in of.response.topics]


def denied(features: Features) -> list[tuple[str, str, str]]:
    denials = features.made["topic_guards"].denials
    assert denials is not None
    return [(one.api, one.resource, one.mode) for one in denials.newest()]


@each_version
def test_a_topic_that_is_only_named_is_not_created(version: int) -> None:
    features, broker = guarded(), GuardedBroker({"another": Topic(1, 1)})
    found = named(features, broker, "guarded", version=version)
    assert codes(found) == [("guarded", UNKNOWN)]
    assert list(broker.topics) == ["another"]
    assert denied(features) == [("Metadata", "guarded", "enforce")]


@each_version
def test_a_topic_that_exists_is_described(version: int) -> None:
    features, broker = guarded(), GuardedBroker({"guarded": Topic(1, 1)})
    assert codes(named(features, broker, "guarded", version=version)) == [("guarded", 0)]
    assert denied(features) == []


@each_version
def test_others_of_the_same_request_are_created_as_before(version: int) -> None:
    broker = GuardedBroker({"guarded.old": Topic(1, 1)})
    found = named(guarded(), broker, "guarded.new", "free.new", "guarded.old", version=version)
    assert [name for name, _ in codes(found)] == ["guarded.new", "free.new", "guarded.old"]
    assert sorted(broker.topics) == ["free.new", "guarded.old"]


@each_version
def test_a_request_that_concerns_no_guard_is_forwarded_as_it_is(version: int) -> None:
    broker = GuardedBroker()
    assert named(guarded(), broker, "free", version=version).is_same
    assert list(broker.topics) == ["free"]


@pytest.mark.parametrize("version", VERSIONS[4:])
def test_a_client_that_wants_nothing_created_is_forwarded_as_it_is(version: int) -> None:
    broker = GuardedBroker()
    assert named(guarded(), broker, "guarded", version=version, allow=False).is_same
    assert len(broker.asked) == 1


def test_who_asks_for_all_topics_is_forwarded_as_it_is() -> None:
    found = through(guarded(), GuardedBroker(), ApiKey.METADATA, 13, MetadataRequest(topics=None))
    assert found.is_same


@each_version
def test_in_shadow_it_is_created_and_counted(version: int) -> None:
    features, broker = guarded(mode="shadow"), GuardedBroker()
    assert named(features, broker, "guarded", version=version).is_same
    assert list(broker.topics) == ["guarded"]
    assert denied(features) == [("Metadata", "guarded", "shadow")]


def test_topics_by_their_ids_are_there_already() -> None:
    topics = (MetadataRequestTopic(name=None, topic_id=b"i" * 16),)
    features = guarded(topics=["*"])
    exchange_request = MetadataRequest(topics=topics, allow_auto_topic_creation=True)
    broker = GuardedBroker(creates_named=False)
    found = through(features, broker, ApiKey.METADATA, 13, exchange_request)
    assert found.is_same


@FEWER
@given(
    st.sampled_from(VERSIONS),
    st.lists(st.sampled_from(["guarded.a", "guarded.b", "free.a", "free.b"]), min_size=1, max_size=5),
    st.sets(st.sampled_from(["guarded.a", "free.a"])),
)
def test_no_guarded_topic_comes_to_be_and_every_name_has_its_result(
    version: int, names: list[str], existing: set[str]
) -> None:
    broker = GuardedBroker({name: Topic(1, 1) for name in existing})
    found = named(guarded(), broker, *names, version=version)
    assert sorted(name for name, _ in codes(found)) == sorted(names)
    assert set(broker.topics) == existing | {name for name in names if name.startswith("free")}
    assert all(code == UNKNOWN for name, code in codes(found) if name not in broker.topics)
