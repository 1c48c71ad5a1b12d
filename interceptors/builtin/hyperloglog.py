"""How many different keys there were, estimated in 4 KiB however many there are: HyperLogLog.

P. Flajolet et al., "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm", 2007, with the
estimator of O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017, algorithm 6, which needs
no tables and has no bias at either end. Why not a library: docs/decisions/0009-key-sketch.md
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
    """The keys that it was shown, as far as their number is concerned."""

    __slots__ = ("_least", "_registers")

    def __init__(self) -> None:
        self._registers = bytearray(REGISTERS)
        self._least = 0  # of all registers

    def add(self, keys: Iterable[bytes]) -> None:
        """These have been seen."""
        registers = self._registers
        unchanging = (1 << self._least) - 1  # a hash with any of these bits is one whose rank is no news
        # Python's own hash is SipHash with a secret of the process: nobody can choose keys that make it wrong.
        for hashed in {hashed for hashed in map(hash, keys) if not hashed & unchanging}:
            marked = hashed | 1 << RANK_BITS
            rank = (marked & -marked).bit_length()  # place of the last 1
            index = hashed >> RANK_BITS  # below zero for half of them, which counts from the end
            if rank > registers[index]:
                registers[index] = rank
        while self._least not in registers:
            self._least += 1

    def estimate(self) -> float:
        """How many different keys have been seen; two of three estimates are no more than `STANDARD_ERROR` off."""
        ranks = Counter(self._registers)
        if ranks[0] == REGISTERS:
            return 0.0
        z = 0.0  # registers that are full would start it; with 64 bits there are none
        for rank in range(RANK_BITS, 0, -1):
            z = (z + ranks[rank]) / 2
        return REGISTERS**2 / (2 * math.log(2) * (z + REGISTERS * _sigma(ranks[0] / REGISTERS)))


def _sigma(x: float) -> float:
    """x + the sum of x^(2^k) 2^(k-1) for k from 1 on."""
    total, power, factor = x, x, 1.0
    while True:
        power *= power
        before, total = total, total + power * factor
        if total == before:
            return total
        factor *= 2
