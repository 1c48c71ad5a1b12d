"""One broker that sidecars reach in four ways: with and without TLS, with and without a login."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from harness import sasl
from harness.broker_properties import CONTROLLER, DIRECT, INTERNAL, SIDECAR, Ports, listener
from harness.cluster import Cluster, Node
from harness.ports import free_ports
from harness.tls import BROKERS_CA
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, SILENT, create_topic, eventually

# Of quotas: short windows, so that a few hundred kilobytes are throttled at once, and not for long.
QUOTAS: dict[str, object] = {"quota.window.num": 2, "quota.window.size.seconds": 1}
# Groups may be given back soon what a member has acquired in a response that a quota has withheld, and often.
SHARED: dict[str, object] = {"group.share.min.record.lock.duration.ms": 1000, "group.share.delivery.count.limit": 10}
PROTOCOLS = {
    (False, False): (SIDECAR, "PLAINTEXT"),
    (False, True): ("LOGIN", "SASL_PLAINTEXT"),
    (True, False): ("TLS", "SSL"),
    (True, True): ("TLSLOGIN", "SASL_SSL"),
}


class FourWays(Cluster):
    """A cluster of one node with three listeners more."""

    keystore: Path = Path()

    def __init__(self, version: str, work: Path, count: int, fronts: Mapping[int, int]) -> None:
        super().__init__(version, work, count, fronts)
        self._more = dict(zip([name for name, _ in PROTOCOLS.values()][1:], free_ports(3, keep=True), strict=True))

    def way(self, tls: bool, login: bool) -> str:
        """The broker's address for a sidecar."""
        name, _ = PROTOCOLS[tls, login]
        return f"127.0.0.1:{self._more[name]}" if name in self._more else self.bootstrap

    def _format(self, node_id: int, overrides: Mapping[str, object]) -> Node:
        keystore = BROKERS_CA.issue("broker").write_both(self.work, "broker")
        return super()._format(node_id, {**overrides, **self._listeners(self._voters[node_id], keystore)})

    def _listeners(self, ports: Ports, keystore: Path) -> dict[str, object]:
        at = {SIDECAR: ports.sidecar, DIRECT: ports.direct, INTERNAL: ports.internal, **self._more}
        lines = [listener(name, port) for name, port in at.items()]
        protocols = dict.fromkeys((DIRECT, INTERNAL, CONTROLLER), "PLAINTEXT") | dict(PROTOCOLS.values())
        found: dict[str, object] = {
            "listeners": ",".join([*lines, listener(CONTROLLER, ports.controller)]),
            "advertised.listeners": ",".join(lines),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "super.users": f"User:ANONYMOUS;User:{sasl.USER}",
            **QUOTAS,
            **SHARED,
        }
        for name, protocol in PROTOCOLS.values():
            prefix = f"listener.name.{name.lower()}"
            if protocol.startswith("SASL"):
                found[f"{prefix}.sasl.enabled.mechanisms"] = "SCRAM-SHA-256"
                found[f"{prefix}.scram-sha-256.sasl.jaas.config"] = f"{sasl.MODULES['SCRAM-SHA-256']};"
            if protocol.endswith("SSL"):
                found |= {f"{prefix}.ssl.keystore.type": "PEM", f"{prefix}.ssl.keystore.location": keystore}
        return found


@contextmanager
def started() -> Iterator[FourWays]:
    """A running one, which knows the sidecar's user."""
    with FourWays.start(NEWEST) as cluster:
        assert isinstance(cluster, FourWays)
        sasl.add_scram_user(cluster.direct)
        _warm_up(cluster.direct)
        yield cluster


def _warm_up(direct: str) -> None:
    """Returns once there are coordinators: while one is being elected, clients give some of their calls up."""
    create_topic(direct, "warm-up", 1)
    common = {"bootstrap.servers": direct, "logger": SILENT}
    Producer({**common, "transactional.id": "warm-up"}).init_transactions(LIMIT_S)

    def has_coordinators() -> bool:
        try:
            for number in range(20):  # of all partitions
                consumer = Consumer({**common, "group.id": f"warm-up-{number}"})
                consumer.committed([TopicPartition("warm-up", 0)], LIMIT_S)
                consumer.close()
        except KafkaException:
            return False
        return True

    eventually(has_coordinators, bool, "the coordinators are elected")
