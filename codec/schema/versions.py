"""A range of versions, written as Kafka writes it: ``"3+"``, ``"0-13"``, ``"2"`` or ``"none"``."""

from __future__ import annotations

from dataclasses import dataclass

NEWEST = 32767  # the upper end of "3+": versions are int16


@dataclass(frozen=True, slots=True)
class Versions:
    """First and last version, both inclusive; empty when ``low > high``."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        if self.high == NEWEST:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


NEVER = Versions(0, -1)


def parse_versions(text: str) -> Versions:
    """The range in Kafka's notation.

    >>> parse_versions("3+"), 3 in parse_versions("0-2")
    (Versions(low=3, high=32767), False)
    """
    if text == "none":
        return NEVER
    low, dash, high = text.removesuffix("+").partition("-")
    if text.endswith("+"):
        return Versions(int(low), NEWEST)
    return Versions(int(low), int(high) if dash else int(low))
