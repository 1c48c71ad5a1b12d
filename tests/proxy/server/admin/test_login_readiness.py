"""Readiness while the brokers reject the sidecar's login, and what it tells anybody."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from kafka_sidecar.proxy.runtime.dialer import LastAttempts
from kafka_sidecar.proxy.server.admin.readiness import readiness, verbose_readiness

SECRET = "rejected; correct brokers.sasl (username gw, password_file /etc/pw)"


def server(failure: str | None) -> Any:
    node = SimpleNamespace(node_id=1, host="10.1.1.1", port=9092, local_port=19093)
    return SimpleNamespace(
        listening=True, connections=(), topics=(), last_metadata="received", listener_addresses={},
        config=SimpleNamespace(listen="127.0.0.1:19092", bootstrap_servers=("10.1.1.1:9092",)),
        metrics=SimpleNamespace(
            cluster_reached=True, connect_failures={"connect_timeout": 3}, config_is_current=True,
            config_applied_at=0.0, needs_restart=(),
        ),
        own=SimpleNamespace(addresses=set()), addresses=SimpleNamespace(nodes={1: node}),
        attempts=LastAttempts(lambda: 0.0), connected=Counter(),
        features=SimpleNamespace(
            topic_configs=None, audit=None, validator=None, interception=None, schema_registries=None,
            dead_letters=None,
        ),
        broker_logins=SimpleNamespace(failure=failure, counts={"success": 1}),
    )  # fmt: skip


def test_it_is_not_ready_while_the_brokers_reject_the_login_and_again_when_it_works() -> None:
    assert readiness(server(SECRET))["ready"] is False
    assert readiness(server(None))["ready"] is True
    assert readiness(server(None))["broker_login"] == "ok"


def test_no_user_file_or_broker_is_named_for_anybody_but_with_verbose() -> None:
    shown = str(readiness(server(SECRET)))
    assert not [word for word in ("gw", "/etc/pw", "10.1.1.1") if word in shown]
    assert verbose_readiness(server(SECRET))["broker_login"] == SECRET
    assert verbose_readiness(server(None))["brokers"]["connect_failures"] == {"connect_timeout": 3}
