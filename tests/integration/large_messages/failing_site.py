"""Three brokers and two sidecars before them, all of which, and the connections between them, can fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster import SIDECAR_HOST, Cluster
from harness.ports import free_ports
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.interception.outages import Relay
from integration.partitions import leaders, move
from integration.scenarios.target import LIMIT_S, admin_client, create_topic, eventually

NODES = (1, 2, 3)
AUDIT = "everything-audit"
BROKERS = {"group.share.delivery.count.limit": 10}  # the most: an outage costs a delivery of what a member holds
HUNG_S = 3.0
INTERCEPTOR = """from kafka_sidecar.interceptors.contract import ConsumerInterceptor

class Marks(ConsumerInterceptor):
    def on_consume(self, records):
        for record in records:
            record.headers.add("seen", b"%d" % len(record.value))
        return records
"""
CONFIG = """
audit:
  topic: {audit}
  emitter_id: {name}
  spool_file: {folder}/{name}.spool
  auditor.reporting.interval.ms: 250
  auditor.reporting.delay.ms: 0
  auditor.bucket.ms: 60000
interceptors: [{{type: "marks:Marks", class_path: "{folder}"}}]
large_messages: {{topics: [{{name: "out-*", max_message: 24MiB}}]}}
connections: {{max_frame: 64MiB, drain_timeout: 10s}}
"""


@dataclass(frozen=True, slots=True)
class Outage:
    """What was done to whom, and when (time.time)."""

    what: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Site:
    cluster: Cluster
    sidecars: Mapping[str, Sidecar]  # by emitter_id
    relays: Mapping[int, Relay]  # by node
    java: ToolHost
    happened: list[Outage] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        return ",".join(sidecar.bootstrap for sidecar in self.sidecars.values())

    def topic(self, name: str, partitions: int, **config: str) -> str:
        create_topic(self.cluster.direct, name, partitions, {key.replace("_", "."): it for key, it in config.items()})
        return name

    def fails(self, what: str, topic: str) -> None:
        """Returns when it is over: a sidecar's name, "broker N", "hung N", "cut N", "cut" or "leaders"."""
        kind, _, number = what.partition(" ")
        begin = time.time()
        if what in self.sidecars:
            self.sidecars[what].restart()
        elif kind == "leaders":
            self._move_leaders(topic)
        elif kind == "cut":
            for node in (int(number),) if number else NODES:
                self.relays[node].cut()
        else:
            self._broker(kind, int(number), topic)
        self.happened.append(Outage(what, begin, time.time()))

    def _broker(self, kind: str, number: int, topic: str) -> None:
        node = self.cluster.node(number)
        eventually(lambda: self._in_sync(topic), bool, f"all replicas of {topic} follow", 2 * LIMIT_S)
        if kind == "hung":
            node.stop()
            time.sleep(HUNG_S)
            node.cont()
        else:
            node.kill()
            node.start()

    def _in_sync(self, topic: str) -> bool:
        found = admin_client(self.cluster.direct).list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
        return all(len(one.isrs) == len(NODES) for one in found.values())

    def _move_leaders(self, topic: str) -> None:
        eventually(lambda: self._in_sync(topic), bool, f"all replicas of {topic} follow", 2 * LIMIT_S)
        turns = {1: [2, 3, 1], 2: [3, 1, 2], 3: [1, 2, 3]}
        move(self.cluster, self.java, topic, [turns[leader] for leader in leaders(self.cluster, topic)])

    def of_group(self, group: str, name: str, value: str) -> None:
        """Configures it."""
        where = ("--bootstrap-server", self.cluster.direct, "--entity-type", "groups", "--entity-name", group)
        self.java.run("org.apache.kafka.tools.ConfigCommand", *where, "--alter", "--add-config", f"{name}={value}")


@contextmanager
def failing_site(folder: Path, java: ToolHost, names: Sequence[str]) -> Iterator[Site]:
    """They run while the block does."""
    (folder / "marks.py").write_text(INTERCEPTOR)
    ports = dict(zip(NODES, free_ports(len(NODES), keep=True), strict=True))
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster.start(NEWEST, len(NODES), BROKERS, fronts=ports))
        relays = {
            node: stack.enter_context(closing(Relay(cluster.node(node).ports.sidecar, port, SIDECAR_HOST)))
            for node, port in ports.items()
        }
        sidecars = dict[str, Sidecar]()
        for name in names:
            config = folder / f"{name}.yaml"
            config.write_text(CONFIG.format(audit=AUDIT, name=name, folder=folder))
            started = Sidecar.start(cluster.bootstrap, folder / f"{name}.log", ["--config", str(config)])
            sidecars[name] = stack.enter_context(started)
        yield Site(cluster, sidecars, relays, java)
        assert cluster.leaks() == []


def failing(site: Site, topic: str, outages: Sequence[str], progress: Callable[[], float]) -> Callable[[], None]:
    """Does one after the other, evenly over the progress from 0 to 1."""

    def run() -> None:
        for number, what in enumerate(outages, 1):
            mark = number / (len(outages) + 1)
            eventually(progress, lambda found: found >= mark, f"{what} at {mark:.2f}", 2 * LIMIT_S)  # noqa: B023
            site.fails(what, topic)

    return run
