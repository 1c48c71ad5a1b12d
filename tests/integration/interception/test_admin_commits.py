"""Offsets that an admin sets are commits too: interceptors see them, and that they are not a member's."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from harness.versions import NEWEST
from integration.interception.batches import send
from integration.interception.intercepted import Intercepted
from integration.interception.reads import How, Reader
from integration.scenarios.target import eventually

pytestmark = pytest.mark.integration

RESET_OFFSETS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
RECORDS = 3
METADATA = "+ключ"  # what the interceptor appends


@pytest.mark.parametrize(
    ("client", "how"),
    [
        pytest.param("java", How(), id="java-classic"),
        pytest.param("librdkafka", How(protocol="consumer"), id="librdkafka-consumer"),
        pytest.param("java", How(protocol="consumer"), id="java-consumer", marks=pytest.mark.slow),
        pytest.param("librdkafka", How(), id="librdkafka-classic", marks=pytest.mark.slow),
    ],
)
def test_an_admins_commit_is_intercepted_and_is_not_a_members(
    intercepted: Intercepted, readers: Mapping[str, Reader], client: str, how: How
) -> None:
    topic = intercepted.topic(f"annotate-admin-{client}-{how.protocol}")
    group = _read_to_the_end(intercepted, readers[client], topic, how)
    _reset_to_1(intercepted, group, topic)
    assert intercepted.committed(group) == {(topic, 0): (1, METADATA)}
    events = intercepted.events("on_commit", group=group)
    assert [event["offsets"] for event in events if not event["is_member"]] == [[[topic, 0, 1, METADATA]]]
    assert {event["offsets"][0][2] for event in events if event["is_member"]} == {RECORDS}


def test_an_admin_can_reset_what_members_cannot_rewind(intercepted: Intercepted, readers: Mapping[str, Reader]) -> None:
    topic = intercepted.topic("no-rewind-admin")
    group = _read_to_the_end(intercepted, readers["java"], topic, How())
    _reset_to_1(intercepted, group, topic)
    assert intercepted.committed(group) == {(topic, 0): (1, "")}


def _read_to_the_end(intercepted: Intercepted, read: Reader, topic: str, how: How) -> str:
    """The group whose only member has read the topic and committed."""
    group = f"of-{topic}"
    send(intercepted.cluster.direct, topic, [[b"v"] * RECORDS])
    read(intercepted.sidecar.bootstrap, [topic], group, how)
    eventually(lambda: intercepted.committed(group)[topic, 0][0], lambda offset: offset == RECORDS, "the commit")
    return group


def _reset_to_1(intercepted: Intercepted, group: str, topic: str) -> None:
    reset = ("--reset-offsets", "--to-offset", "1", "--execute", "--group", group, "--topic", topic)
    intercepted.java[NEWEST].run(RESET_OFFSETS, "--bootstrap-server", intercepted.sidecar.bootstrap, *reset)
