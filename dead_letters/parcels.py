"""Letters of one rejected batch, on their way to one partition of a dead letter topic; and batches built of letters.

A letter shares the bytes that it has in common with the others of its batch: most of its headers. They are joined when
the letters are sent, so that a buffer holds little more than keys and values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafka_sidecar.codec.large_bytes import copy, join
from kafka_sidecar.codec.records import Codec, Record, Records, batches, build_encoded, encode_varint
from kafka_sidecar.dead_letters.letter import REPLAYED, Name, Reasons

LETTER_BYTES = 150  # of memory, beside its bytes
MAX_SEQUENCE = (1 << 31) - 1
_WRAP, _HALF = 1 << 64, 1 << 63
_OF_EACH = (Name.INDEX, Name.SEQUENCE, Name.OWN_HEADERS)  # the headers that each letter has for itself


class Letter(NamedTuple):
    """One record as it is sent."""

    timestamp: int  # ms since 1970
    parts: tuple[bytes, ...]  # key, value and headers, encoded

    @property
    def size(self) -> int:
        """Bytes, encoded."""
        return sum(map(len, self.parts))


@dataclass(frozen=True, slots=True)
class Parcel:
    """Letters for one dead letter topic, from one partition of the topic that they were sent to."""

    topic: str  # the dead letter topic
    partition: int  # that the records were sent to
    letters: tuple[Letter, ...]
    at: float  # seconds since 1970
    size: int  # bytes that it takes in memory


def merge(parcels: Iterable[Parcel], most_bytes: int) -> list[Parcel]:
    """The same letters in fewer parcels: those of one partition that follow each other become one, of so many bytes
    at most unless it was larger before."""
    merged: list[Parcel] = []
    held: list[Parcel] = []
    size = 0
    for parcel in parcels:
        if held and (
            (parcel.topic, parcel.partition) != (held[0].topic, held[0].partition) or size + parcel.size > most_bytes
        ):
            merged.append(_join(held, size))
            held, size = [], 0
        held.append(parcel)
        size += parcel.size
    return [*merged, _join(held, size)] if held else merged


def _join(parcels: list[Parcel], size: int) -> Parcel:
    if len(parcels) == 1:
        return parcels[0]
    letters = tuple(letter for parcel in parcels for letter in parcel.letters)
    return replace(parcels[0], letters=letters, size=size)


class Fault(NamedTuple):
    """Why one record is rejected."""

    message: str
    policy: str
    reason: str


class Envelope:
    """The headers of the letters of one batch, each encoded once."""

    def __init__(self, reasons: Reasons) -> None:
        """``reasons``: those of any of its records; index and sequence are not used."""
        self._reasons = reasons
        self._first_sequence = reasons.sequence
        self._known: dict[Fault, tuple[bytes, bytes, bytes]] = {}
        self._number = len(reasons.headers(0))

    def seal(self, record: Record, fault: Fault, payload: bytes) -> Letter:
        """The letter of a record, of whose batch these are all records."""
        _, _, keys_at, _, headers_at, end = record.edges()
        own, own_at = _count_at(payload, headers_at)
        first, middle, last = self._known.get(fault) or self._encode(fault)
        parts = [
            copy(payload, keys_at, headers_at), encode_varint(own + self._number), copy(payload, own_at, end), first,
            _header(Name.INDEX, record.index), middle,
        ]  # fmt: skip
        if self._first_sequence is not None:
            parts.append(_header(Name.SEQUENCE, self._first_sequence + record.index & MAX_SEQUENCE))
        parts += (last, _header(Name.OWN_HEADERS, own))
        return Letter(record.timestamp, tuple(part for part in parts if part))

    def _encode(self, fault: Fault) -> tuple[bytes, bytes, bytes]:
        """What is before the index, between it and the sequence, and after that."""
        if len(self._known) > 1:  # a policy may have a message for each record
            self._known.clear()
        reasons = replace(self._reasons, message=fault.message, policy=fault.policy, reason=fault.reason)
        parts, at = [b"", b"", b""], 0
        for header in reasons.headers(0):
            name = header.key
            if name in _OF_EACH:
                at += 1
            else:
                parts[at] += _encode(header.key_bytes, header.value or b"")
        known = self._known[fault] = (parts[0], parts[1], parts[2])
        return known


def seal_records(
    records: Records, chosen: Iterable[int] | None, faults: Mapping[int, Fault], other: Fault, envelope: Envelope
) -> Iterator[Letter | None]:
    """The letters of some records of a batch, or of all; None for a record that was a letter before.

    Args:
        chosen: their indexes; None: all.
        faults: by index.
        other: of the records that have none of their own.
    """
    payload = records.payload
    for record in records if chosen is None else map(records.__getitem__, chosen):
        yield (
            None
            if record.header(_REPLAYED) is not None
            else envelope.seal(record, faults.get(record.index, other), payload)
        )


def pack(
    letters: Iterable[Letter | None], most_bytes: int, put: Callable[[tuple[Letter, ...], int], bool]
) -> tuple[int, int]:
    """Give letters to ``put``, some at a time, with their bytes in memory, until it returns False.

    Returns how many it has taken, and how many records were letters before.
    """
    taken = replayed = size = 0
    held: list[Letter] = []
    for letter in letters:
        if letter is None:
            replayed += 1
            continue
        held.append(letter)
        size += letter.size + LETTER_BYTES
        if size >= most_bytes:
            if not put(tuple(held), size):
                return taken, replayed
            taken += len(held)
            held, size = [], 0
    if held and put(tuple(held), size):
        taken += len(held)
    return taken, replayed


def build(letters: Sequence[Letter], codec: int = Codec.LZ4) -> bytes:
    """A batch of these letters."""
    base = letters[0].timestamp
    parts: list[bytes] = []
    for index, (timestamp, own) in enumerate(letters):
        head = b"\0" + encode_varint(_wrap(timestamp - base)) + encode_varint(index)
        parts += (encode_varint(len(head) + sum(map(len, own))), head, *own)
    newest = max(letter.timestamp for letter in letters)
    return build_encoded(join(parts), len(letters), base, newest, codec)


def read_batch(data: bytes | memoryview) -> tuple[Letter, ...]:
    """The letters of a batch that `build` has made. Raises CodecError."""
    (batch,) = batches(data)
    records = batch.records()
    payload = records.payload
    edges = ((record.timestamp, record.edges()) for record in records)
    return tuple(Letter(timestamp, (payload[keys_at:end],)) for timestamp, (_, _, keys_at, _, _, end) in edges)


def _count_at(data: bytes, at: int) -> tuple[int, int]:
    """A number of headers, and the position after it."""
    raw = shift = 0
    while data[at] > 127:
        raw |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
    return (raw | data[at] << shift) >> 1, at + 1


def _header(name: Name, value: int) -> bytes:
    return _NAMES[name] + _sized(b"%d" % value)


def _encode(key: bytes, value: bytes) -> bytes:
    return _sized(key) + _sized(value)


def _sized(data: bytes) -> bytes:
    return encode_varint(len(data)) + data


def _wrap(delta: int) -> int:
    """In 64 bits, beyond which it goes round as it does for consumers."""
    return (delta + _HALF) % _WRAP - _HALF


_REPLAYED = REPLAYED.encode()
_NAMES = {name: _sized(name.encode()) for name in _OF_EACH}
