"""Kafka clusters of one node or several, in KRaft mode, started from the fetched jars.

    with Cluster.start("4.4.0", nodes=3) as cluster:
        cluster.bootstrap        # for the sidecar
        cluster.direct           # for clients that go without one
        cluster.node(1).kill()
        cluster.node(1).start()
        cluster.leaks()          # who came to the sidecar's listener and is none

Nodes are numbered from 1. Each of the first ones is broker and controller in one; those added later are brokers only.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from harness import connections
from harness.broker_properties import Ports, properties
from harness.connections import Connection
from harness.jvm import START_LIMIT_S, STARTED, format_storage, java, new_id, write
from harness.ports import free_ports
from harness.processes import Program

# The sidecars of the tests open their connections to brokers from this address, and no other program does.
SIDECAR_HOST = "127.0.0.2"


class Node:
    """One broker process; it can be crashed, frozen and started again on the same ports with the same data."""

    def __init__(self, node_id: int, version: str, ports: Ports, folder: Path, classes: Path | None = None) -> None:
        self.id = node_id
        self.classes = classes
        self.version = version
        self.ports = ports
        self.folder = folder
        self.config = folder / "server.properties"
        self._program: Program | None = None
        self._accepted: list[Connection] = []
        self._read_until = 0

    @property
    def program(self) -> Program:
        assert self._program is not None, f"node {self.id} was never started"
        return self._program

    def format(self, cluster_id: str, config: dict[str, object]) -> None:
        self.folder.mkdir()
        write(self.config, config)
        format_storage(self.version, self.folder / "data", cluster_id, self.id)

    def spawn(self) -> None:
        """Starts the process without waiting for it."""
        self._program = Program(
            java(self.version, "kafka.Kafka", self.config, classes=self.classes), self.folder / "broker.log"
        )

    def wait(self, limit_s: float = START_LIMIT_S) -> None:
        """Returns when the broker serves requests."""
        self.program.wait_for(lambda: STARTED in self.program.output(), STARTED, limit_s)

    def start(self) -> None:
        self.spawn()
        self.wait()

    def kill(self) -> None:
        """SIGKILL: a crash."""
        self.program.kill()

    def stop(self) -> None:
        """SIGSTOP: it keeps its connections and does not respond."""
        self.program.send_signal(signal.SIGSTOP)

    def cont(self) -> None:
        """SIGCONT: the end of ``stop``."""
        self.program.send_signal(signal.SIGCONT)

    def shut_down(self) -> None:
        """SIGTERM: it hands its partitions over and ends."""
        self.program.stop()

    def accepted(self) -> list[Connection]:
        """Every connection that it has accepted, also before it was last started."""
        with (self.folder / "broker.log").open("rb") as log:
            log.seek(self._read_until)
            # A line that is still being written is left for the next time.
            news = log.read().rpartition(b"\n")[0]
        self._read_until += len(news)
        self._accepted += connections.accepted(news.decode(errors="replace"))
        return self._accepted


class Cluster:
    """A running cluster. ``start`` makes one; leaving its ``with`` block ends it and removes its data."""

    def __init__(self, version: str, work: Path, count: int, fronts: Mapping[int, int]) -> None:
        self.version = version
        self._classes: Path | None = None
        self._fronts = fronts
        self.work = work
        self.id = new_id()
        ports = free_ports(count * 4, keep=True)  # a sidecar may be started while a node is down
        self._voters = {number + 1: Ports(*ports[number * 4 : number * 4 + 4]) for number in range(count)}
        self.nodes: dict[int, Node] = {}
        self._removed: list[Node] = []

    @classmethod
    def start(
        cls,
        version: str,
        nodes: int = 1,
        overrides: Mapping[str, object] | None = None,
        fronts: Mapping[int, int] | None = None,
        classes: Path | None = None,
    ) -> Cluster:
        """Returns when all nodes serve requests.

        Args:
            overrides: broker properties.
            fronts: by node, the port of a proxy between it and sidecars.
            classes: a folder with classes that the properties name.
        """
        cluster = cls(version, Path(tempfile.mkdtemp(prefix="kafka-")), nodes, fronts or {})
        cluster._classes = classes
        try:
            for number in cluster._voters:
                cluster._format(number, overrides or {})
            for node in cluster.nodes.values():
                node.spawn()
            for node in cluster.nodes.values():
                node.wait()
        except BaseException:
            cluster.stop()
            raise
        return cluster

    def _format(self, node_id: int, overrides: Mapping[str, object]) -> Node:
        ports = self._voters.get(node_id) or Ports(*free_ports(4, keep=True))
        folder = self.work / f"node-{node_id}"
        node = self.nodes[node_id] = Node(node_id, self.version, ports, folder, self._classes)
        node.format(
            self.id,
            {**properties(self.version, node_id, ports, self._voters, folder / "data", self._fronts), **overrides},
        )
        return node

    @property
    def bootstrap(self) -> str:
        """The brokers as a sidecar reaches them."""
        return ",".join(f"127.0.0.1:{self._fronts.get(node.id, node.ports.sidecar)}" for node in self.nodes.values())

    @property
    def direct(self) -> str:
        """The brokers as a client reaches them that uses no sidecar."""
        return ",".join(f"127.0.0.1:{node.ports.direct}" for node in self.nodes.values())

    def node(self, node_id: int) -> Node:
        return self.nodes[node_id]

    def add_node(self) -> Node:
        """One more broker, ready to serve; it holds no partition yet."""
        used = [*self.nodes, *(node.id for node in self._removed)]
        node = self._format(max(used) + 1, {})
        node.start()
        return node

    def remove_node(self, node_id: int) -> None:
        """Ends a broker for good; move its partitions away first."""
        node = self.nodes.pop(node_id)
        self._removed.append(node)
        node.shut_down()
        tool = [
            "org.apache.kafka.tools.ClusterTool",
            "unregister",
            "--bootstrap-server",
            self.direct,
            "--id",
            str(node_id),
        ]
        subprocess.run(java(self.version, *tool), check=True, capture_output=True, timeout=60)

    def leaks(self) -> list[Connection]:
        """Connections to the sidecar's listener of any broker, also of removed ones, that came from other programs."""
        return [
            connection
            for node in [*self.nodes.values(), *self._removed]
            for connection in node.accepted()
            if connection.local_port == node.ports.sidecar and connection.remote_host != SIDECAR_HOST
        ]

    def forget_leaks(self) -> None:
        """From here on `leaks` has those that come later."""
        for node in [*self.nodes.values(), *self._removed]:
            node.accepted().clear()

    def stop(self) -> None:
        """Ends all processes at once and removes the data."""
        for node in self.nodes.values():
            if node._program is not None:
                node.kill()
        shutil.rmtree(self.work, ignore_errors=True)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
