"""The formula: CPU is the sum of what is done, each step times its price; prices are fitted to runs.

A step costs something for each request, for each record and for each MB (10^6 bytes): those that it has in `STEPS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

Unit = Literal["request", "record", "MB"]
Price = tuple[str, Unit]
Prices = Mapping[Price, float]  # in microseconds of CPU

RELAY, PACED, LOOK = "relay", "a client's pauses", "look into batches"
JSON, JSON_SCHEMA, AVRO = "json", "json_schema", "avro"
ADD_HEADER, ON_CONSUME = "add_header", "on_consume in Python"
LIMITS, RATE_LIMIT, AUDIT = "limits", "rate limit", "audit"
TLS_CLIENTS, TLS_BROKERS = "TLS from clients", "TLS to brokers"
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
READ: Final = {codec: f"decompress {codec}" for codec in CODECS}
WRITE: Final = {codec: f"compress {codec}" for codec in CODECS}

# What each step costs by, in the order of the page.
STEPS: Final[Mapping[str, tuple[Unit, ...]]] = {
    RELAY: ("request", "MB"),
    PACED: ("request",),
    TLS_CLIENTS: ("request", "MB"),
    TLS_BROKERS: ("request", "MB"),
    LOOK: ("request", "MB"),
    **dict.fromkeys(READ.values(), ("MB",)),
    JSON: ("record", "MB"),
    JSON_SCHEMA: ("record", "MB"),
    AVRO: ("record", "MB"),
    ADD_HEADER: ("request", "record", "MB"),
    ON_CONSUME: ("request", "record", "MB"),
    **dict.fromkeys(WRITE.values(), ("request", "MB")),
    RATE_LIMIT: ("request",),
    AUDIT: ("request",),
}
READERS: Final = frozenset({JSON, JSON_SCHEMA, AVRO, ADD_HEADER, ON_CONSUME})  # need what is in a batch
LOOKERS: Final = READERS | {LIMITS}
ON_WIRE: Final = frozenset({RELAY, TLS_CLIENTS, TLS_BROKERS, LOOK})  # their MB are those of the compressed batch


@dataclass(frozen=True, slots=True)
class Traffic:
    """What passes: in one request, or in a second."""

    requests: float
    records: float
    wire_mb: float  # as it is sent
    plain_mb: float  # decompressed
    codec: str = "none"
    steps: frozenset[str] = frozenset()  # features: what is done beside relaying

    def divided_by(self, number: float) -> Traffic:
        """A share of it."""
        return replace(
            self, requests=self.requests / number, records=self.records / number, wire_mb=self.wire_mb / number,
            plain_mb=self.plain_mb / number,
        )  # fmt: skip

    def all_steps(self) -> set[str]:
        """With those that the features imply."""
        done = {RELAY, *self.steps} - {LIMITS}
        if self.steps & LOOKERS:
            done.add(LOOK)
        if self.codec != "none" and self.steps & READERS:
            done.add(READ[self.codec])
            if ADD_HEADER in self.steps:
                done.add(WRITE[self.codec])
        return done

    def amounts(self) -> dict[Price, float]:
        """How often each price is paid."""
        return {
            (step, unit): self._amount(step, unit)
            for step, units in STEPS.items()
            if step in self.all_steps()
            for unit in units
        }

    def _amount(self, step: str, unit: Unit) -> float:
        match unit:
            case "request":
                return self.requests
            case "record":
                return self.records
            case "MB":
                return self.wire_mb if step in ON_WIRE else self.plain_mb


def cpu_us(prices: Prices, *traffics: Traffic) -> float:
    """Microseconds of CPU for this traffic; a price that was not fitted is an error."""
    return sum(prices[price] * amount for one in traffics for price, amount in one.amounts().items())


@dataclass(frozen=True, slots=True)
class Observation:
    """What was measured: CPU, and the traffic that took it."""

    title: str
    traffics: tuple[Traffic, ...]
    cpu_us: float
    spread: float = 0.0  # (largest - smallest) / median of the repetitions

    def amounts(self) -> Counter[Price]:
        found = Counter[Price]()
        for one in self.traffics:
            found.update(one.amounts())
        return found


SWEEPS: Final = 20_000


def fit(observations: Sequence[Observation]) -> dict[Price, float]:
    """The prices, none of them negative, with the least sum of squared relative errors."""
    names = list(dict.fromkeys(price for one in observations for price in one.amounts()))
    rows = [_relative(one, names) for one in observations]
    # Columns are scaled, so that a price of a MB and one of a record are found equally well.
    scales = [max(row[at] for row in rows) for at in range(len(names))]
    rows = [[value / scale for value, scale in zip(row, scales, strict=True)] for row in rows]
    found = least_squares(rows)
    return {name: value / scale for name, value, scale in zip(names, found, scales, strict=True)}


def _relative(one: Observation, names: Iterable[Price]) -> list[float]:
    amounts = one.amounts()
    return [amounts.get(name, 0.0) / one.cpu_us for name in names]


def least_squares(rows: Sequence[Sequence[float]]) -> list[float]:
    """Values >= 0 whose products with each row add up to 1 as nearly as may be, by coordinate descent."""
    size = range(len(rows[0]))
    gram = [[sum(row[a] * row[b] for row in rows) for b in size] for a in size]
    due = [sum(row[a] for row in rows) for a in size]
    found = [0.0] * len(size)
    for _ in range(SWEEPS):
        largest = 0.0
        for at in size:
            line = gram[at]
            rest = due[at] - sum(one * value for one, value in zip(line, found, strict=True)) + line[at] * found[at]
            value = max(0.0, rest / line[at])
            largest = max(largest, abs(value - found[at]))
            found[at] = value
        if largest < 1e-9:
            break
    return found
