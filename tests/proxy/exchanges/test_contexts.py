"""The context of a request."""

from __future__ import annotations

from support.client import FakeClient

from kafka_sidecar.proxy.exchanges.messages import client_context


def test_a_context_says_who_the_client_is_and_what_the_request_says_of_its_group() -> None:
    client = FakeClient(principal="User:alice")
    context = client_context(lambda: 12, client, 9, 3, group_id="g", member_id="m")
    assert context.clock() == 12
    assert (context.session, context.client_id, context.client_software) == (7, "app", "apache-kafka-java 4.3.1")
    assert (context.principal, context.api_version, context.generation_id) == ("User:alice", 9, 3)
    assert (context.group_id, context.member_id, context.group_instance_id) == ("g", "m", None)
