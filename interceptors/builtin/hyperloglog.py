"""Estimates the number of distinct keys in 4 KiB: HyperLogLog.

P. Flajolet et al., "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm", 2007, with the
estimator of O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017, algorithm 6, which needs
no tables and is unbiased for small and large numbers. Why not a library: docs/decisions/0009-key-sketch.md
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

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
