"""Letters as they are kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_sidecar.codec.records import Header, batches
from kafka_sidecar.dead_letters.letter import Reasons, read_headers
from kafka_sidecar.dead_letters.parcels import Parcel, build


@dataclass(frozen=True, slots=True)
class Kept:
    """One letter."""

    letter_topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    reasons: Reasons


def kept_in(parcels: Iterable[Parcel]) -> list[Kept]:
    """All letters of parcels."""
    found = []
    for parcel in parcels:
        (batch,) = batches(build(parcel.letters))
        for record in batch.records():
            own, reasons = read_headers(record.headers)
            found.append(Kept(parcel.topic, parcel.partition, record.key, record.value, own, reasons))
    return found
