"""A broker that a sidecar reaches through a relay only: sidecar, broker and the connections between them can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.front import Front
from integration.interception.outages import Relay


@dataclass(frozen=True, slots=True)
class Fragile(Front):
    relay: Relay

    def happens(self, outage: str) -> Callable[[], None]:
        """What causes it: a "crash" of the sidecar, one of the "broker", or a "cut" of all connections."""
        return {"crash": self.sidecar.restart, "cut": self.relay.cut, "broker": self._crash_broker}[outage]

    def _crash_broker(self) -> None:
        node = self.cluster.node(1)
        node.kill()
        node.start()


@contextmanager
def fragile_front(folder: Path, settings: str) -> Iterator[Fragile]:
    """They run while the block does."""
    config = folder / "sidecar.yaml"
    config.write_text(settings)
    with Cluster.start(NEWEST) as cluster:
        node = cluster.node(1)
        with closing(Relay(node.ports.sidecar)) as relay:
            _advertise(node.config, node.ports.sidecar, relay.port)
            node.kill()
            node.start()
            flags = ["--config", str(config)]
            with Sidecar.start(f"127.0.0.1:{relay.port}", folder / "sidecar.log", flags) as sidecar:
                yield Fragile(cluster, sidecar, relay)


def _advertise(config: Path, port: int, other: int) -> None:
    lines = config.read_text().splitlines()
    advertised = [line.replace(f":{port}", f":{other}") if "advertised" in line else line for line in lines]
    config.write_text("\n".join(advertised) + "\n")
