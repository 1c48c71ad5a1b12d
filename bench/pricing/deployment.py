"""A deployment, and what the formula says that it needs: cores, workers, memory, values of the chart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pricing import model
from pricing.memory_figures import Memory

BUSY: Final = 0.7  # of a core, at most, for a worker: the rest is for bursts, and for latency
MIB: Final = 1024 * 1024 / 1e6  # in MB
LEAST_LIMIT_MIB: Final = 256
TLS_BOTH: Final = frozenset({model.TLS_CLIENTS, model.TLS_BROKERS})


def figure(value: float) -> str:
    """Three digits."""
    if value < 0.0005:
        return "0"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is known before."""

    mb_s: float  # produced, before compression
    record_bytes: int
    codec: str
    ratio: float  # compressed to uncompressed
    request_bytes: int  # of a Produce request, as it is sent
    readers: int  # groups that read all of it
    features: frozenset[str]
    connections: int  # of clients; each has one to a broker

    def records(self) -> float:
        return self.mb_s * 1e6 / self.record_bytes

    def wire_mb(self) -> float:
        return self.mb_s * self.ratio

    def requests(self) -> float:
        return self.wire_mb() * 1e6 / self.request_bytes

    def traffics(self) -> tuple[model.Traffic, ...]:
        """What is produced, and what is read: relayed, with as many responses as there are requests."""
        produced = model.Traffic(
            self.requests(), self.records(), self.wire_mb(), self.mb_s, self.codec, self.features | {model.PACED}
        )
        read = model.Traffic(
            self.requests() * self.readers, self.records() * self.readers, self.wire_mb() * self.readers,
            self.mb_s * self.readers, self.codec, self.features & TLS_BOTH | {model.PACED},
        )  # fmt: skip
        return produced, read


EXAMPLE: Final = Deployment(
    mb_s=20, record_bytes=1000, codec="lz4", ratio=0.5, request_bytes=16_000, readers=1,
    features=TLS_BOTH | {model.JSON}, connections=300,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """A term of the sum."""

    text: str
    cpu_us: float  # in a second


@dataclass(frozen=True, slots=True)
class Needs:
    lines: tuple[Line, ...]
    margin: float  # times the sum: what is to be expected at most
    workers: int
    memory_mb: float
    restart_s: float  # of CPU, for all connections at once

    @property
    def cores(self) -> float:
        """By the formula."""
        return sum(one.cpu_us for one in self.lines) / 1e6

    @property
    def cpu_request(self) -> str:
        """With the margin, in steps of 50 millicores."""
        return f"{math.ceil(self.cores * self.margin * 20) * 50}m"

    @property
    def memory_request_mib(self) -> int:
        """In steps of 32 MiB."""
        return math.ceil(self.memory_mb / MIB / 32) * 32

    @property
    def memory_limit_mib(self) -> int:
        return max(LEAST_LIMIT_MIB, 2 * self.memory_request_mib)


def needs(
    one: Deployment, prices: model.Prices, memory: Memory, connection_us: dict[str, float], margin: float
) -> Needs:
    lines = [
        Line("an idle process", memory.idle_cpu_us),
        Line(
            f"{one.connections} connections x {figure(memory.connection_cpu_us)}",
            one.connections * memory.connection_cpu_us,
        ),
    ]
    for name, traffic in zip(("Produce", "Fetch"), one.traffics(), strict=True):
        for (step, unit), amount in traffic.amounts().items():
            price = prices[step, unit]
            lines.append(Line(f"{name}: {step}, {amount:,.0f} {_plural(unit)} x {figure(price)}", amount * price))
    cores = sum(line.cpu_us for line in lines) / 1e6
    workers = max(1, math.ceil(cores * margin / BUSY))
    processes = workers + 1 if workers > 1 else 1
    idle_kb = memory.idle_tls_kb if one.features & TLS_BOTH else memory.idle_kb
    busy_kb = memory.busy_checked_kb if one.features & model.READERS else memory.busy_kb
    memory_mb = processes * memory.process_mb + one.connections * (idle_kb + busy_kb) / 1e3
    handshake_us = connection_us[tls_name(one.features)]
    return Needs(tuple(lines), margin, workers, memory_mb, one.connections * handshake_us / 1e6)


def _plural(unit: model.Unit) -> str:
    return unit if unit == "MB" else f"{unit}s"


def tls_name(features: frozenset[str]) -> str:
    """The name of the figure of a new connection."""
    return " + ".join(sorted(features & TLS_BOTH)) or model.RELAY
