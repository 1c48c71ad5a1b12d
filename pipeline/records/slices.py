"""What is read in one task: a part of a partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MAX_SLICE_OFFSETS = 250_000  # a task of about a second, so that progress is visible and all cores end together
MIN_SLICE_OFFSETS = 10_000
SLICES_PER_CORE = 4


@dataclass(frozen=True, slots=True)
class Slice:
    """The batches of a partition whose last record is at ``first`` or after it, and before ``end``."""

    topic: str
    partition: int
    first: int
    end: int
    files: tuple[str, ...] = ()  # segment files; none: the partition is read from the brokers


def cut_slices(ranges: Mapping[tuple[str, int], tuple[int, int]], cores: int) -> list[Slice]:
    """The tasks for ranges of offsets (first, end) of partitions, the longest partitions first.

    >>> cut_slices({("orders", 0): (5, 25_005)}, 1)
    [Slice(topic='orders', partition=0, first=5, end=10005, files=()), \
Slice(topic='orders', partition=0, first=10005, end=20005, files=()), \
Slice(topic='orders', partition=0, first=20005, end=25005, files=())]
    """
    total = sum(max(end - first, 0) for first, end in ranges.values())
    size = min(max(total // (cores * SLICES_PER_CORE), MIN_SLICE_OFFSETS), MAX_SLICE_OFFSETS)
    return [
        part for (topic, partition), (first, end) in ranges.items() for part in _cut(topic, partition, first, end, size)
    ]


def _cut(topic: str, partition: int, first: int, end: int, size: int) -> Iterator[Slice]:
    for at in range(first, end, size):
        yield Slice(topic, partition, at, min(at + size, end))
