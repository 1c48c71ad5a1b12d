"""What is counted: a batch, and for each client and partition an object that counts batches, found once and kept.

An auditor that has no such object of its own gets the calls of the contract. This file runs as it is and compiled
(counters.pxd holds the C types): a batch then costs a call in C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_NONE, _ONCE = -1, 1  # for C


class BatchCount:
    """A batch that was sent or delivered. It is not changed later: auditors may keep it."""

    __slots__ = (
        "aborted", "count", "deliveries", "first_offset", "hidden", "last_offset", "latency_s", "result", "size",
        "timestamp",
    )  # fmt: skip

    timestamp: int
    """The batch's greatest, ms since 1970, or `NO_TIMESTAMP`. Where the broker sets the time (LogAppendTime), and the
    batch was sent, that of the response."""
    count: int
    """Records; of a batch that was delivered those that the client gets to see: hidden and aborted ones apart."""
    size: int
    """Bytes of the batch on the wire."""
    result: Any
    """How sending it ended, a `Result`; None of a batch that was delivered."""
    first_offset: int
    """Of the response, or `NO_OFFSET`. Of a batch that was delivered its own, or the offset that the client fetches
    from if the batch begins before it."""
    last_offset: int
    """Inclusive, or `NO_OFFSET`."""
    latency_s: float
    """From the request to its response, without meaning where there is none; of a batch that was delivered from its
    timestamp to the delivery, without meaning where there is no timestamp."""
    hidden: int
    """Records that an interceptor does not show."""
    aborted: int
    """Records of aborted transactions, for a client that reads committed ones only."""
    deliveries: int
    """How often the broker has given out these records to a share group, this time included; 1 for other clients."""

    def __init__(
        self,
        timestamp: int,
        count: int,
        size: int,
        *,
        result: object = None,
        first_offset: int = -1,
        last_offset: int | None = None,
        latency_s: float = 0.0,
        hidden: int = 0,
        aborted: int = 0,
        deliveries: int = 1,
    ) -> None:
        """
        Args:
            last_offset: None: that of a batch without gaps, hidden or aborted records.
        """
        if last_offset is None:
            last_offset = first_offset + count - 1 if first_offset >= 0 else first_offset
        self.timestamp, self.count, self.size, self.result = timestamp, count, size, result
        self.first_offset, self.last_offset, self.latency_s = first_offset, last_offset, latency_s
        self.hidden, self.aborted, self.deliveries = hidden, aborted, deliveries


def sent_batch(timestamp: int, count: int, size: int, result: object, base_offset: int, latency_s: float) -> BatchCount:
    """A batch that a client sent, in fewer steps than by the constructor."""
    batch = BatchCount.__new__(BatchCount)
    batch.timestamp, batch.count, batch.size, batch.result = timestamp, count, size, result
    batch.first_offset, batch.latency_s = base_offset, latency_s
    batch.last_offset = base_offset + count - 1 if base_offset >= 0 else _NONE
    batch.hidden = batch.aborted = 0
    batch.deliveries = _ONCE
    return batch


def delivered_batch(
    timestamp: int, count: int, size: int, first_offset: int, last_offset: int, latency_s: float
) -> BatchCount:
    """As `sent_batch`, of a batch that was delivered; hidden and aborted records are set later."""
    batch = BatchCount.__new__(BatchCount)
    batch.timestamp, batch.count, batch.size, batch.result = timestamp, count, size, None
    batch.first_offset, batch.last_offset, batch.latency_s = first_offset, last_offset, latency_s
    batch.hidden = batch.aborted = 0
    batch.deliveries = _ONCE
    return batch


class ProduceCounter:
    """Counts what one client sends to one partition."""

    __slots__ = ("index", "key")

    key: object  # by which the proxy finds it: the topic's name or id,
    index: int  # and the partition

    def count(self, batch: BatchCount) -> None:
        """Count a batch: as `BatchAuditor.produced`."""
        raise NotImplementedError


class FetchCounter:
    """Counts what one client of a group reads of one partition."""

    __slots__ = ()

    def count(self, batch: BatchCount) -> None:
        """Count a batch: as `BatchAuditor.delivered`."""
        raise NotImplementedError


class ProducedCalls(ProduceCounter):
    """Calls `BatchAuditor.produced`."""

    __slots__ = ("_call", "_whose")

    def __init__(self, call: Callable[..., None], *whose: object) -> None:
        self._call = call
        self._whose: tuple[Any, ...] = whose  # client, topic, partition

    def count(self, batch: BatchCount) -> None:
        self._call(*self._whose, batch)


class DeliveredCalls(FetchCounter):
    """Calls `BatchAuditor.delivered`."""

    __slots__ = ("_call", "_whose")

    def __init__(self, call: Callable[..., None], *whose: object) -> None:
        self._call = call
        self._whose: tuple[Any, ...] = whose  # client, group, topic, partition

    def count(self, batch: BatchCount) -> None:
        self._call(*self._whose, batch)
