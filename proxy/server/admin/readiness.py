"""Whether the sidecar is ready, and with `?verbose` the state of all that it depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_sidecar.proxy.nodes.addresses import Node
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.logs import timestamp

DISABLED = "disabled"
LOGIN_FAILED = "the brokers do not let the sidecar in; /readyz?verbose says why"


def is_ready(server: Server) -> bool:
    """Whether it listens, has reached the cluster, is let in there, and knows the topic configs."""
    is_rejected = server.broker_logins is not None and server.broker_logins.failure is not None
    return (
        server.listening
        and server.metrics.cluster_reached
        and not is_rejected
        and not _trouble(server)
        and not server.own.addresses
    )


def readiness(server: Server) -> dict[str, Any]:
    """Why it is ready or not, for anybody: it names no user, file or broker."""
    configs = server.features.topic_configs
    return {
        "ready": is_ready(server),
        "listening": server.listening,
        "cluster_reached": server.metrics.cluster_reached,
        "connects_to_itself": bool(server.own.addresses),
        "broker_login": _login(server),
        "listen": server.config.listen,
        "nodes": {str(node.node_id): {"port": node.local_port} for node in server.addresses.nodes.values()},
        "connections": len(server.connections),
        "topics_known": len(server.topics),
        "topic_configs": DISABLED if configs is None else "not ready" if _trouble(server) else "ready",
    }


def verbose_readiness(server: Server) -> dict[str, Any]:
    """The same, and more that an operator asks for."""
    return {
        **readiness(server),
        "connects_to_itself": [f"{host}:{port}" for host, port in sorted(server.own.addresses)],
        "broker_login": _login(server, in_full=True),
        "nodes": {str(node.node_id): _node(server, node) for node in server.addresses.nodes.values()},
        "topic_configs": DISABLED if server.features.topic_configs is None else _trouble(server) or "ready",
        "listeners": server.listener_addresses,
        "brokers": _brokers(server),
        "topic_config_reader": _topic_configs(server),
        "dead_letters": _dead_letters(server),
        "audit": _audit(server),
        "policies": _policies(server),
        "interceptors": _interceptors(server),
        "schema_registries": _schema_registries(server),
        "configuration": {
            "last_reload": "applied" if server.metrics.config_is_current else "rejected",
            "applied_at": timestamp(server.metrics.config_applied_at),
            "restart_required_by": list(server.metrics.needs_restart),
        },
    }


def _node(server: Server, node: Node) -> dict[str, Any]:
    last = server.attempts.last((node.host, node.port))
    return {
        "broker": f"{node.host}:{node.port}",
        "port": node.local_port,
        "connections": server.connected[f"node {node.node_id}"],
        "reachable": last.is_reachable,
        "last_failure": last.failure,
        "failed_at": None if last.failed_at is None else timestamp(last.failed_at),
    }


def _trouble(server: Server) -> str | None:
    configs = server.features.topic_configs
    return configs.unready if configs is not None else None


def _login(server: Server, in_full: bool = False) -> str:
    if server.broker_logins is None:
        return DISABLED
    failure = server.broker_logins.failure
    if failure is not None:
        return failure if in_full else LOGIN_FAILED
    return "ok" if server.broker_logins.counts["success"] else "not tried yet"


def _brokers(server: Server) -> dict[str, Any]:
    return {
        "bootstrap_servers": list(server.config.bootstrap_servers),
        "last_metadata": server.last_metadata,
        "connect_failures": dict(server.metrics.connect_failures),
    }


def _topic_configs(server: Server) -> dict[str, Any] | str:
    configs = server.features.topic_configs
    if configs is None:
        return DISABLED
    return {
        "topic": server.config.topic_configs.topic,
        "has_read_to_the_end": configs.ready,
        "trouble": configs.trouble,
        "topics_with_configs": len(list(configs.entries.all())),
        "unreadable_records": configs.unreadable,
    }


def _dead_letters(server: Server) -> Mapping[str, Any] | str:
    """They do not decide whether the sidecar is ready: rejections do not need them."""
    letters = server.features.dead_letters
    return DISABLED if letters is None else letters.state()


def _audit(server: Server) -> Mapping[str, Any] | str:
    audit = server.features.audit
    return DISABLED if audit is None else audit.state()


def _policies(server: Server) -> dict[str, Any] | str:
    validator = server.features.validator
    if validator is None:
        return DISABLED
    return {"loaded": validator.rules.policies, "topics": [rule.name for rule in validator.rules.topics]}


def _schema_registries(server: Server) -> Mapping[str, Any] | str:
    """They do not decide whether the sidecar is ready: it relays, and what it knows of them it still has."""
    opened = server.features.schema_registries
    return DISABLED if opened is None else opened.states()


def _interceptors(server: Server) -> list[str] | str:
    interception = server.features.interception
    return DISABLED if interception is None else [guard.name for guard in interception.catalog.guards]
