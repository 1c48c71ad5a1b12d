"""How many processes serve clients, and which of them this one is."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator
from pydantic.json_schema import WithJsonSchema

from kafka_sidecar.plugins.settings import VariableText

AUTO: Literal["auto"] = "auto"
MAX_WORKERS = 256
QUOTA_FILES = ("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")  # of cgroup 2 and 1


@dataclass(frozen=True, slots=True)
class Place:
    """A worker among all workers."""

    number: int = 1  # the first one is 1
    count: int = 1
    shared: int | None = None  # the descriptor of a file in memory that all workers have: see `shared_memory`


SHARED_BYTES = 256 << 10  # for the buckets of rate limits


def shared_memory() -> int:
    """The descriptor of a new file in memory, all zeros, which processes that are started may inherit."""
    descriptor = os.memfd_create("kafka-sidecar")
    os.ftruncate(descriptor, SHARED_BYTES)
    return descriptor


def _read(value: Any) -> int | Literal["auto"]:
    if value == AUTO:
        return AUTO
    number = int(value) if isinstance(value, VariableText) and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MAX_WORKERS:
        raise ValueError(f"write a number from 1 to {MAX_WORKERS}, or auto: as many as there are CPUs")
    return number


Workers = Annotated[
    int | Literal["auto"],
    BeforeValidator(_read),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_WORKERS}, {"const": AUTO, "type": "string"}]}
    ),
]


def count_workers(configured: int | Literal["auto"]) -> int:
    """As many as are configured; auto: as many as there are CPUs that this process may use."""
    if configured != AUTO:
        return configured
    return min(usable_cpus(), MAX_WORKERS) if sys.platform == "linux" else 1


def usable_cpus(root: Path = Path("/")) -> int:
    """The CPUs of this process's affinity, but no more than the cgroup's limit has whole ones. At least 1.

    A worker that is throttled stalls all of its clients, so 1.5 CPUs are room for one.
    """
    cpus = len(os.sched_getaffinity(0))
    return max(1, min([cpus, *(math.floor(limit) for limit in _limits(root))]))


def _limits(root: Path) -> Iterator[float]:
    """CPUs that the process's control groups allow, and those that they are in."""
    mounted = root / "sys/fs/cgroup"
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from _limits_above(mounted, path)
            elif "cpu" in controllers.split(","):
                for name in (controllers, "cpu"):
                    yield from _limits_above(mounted / name, path)


def _limits_above(mounted: Path, path: str) -> Iterator[float]:
    group = PurePosixPath(path.lstrip("/"))
    for folder in (group, *group.parents):  # a container may see its own group as the root
        for names in QUOTA_FILES:
            with suppress(OSError, ValueError):
                quota, period = " ".join((mounted / folder / name).read_text() for name in names).split()
                if quota not in ("max", "-1"):
                    yield int(quota) / int(period)
