"""What the proxy calls for each batch: one object for each client and partition, found once and kept.

An auditor that has none of its own gets the calls of the contract. This file runs as it is and compiled (counters.pxd
holds the C types): a batch then costs a call in C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ProduceCounter:
    """What one client sends to one partition."""

    __slots__ = ("index", "key")

    key: object  # by which the proxy finds it: the topic's name or id,
    index: int  # and the partition

    def count(self, timestamp: int, count: int, size: int, result: object, base_offset: int, latency_s: float) -> None:
        """Count a batch: as `BatchAuditor.produced`."""
        raise NotImplementedError


class FetchCounter:
    """What one client of a group reads of one partition."""

    __slots__ = ()

    def count(
        self,
        timestamp: int,
        count: int,
        size: int,
        first_offset: int,
        last_offset: int,
        latency_s: float,
        hidden: int,
        aborted: int,
    ) -> None:
        """Count a batch: as `BatchAuditor.delivered`."""
        raise NotImplementedError


class ProducedCalls(ProduceCounter):
    """Calls `BatchAuditor.produced`."""

    __slots__ = ("_call", "_whose")

    def __init__(self, call: Callable[..., None], *whose: object) -> None:
        self._call = call
        self._whose: tuple[Any, ...] = whose  # client, topic, partition

    def count(self, timestamp: int, count: int, size: int, result: object, base_offset: int, latency_s: float) -> None:
        self._call(*self._whose, timestamp, count, size, result, base_offset, latency_s)


class DeliveredCalls(FetchCounter):
    """Calls `BatchAuditor.delivered`."""

    __slots__ = ("_call", "_whose")

    def __init__(self, call: Callable[..., None], *whose: object) -> None:
        self._call = call
        self._whose: tuple[Any, ...] = whose  # client, group, topic, partition

    def count(
        self,
        timestamp: int,
        count: int,
        size: int,
        first_offset: int,
        last_offset: int,
        latency_s: float,
        hidden: int,
        aborted: int,
    ) -> None:
        self._call(*self._whose, timestamp, count, size, first_offset, last_offset, latency_s, hidden, aborted)
