"""Three brokers and a sidecar that splits; what it sends to each broker can be held until a test lets it go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster import Cluster
from harness.fault_proxy import Fault, FaultProxy
from harness.ports import free_ports
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.large_messages.stored import LargeFront

NODES = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Three(LargeFront):
    between: Mapping[int, FaultProxy] = field(default_factory=dict, hash=False)  # by node

    @contextmanager
    def faults(self, fault: Callable[[bytes], Fault | None]) -> Iterator[None]:
        """While the block runs, requests to all brokers are shown to ``fault``, those to one after each other."""
        for one in self.between.values():
            one.fault = fault
        try:
            yield
        finally:
            for one in self.between.values():
                one.fault = lambda frame: None


@contextmanager
def three_brokers(folder: Path, rules: str, java: Mapping[str, ToolHost]) -> Iterator[Three]:
    config = folder / "sidecar.yaml"
    config.write_text(rules)
    ports = dict(zip(NODES, free_ports(len(NODES), keep=True), strict=True))
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster.start(NEWEST, len(NODES), fronts=ports))
        between = {
            node: stack.enter_context(FaultProxy(port, cluster.node(node).ports.sidecar))
            for node, port in ports.items()
        }
        flags = ["--config", str(config)]
        sidecar = stack.enter_context(Sidecar.start(cluster.bootstrap, folder / "sidecar.log", flags))
        yield Three(cluster, sidecar, java, between)
        assert cluster.leaks() == []
