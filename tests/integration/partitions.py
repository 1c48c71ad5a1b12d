"""Who leads which partition, and how to change it: asked of the brokers directly, past any sidecar."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence

from harness.cluster import Cluster
from harness.tool_host import ToolHost
from integration.scenarios.target import LIMIT_S, admin_client, eventually

TOOLS = "org.apache.kafka.tools"


def leaders(cluster: Cluster, topic: str) -> list[int]:
    """The node that leads each partition."""
    admin = admin_client(cluster.direct)
    found = admin.list_topics(topic, LIMIT_S).topics[topic].partitions
    return [found[partition].leader for partition in sorted(found)]


def move(cluster: Cluster, host: ToolHost, topic: str, replicas: Sequence[Sequence[int]]) -> None:
    """Gives each partition these replicas; the first of them leads when this returns."""
    wanted = [{"topic": topic, "partition": number, "replicas": list(nodes)} for number, nodes in enumerate(replicas)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"partitions": wanted, "version": 1}, file)
        file.flush()
        reassign = f"{TOOLS}.reassign.ReassignPartitionsCommand"
        address = ["--bootstrap-server", cluster.direct]
        host.run(reassign, *address, "--reassignment-json-file", file.name, "--execute")
        verify = [reassign, *address, "--reassignment-json-file", file.name, "--verify"]
        eventually(lambda: host.run(*verify), lambda out: "still in progress" not in out, f"{topic} reassigned")
        host.run(
            f"{TOOLS}.LeaderElectionCommand", *address, "--election-type", "preferred", "--path-to-json-file", file.name
        )
    firsts = [nodes[0] for nodes in replicas]
    eventually(lambda: leaders(cluster, topic), lambda found: found == firsts, f"{topic} led by {firsts}")
