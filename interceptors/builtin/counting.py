"""Counts produced records and bytes by topic and client, and distinct keys by topic (the example of KIP-42).

Keys are estimated in 4 KiB by a HyperLogLog: P. Flajolet et al., "HyperLogLog: the analysis of a near-optimal
cardinality estimation algorithm", 2007, with the estimator of O. Ertl, "New cardinality estimation algorithms for
HyperLogLog sketches", 2017, algorithm 6, which needs no tables and is unbiased for small and large numbers. Why not a
library: docs/decisions/0009-key-sketch.md
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from pydantic import PositiveInt

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors.contract import AcknowledgedBatch, Hints, ProducerInterceptor, RecordBatch
from kafka_sidecar.interceptors.metrics import Metric, Series
from kafka_sidecar.plugins.settings import Settings, read_settings

INDEX_BITS = 12
REGISTERS = 1 << INDEX_BITS
STANDARD_ERROR = 1.04 / math.sqrt(REGISTERS)  # 1.6 %
RANK_BITS = 64 - INDEX_BITS


class Sketch:
    """A sketch of a set of keys, for its size."""

    __slots__ = ("_min", "_registers")

    def __init__(self) -> None:
        self._registers = bytearray(REGISTERS)
        self._min = 0  # of all registers

    def add(self, keys: Iterable[bytes]) -> None:
        """Add keys to the set."""
        registers = self._registers
        unchanging = (1 << self._min) - 1  # a hash with any of these bits has a rank that changes no register
        # Python's hash is SipHash with a secret of the process: clients cannot choose keys that distort the estimate.
        for hashed in {hashed for hashed in map(hash, keys) if not hashed & unchanging}:
            marked = hashed | 1 << RANK_BITS
            rank = (marked & -marked).bit_length()  # position of the lowest 1
            index = hashed >> RANK_BITS  # negative for half of the hashes, which counts from the end
            if rank > registers[index]:
                registers[index] = rank
        while self._min not in registers:
            self._min += 1

    def estimate(self) -> float:
        """The number of distinct keys; two of three estimates are within `STANDARD_ERROR`."""
        ranks = Counter(self._registers)
        if ranks[0] == REGISTERS:
            return 0.0
        z = 0.0  # begins with the saturated registers, of which there are none with 64 bits
        for rank in range(RANK_BITS, 0, -1):
            z = (z + ranks[rank]) / 2
        return REGISTERS**2 / (2 * math.log(2) * (z + REGISTERS * _sigma(ranks[0] / REGISTERS)))


def _sigma(x: float) -> float:
    """x + the sum of x^(2^k) 2^(k-1) for k >= 1."""
    total, power, factor = x, x, 1.0
    while True:
        power *= power
        before, total = total, total + power * factor
        if total == before:
            return total
        factor *= 2


class CountingSettings(Settings):
    bytes: bool = True
    """Whether bytes are counted, for which batches are decompressed."""
    keys: bool = True
    """Whether the number of distinct keys is estimated, for which batches are decompressed."""
    max_series: PositiveInt = 1000
    """How many pairs of topic and client id are counted separately. Further client ids are counted as `(other)`, and \
with twice as many series further topics too. As many topics have an estimate of distinct keys."""


@dataclass(slots=True)
class Counted:
    written: int = 0  # records
    failed: int = 0
    sent_bytes: int = 0


class Counting(ProducerInterceptor):
    """Counts records when they are acknowledged, bytes and distinct keys when they are sent."""

    settings = CountingSettings()
    on_send_batch: Callable[[RecordBatch], Records]  # set if bytes or keys are counted

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(CountingSettings, configs)
        self._lock = Lock()  # hooks run in several threads
        self._counted = Series(Counted, own.max_series)
        self._keys = Series(Sketch, own.max_series)
        if own.bytes or own.keys:
            self.on_send_batch = self._sent

    def hints(self) -> Hints:
        return Hints(wants_records=self.settings.bytes or self.settings.keys)

    def metrics(self) -> Iterable[Metric]:
        with self._lock:
            counted = dict(self._counted.values)
            keys = {labels: round(sketch.estimate()) for labels, sketch in self._keys.values.items()}
        by = ("topic", "client_id")
        written = {labels: one.written for labels, one in counted.items()}
        yield Metric("written_records", "Records that a broker has acknowledged.", by, counters=written)
        failed = {labels: one.failed for labels, one in counted.items()}
        yield Metric("unwritten_records", "Records whose response had an error.", by, counters=failed)
        if self.settings.bytes:
            sent = {labels: one.sent_bytes for labels, one in counted.items()}
            yield Metric("sent_record_bytes", "Sizes of sent records before compression.", by, counters=sent)
        if self.settings.keys:
            yield Metric("distinct_keys", "Distinct keys of sent records, estimated.", ("topic",), gauges=keys)

    def on_acknowledgement_batch(self, batch: AcknowledgedBatch, exception: Exception | None) -> None:
        with self._lock:
            counted = self._counted.of((batch.topic, batch.context.client_id or ""))
            if exception is None:
                counted.written += batch.count
            else:
                counted.failed += batch.count

    def _sent(self, batch: RecordBatch) -> Records:
        own, records = self.settings, batch.records
        keys = [key for record in records if (key := record.key) is not None] if own.keys else ()
        with self._lock:
            self._counted.of((batch.topic, batch.context.client_id or "")).sent_bytes += len(records.payload)
            if keys:
                self._keys.of((batch.topic,)).add(keys)
        return records
