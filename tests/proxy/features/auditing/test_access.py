"""What rules decide is sent to a topic of its own, if it is wanted."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support import oracle
from support.audit import FakeTopic
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of, serving

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.auditing import access

RULES = {"default": "deny", "rules": [{"principals": ["User:*"], "topics": ["open"]}]}


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> FakeTopic:
    topic = FakeTopic()
    monkeypatch.setattr(access, "topic_writer", lambda config, name, own: lambda: topic)
    return topic


async def events_of(topic: FakeTopic, wanted: str) -> list[tuple[str, str, str]]:
    settings: dict[str, Any] = {"authorization": RULES, "audit": {"access": wanted, "access_topic": "access"}}
    async with FakeBroker(1) as broker, serving(broker, **settings) as server:
        async with connected(port_of(server)) as client:
            request = oracle.request(ApiKey.METADATA, 9, topics=[{"name": "secret"}, {"name": "open"}])
            await client.ask(oracle.request_frame(request, 5))
        await server.features.stop(5.0)
    return [(event["outcome"], event["resource"], event["api"]) for event in topic.events]


async def test_denials_are_events(topic: FakeTopic) -> None:
    assert await events_of(topic, "denied") == [("denied", "secret", "Metadata")]


async def test_what_is_allowed_is_too_if_all_is_wanted(topic: FakeTopic) -> None:
    found = await events_of(topic, "all")
    assert found == [("denied", "secret", "Metadata"), ("allowed", "open", "Metadata")]


async def test_events_that_cannot_be_sent_are_lost_and_counted(
    topic: FakeTopic, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "MIN_FLUSH_S", 0.05)
    topic.error = OSError("no broker")
    caplog.set_level(logging.ERROR)
    settings: dict[str, Any] = {"authorization": RULES, "audit": {"access": "denied", "access_topic": "access"}}
    async with FakeBroker(1) as broker, serving(broker, **settings) as server:
        async with connected(port_of(server)) as client:
            request = oracle.request(ApiKey.METADATA, 9, topics=[{"name": "secret"}])
            await client.ask(oracle.request_frame(request, 5))
        await server.features.stop(0.05)
        made = server.features.made["access"]
        state = made.state()
        samples = {family.name: family.samples for family in made.families()}
    assert samples["access_events_discarded"]["not_sent",] == 1
    assert (state["discarded_events"], state["sent_events"], state["failure"]) == (1, 0, "no broker")
    assert "access events lost" in caplog.messages


def test_nothing_is_sent_by_default() -> None:
    assert Config(bootstrap_servers=["a:1"]).audit.access == "off"


@pytest.mark.parametrize(
    ("audit", "why"),
    [
        ({"access": "denied"}, "set access_topic"),
        ({"access": "all", "access_topic": "a", "topic": "a"}, "name another one"),
    ],
)
def test_the_topic_is_named_and_is_another_one_than_that_of_the_audit(audit: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Config.model_validate({"bootstrap_servers": "a:1", "audit": audit})
