"""What a client can connect to: the stub broker itself, or a running proxy with a stub of its own."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rig import frames
from rig.connection import Loop
from rig.driver import BenchError, Driver, Result, Workload
from rig.frames import Address
from rig.peers import Peer, Setting, free_ports
from rig.process import Process

START_LIMIT_S: Final = 60.0  # on a machine that is busy with something else, too


@dataclass(slots=True)
class Target:
    """A peer, or none for ``direct``, with the driver that loads it."""

    name: str
    driver: Driver
    address: Address
    peer: Peer | None = None
    folder: Path | None = None
    process: Process | None = None
    starts_s: list[float] = field(default_factory=list)
    idle_bytes: int = 0
    rewrites: bool = False

    @classmethod
    def direct(cls, loop: Loop) -> Target:
        driver = Driver(loop)
        return cls("direct", driver, driver.broker.address)

    @classmethod
    def through(cls, peer: Peer, loop: Loop, folder: Path) -> Target:
        return cls(peer.name, Driver(loop), free_ports(), peer, folder)

    def start(self, core: int | None) -> None:
        """Start the proxy and measure the time until its first response. Raises BenchError without one."""
        if self.peer is None or self.folder is None:
            return
        setting = Setting(self.address, self.driver.broker.address, self.folder)
        began = time.perf_counter()
        self.process = Process(self.peer.command(setting), self.log, core)
        while not self._answers():
            self.driver.loop.poll(0.001)
            if not self.process.alive() or time.perf_counter() - began > START_LIMIT_S:
                self.process.stop()
                raise BenchError(f"{self.name} did not answer: {self.log_tail()}")
        self.starts_s.append(time.perf_counter() - began)

    def check_addresses(self) -> None:
        """Make sure that a client which follows Metadata connects through the proxy.

        A relay that does not parse Kafka cannot rewrite addresses: then the stub advertises the relay's address, as a
        real broker's ``advertised.listeners`` would. Raises BenchError for a proxy that should have rewritten it.
        """
        if self.peer is None:
            return
        broker = self.driver.broker
        self.rewrites = self.driver.learn_node(self.address) != broker.address
        if not self.rewrites:
            if self.peer.reads_kafka:
                raise BenchError(f"{self.name} did not rewrite the broker's address")
            broker.advertised = self.address

    def run(self, workload: Workload, warm_up_s: float, seconds: float) -> Result:
        return self.driver.run(workload, self.address, self.process, warm_up_s, seconds)

    def stop(self) -> None:
        if self.process:
            self.process.stop()
            self.process = None

    @property
    def column(self) -> str:
        """Its name, or that of the peer of which it is another version."""
        return (self.peer.twin_of if self.peer else "") or self.name

    @property
    def log(self) -> Path:
        return (self.folder or Path()) / f"{self.name}.log"

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:] if self.folder and self.log.exists() else ""

    def _answers(self) -> bool:
        try:
            with self.driver.dial(self.address) as sock:
                self.driver.ask(sock, frames.api_versions_request())
        except (OSError, BenchError):
            return False
        return True
