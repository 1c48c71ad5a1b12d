"""What a broker of the tests is configured with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.versions import as_numbers

# Each broker listens for three kinds of callers. Whatever a listener is asked, it answers with addresses of that same
# listener, all of which can be reached: an address that leaks through a sidecar would really be connected to.
SIDECAR, DIRECT, INTERNAL, CONTROLLER = LISTENERS = ("SIDECAR", "DIRECT", "INTERNAL", "CONTROLLER")


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one node, one per listener."""

    sidecar: int  # for sidecars alone: a client that connects here has seen an address that it should not know
    direct: int  # for clients that talk to the broker without a sidecar
    internal: int  # for the other brokers
    controller: int


def listener(name: str, port: int) -> str:
    return f"{name}://127.0.0.1:{port}"


def properties(
    version: str, node_id: int, ports: Ports, voters: dict[int, Ports], data: Path, fronts: Mapping[int, int]
) -> dict[str, object]:
    """The configuration of one node; it is a controller, too, if it is one of the voters.

    ``fronts``: by node, the port of what is between it and sidecars.
    """
    brokers = [listener(SIDECAR, ports.sidecar), listener(DIRECT, ports.direct), listener(INTERNAL, ports.internal)]
    advertised = [listener(SIDECAR, fronts.get(node_id, ports.sidecar)), *brokers[1:]]
    is_controller = node_id in voters
    replicas = min(3, len(voters))
    return {
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": node_id,
        "controller.quorum.voters": ",".join(f"{voter}@127.0.0.1:{its.controller}" for voter, its in voters.items()),
        "listeners": ",".join(brokers + [listener(CONTROLLER, ports.controller)] * is_controller),
        "advertised.listeners": ",".join(advertised),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": INTERNAL,
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in LISTENERS),
        "log.dirs": data,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min(2, replicas),
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": min(2, replicas),
        "default.replication.factor": replicas,
        "min.insync.replicas": min(2, replicas),
        **SMALL,
        **ENDLESS,
        **QUICK,
        **COMPLETE,
        **(BEFORE_4_1 if as_numbers(version) < (4, 1) else SINCE_4_1),
        **(PREVIEW_3_9 if version.startswith("3.9.") else {}),
    }


# Twelve of these run on two cores.
SMALL: dict[str, object] = {
    "num.network.threads": 1,
    "num.io.threads": 4,
    "num.partitions": 3,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "share.coordinator.state.topic.num.partitions": 3,
    "log.segment.delete.delay.ms": 1000,
    "log.cleaner.dedupe.buffer.size": 2 << 20,
}

# Records of 1970 are welcome.
ENDLESS: dict[str, object] = {"log.retention.ms": -1}

# What a production cluster waits for patiently, a test does not.
QUICK: dict[str, object] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.session.timeout.ms": 3000,
    "group.consumer.session.timeout.ms": 10000,
    "group.consumer.assignment.interval.ms": 0,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.heartbeat.interval.ms": 300,
    "group.share.min.session.timeout.ms": 3000,
    "group.share.session.timeout.ms": 10000,
    "group.share.assignment.interval.ms": 0,
    "broker.heartbeat.interval.ms": 1000,
    "broker.session.timeout.ms": 5000,
    "replica.lag.time.max.ms": 5000,
    "controller.quorum.election.backoff.max.ms": 300,
    "leader.imbalance.check.interval.seconds": 5,
}

# Every API that a broker of this version can be made to serve without TLS or SASL.
COMPLETE: dict[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "delete.topic.enable": "true",
}

# A follower learns with the next record that the last one is committed (KIP-1166): write one often. A broker that has
# nothing else to do spends half of its CPU on that.
BEFORE_4_1: dict[str, object] = {"metadata.max.idle.interval.ms": 50}

# Later ones learn it at once: the two records a second that are usual cost an idle broker 4 of 15 ms of CPU a second.
SINCE_4_1: dict[str, object] = {"metadata.max.idle.interval.ms": 10_000}

# KIP-848 groups are a preview there; from 4.0 on they need no word.
PREVIEW_3_9: dict[str, object] = {"group.coordinator.rebalance.protocols": "classic,consumer"}
