"""The figures of memory, which the page needs without what measures them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Memory:
    """In MB (10^6 bytes) of resident memory; of a connection in KB; CPU in microseconds."""

    process_mb: float
    with_workers_mb: float  # two workers and their supervisor
    idle_kb: float  # of a connection
    idle_tls_kb: float  # TLS on both sides
    busy_kb: float  # a request of 100 KB in flight, relayed
    busy_checked_kb: float  # the same with the policy json and lz4
    large_mb: float  # more, while messages of 8 MB are split
    large_cpu_us: float  # of a MB that is split
    idle_cpu_us: float  # of a process in a second
    connection_cpu_us: float  # of an idle connection in a second
