"""`/readyz?verbose`: the state of all that a sidecar depends on."""

from __future__ import annotations

import json
from typing import Any

from support.admin import get, get_json, pages
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.features import started
from support.in_process import connected, port_of, until
from support.topic_configs import Cluster

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.server.admin.live.sample import STATE, Samples
from kafka_sidecar.proxy.server.admin.readiness import verbose_readiness

HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)


async def test_it_names_listeners_brokers_policies_and_interceptors() -> None:
    settings: dict[str, Any] = {
        "policies": {"small": {"type": "limits", "max_value_bytes": 10}},
        "topics": [{"name": "orders", "policy": "small"}],
        "interceptors": [{"type": "counting", "name": "tally"}],
    }
    async with FakeBroker(1) as broker, pages(broker, **settings) as (server, port):
        await until(lambda: server.addresses.nodes and "node 1" in server.listener_addresses)
        found = await get_json(port, "/readyz?verbose")
        assert found["listeners"] == {
            "bootstrap": [server.config.listen], "node 1": [f"127.0.0.1:{port_of(server, 1)}"]
        }  # fmt: skip
        assert found["brokers"]["bootstrap_servers"] == [broker.address]
        assert found["brokers"]["last_metadata"] == "received"
        assert found["policies"] == {"loaded": ["small"], "topics": ["orders"]}
        assert found["interceptors"] == ["tally"]
        assert (found["topic_config_reader"], found["audit"]) == ("disabled", "disabled")
        assert found["configuration"]["last_reload"] == "applied"
        assert found["configuration"]["restart_required_by"] == []
        assert found.keys() > (await get_json(port, "/readyz")).keys()


async def test_each_broker_has_its_connections_and_the_last_failure_to_connect() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port):
        await until(lambda: server.addresses.nodes and "node 1" in server.listener_addresses)
        async with connected(port_of(server, 1)) as client:
            client.send(HEARTBEAT)
            await client.frame()
            (node,) = (await get_json(port, "/readyz?verbose"))["nodes"].values()
            assert node == {
                "broker": broker.address, "port": port_of(server, 1), "connections": 1, "reachable": True,
                "last_failure": None, "failed_at": None,
            }  # fmt: skip
        await until(lambda: not server.connections)
        await broker.stop()
        async with connected(port_of(server, 1)) as client:
            client.send(HEARTBEAT)
            await until(lambda: server.metrics.connect_failures["broker_unreachable"])
        (row,) = (await Samples(server).take([STATE]))["sidecar"]["nodes"]
        assert (row["node"], row["reachable"], row["last_failure"]) == (1, False, "refused the connection")
        assert row["failed_at"].endswith("Z")
        await until(lambda: not server.connections)
        assert verbose_readiness(server)["nodes"]["1"]["connections"] == 0


async def test_a_cluster_that_cannot_be_reached_is_named_with_the_reason() -> None:
    async with pages("127.0.0.1:1") as (server, port):
        await until(lambda: server.last_metadata != "not requested yet")
        status, _, body = await get(port, "/readyz?verbose")
        found = json.loads(body)
        assert (status, found["ready"], found["policies"]) == (503, False, "disabled")
        assert "127.0.0.1:1" in found["brokers"]["last_metadata"]


async def test_the_state_of_topic_configs_and_of_the_audit_is_shown() -> None:
    cluster = Cluster()
    async with FakeBroker(1) as broker, pages(broker) as (server, _), cluster.sidecar() as configs:
        server.features.made["topic_configs"] = configs
        audit = started({"type": "latency"}, audit={"topic": "audit"}).audit
        assert audit is not None
        server.features.made["auditing"] = audit
        found = json.loads(json.dumps(verbose_readiness(server)))
        server.features.made.clear()
    assert found["topic_config_reader"] == {
        "topic": None, "has_read_to_the_end": True, "trouble": None, "topics_with_configs": 0, "unreadable_records": 0,
    }  # fmt: skip
    assert found["audit"] == {
        "auditor": found["audit"]["auditor"], "intervals": 0, "buffered_events": 0, "buffered_bytes": 0,
        "oldest_seconds": 0.0, "spooled_events": None, "spooled_bytes": None, "discarded_events": 0, "sent_events": 0,
        "failure": None,
    }  # fmt: skip
