"""The local port of each broker (design D5), and the brokers in a file across restarts (setting nodes.state_file).

Node N has the port ``first_port + N``; a node id outside the range gets a port from the end of the range. A node gets
the same port after a restart, so a client that still has the port reaches the same node.

If brokers require SASL, the sidecar cannot request metadata and learns of brokers only from the responses to clients.
After a restart, a client that still has node N's port could not connect, and old clients never request metadata again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kafka_sidecar.proxy.relay.exchange import RouteError
from kafka_sidecar.proxy.security.private_files import replace_file

log = logging.getLogger(__name__)
Broker = tuple[int, str, int]  # node id, host, port


class NoPortError(RouteError):
    """All ports of the range are in use: the broker cannot be named to the client."""

    def __init__(self, message: str) -> None:
        super().__init__("no_port", message)


@dataclass(slots=True)
class Node:
    """One broker: its own address, and its local port."""

    node_id: int
    host: str
    port: int
    local_port: int
    seen_at: float  # monotonic seconds


class Addresses:
    """The brokers that have a local port, by node id.

    ``listen(node id, port)`` must make the port accept connections before it returns; OSError: it is in use.
    """

    def __init__(
        self,
        advertised_host: str,
        first_port: int,
        ports: int,
        listen: Callable[[int, int], None],
        clock: Callable[[], float],
    ) -> None:
        self._advertised_host = advertised_host
        self._first_port = first_port
        self._ports = ports
        self._listen = listen
        self._clock = clock
        self.nodes: dict[int, Node] = {}
        self.on_change: Callable[[], None] = lambda: None  # called after a broker was added, moved or removed

    def brokers(self) -> list[tuple[int, str, int]]:
        """(node id, host, port) of every broker, with the brokers' own addresses."""
        return [(node.node_id, node.host, node.port) for node in self.nodes.values()]

    def local_address(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        """The sidecar's host and port for a broker; opens its listener if there is none. Raises NoPortError."""
        node = self.nodes.get(node_id)
        if node is None:
            node = self.nodes[node_id] = Node(node_id, host, port, self._open(node_id), self._clock())
            log.info(
                "broker listener opened",
                extra={"node": node_id, "address": f"{host}:{port}", "port": node.local_port},
            )
            self.on_change()
        elif (node.host, node.port) != (host, port):
            node.host, node.port = host, port
            log.info(
                "broker address changed", extra={"node": node_id, "address": f"{host}:{port}", "port": node.local_port}
            )
            self.on_change()
        return self._advertised_host, node.local_port

    def update(self, present: Iterable[tuple[int, str, int]]) -> None:
        """Update from a metadata response: these brokers exist now. One that gets no port is logged."""
        now = self._clock()
        for node_id, host, port in sorted(present):
            try:
                self.local_address(node_id, host, port)
            except NoPortError as error:
                log.error("broker listener failed", extra={"node": node_id, "detail": str(error)})
            else:
                self.nodes[node_id].seen_at = now

    def expire(self, older_than: float) -> list[Node]:
        """Remove the brokers not seen for ``older_than`` seconds; the caller closes their listeners."""
        limit = self._clock() - older_than
        gone = [node for node in self.nodes.values() if node.seen_at < limit]
        for node in gone:
            del self.nodes[node.node_id]
            log.info("broker listener closed", extra={"node": node.node_id, "port": node.local_port})
        if gone:
            self.on_change()
        return gone

    def _open(self, node_id: int) -> int:
        used = {node.local_port for node in self.nodes.values()}
        for port in self._candidates(node_id):
            if port in used:
                continue
            try:
                self._listen(node_id, port)
            except OSError as error:
                log.warning(
                    "broker port in use",
                    extra={"node": node_id, "port": port, "detail": error.strerror or str(error)},
                )
            else:
                return port
        raise NoPortError(
            f"no port for node {node_id}: {self._first_port} to {self._first_port + self._ports - 1} are all in use; "
            "raise nodes.ports or move nodes.first_port"
        )

    def _candidates(self, node_id: int) -> Iterator[int]:
        if 0 <= node_id < self._ports:
            yield self._first_port + node_id
        last = self._ports - 1
        for step in range(self._ports):
            yield self._first_port + last - (node_id + step) % self._ports


def load_brokers(path: Path) -> list[Broker]:
    """The brokers in the file; none if it does not exist yet or is unreadable, which is logged."""
    try:
        brokers = json.loads(path.read_text(encoding="utf-8"))["brokers"]
        return [(int(node), str(host), int(port)) for node, host, port in brokers]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        log.warning("state file unreadable", extra={"detail": f"{path}: {error!r}"})
        return []


def save_brokers(path: Path, brokers: Iterable[Broker]) -> None:
    """Replace the file atomically; a failure is logged only."""
    try:
        replace_file(path, [json.dumps({"brokers": sorted(brokers)}).encode()], is_synced=False)
    except OSError as error:
        log.warning("state file not written", extra={"detail": f"{path}: {error.strerror or error}"})
