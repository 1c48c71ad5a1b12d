"""Letters as they are kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_sidecar.codec.records import Header, batches, encode_varint
from kafka_sidecar.dead_letters.letter import Reasons, read_headers
from kafka_sidecar.dead_letters.parcels import Letter, Parcel, build


@dataclass(frozen=True, slots=True)
class Kept:
    """One letter."""

    letter_topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    reasons: Reasons


def parcel(name: str, size: int = 100) -> Parcel:
    """One letter with this value."""
    value = encode_varint(len(name)) + name.encode()
    return Parcel("dlq", 3, (Letter(0, (b"\1", value, b"\0")),), 7.5, size)


def names_of(parcels: Iterable[Parcel]) -> list[str]:
    """The values of the letters of such parcels."""
    return [b"".join(letter.parts)[2:-1].decode() for one in parcels for letter in one.letters]


def kept_in(parcels: Iterable[Parcel]) -> list[Kept]:
    """All letters of parcels."""
    found = []
    for parcel in parcels:
        (batch,) = batches(build(parcel.letters))
        for record in batch.records():
            own, reasons = read_headers(record.headers)
            found.append(Kept(parcel.topic, parcel.partition, record.key, record.value, own, reasons))
    return found
