"""The context that interceptors get, and the clients that must not get control batches."""

from __future__ import annotations

import pytest
from support.client import FakeClient
from support.interception import NOW, Intercepting


def test_the_context_names_the_client() -> None:
    services = Intercepting().services
    client = FakeClient(3, "app", "librdkafka 2.13", "User:alice")
    context = services.context(client, 9, "t")
    assert (context.session, context.client_id, context.client_software) == (3, "app", "librdkafka 2.13")
    assert (context.principal, context.api_version, context.clock()) == ("User:alice", 9, NOW)
    assert (context.transactional_id, context.host, context.is_member) == ("t", client.host, False)


@pytest.mark.parametrize(
    ("software", "version", "holds"),
    [(None, 4, True), (None, 10, True), (None, 11, False), ("librdkafka 1", 4, False), ("librdkafka 1", 18, False)],
)
def test_old_clients_without_a_name_would_show_control_batches(software: str | None, version: int, holds: bool) -> None:
    assert Intercepting().services.holds(FakeClient(client_software=software), version) is holds


@pytest.mark.parametrize(("client_id", "holds"), [("go-1", True), ("go-", True), ("java", False), (None, False)])
def test_others_are_named_in_the_configuration(client_id: str | None, holds: bool) -> None:
    services = Intercepting(hold_for=("go-*", "other")).services
    assert services.holds(FakeClient(client_id=client_id), 17) is holds
