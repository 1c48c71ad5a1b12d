"""The forms in which records have the id of their schema: before the data, or in a header.

Confluent's serializers write a 0 and an id of four bytes, or a 1 and a GUID of sixteen, before the data or into the
header ``__value_schema_id`` (``__key_schema_id``), where the message indexes of Protobuf follow; Apicurio's an id of
four bytes before the data, or one of eight into a header; AWS Glue's a 3, a byte that says how the data is compressed,
and the UUID of a version.

This file runs as it is and compiled: ids.pxd holds the C types.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from kafka_sidecar.codec.checkpoint import COMPILED, checkpoint

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if cython.compiled:
    from cython.cimports.kafka_sidecar.codec.records.record import uvarint
    from cython.cimports.libc.string import memcmp
else:
    from kafka_sidecar.codec.records import Record, Records
    from kafka_sidecar.codec.records.record import uvarint

_COMPILED = COMPILED  # for C
NULL, NO_ID, PREFIX = -2, -1, 0  # where an id is; 1 and more: in that header of those that were looked for
_NULL, _NO_ID, _PREFIX = NULL, NO_ID, PREFIX  # for C
_NULL_LENGTH = 1  # -1, zigzag coded


@dataclass(frozen=True, slots=True)
class SchemaId:
    """An id as a record has it."""

    kind: str  # "id" (Confluent; 4 bytes), "guid" (Confluent; 16 bytes), "content_id", "global_id" (Apicurio), "glue"
    value: int | str  # a GUID or UUID as text, in lower case with hyphens
    context: str = ""  # of a registry of Confluent's, as ".test"; an id of four bytes is one of its context

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')} {self.value}"


@dataclass(frozen=True, slots=True)
class Form:
    """One way to have an id."""

    kinds: dict[int, tuple[str, int]]  # of ids by their first byte, and the bytes of all; before the data
    headers: tuple[str, ...] = ()  # their names, with {} for key or value


FORMS = {
    "confluent": Form({0: ("id", 5), 1: ("guid", 17)}),
    "confluent_header": Form({}, ("__{}_schema_id",)),
    "apicurio": Form({0: ("content_id", 5)}),
    "apicurio_header": Form({}, ("apicurio.{}.contentId", "apicurio.{}.globalId")),
    "glue": Form({3: ("glue", 18)}),
}


class Reader:
    """Finds ids in the key or the value of records, in the forms that are accepted; a header precedes a prefix."""

    def __init__(self, forms: Iterable[str], of_key: bool, context: str = "") -> None:
        self.of_key = of_key
        self._context = context
        accepted = [FORMS[name] for name in forms]
        part = "key" if of_key else "value"
        self._headers = tuple(header.format(part).encode() for form in accepted for header in form.headers)
        self._kinds = {first: kind for form in accepted for first, kind in form.kinds.items()}
        self._sizes = bytes(self._kinds[first][1] if first in self._kinds else 0 for first in range(256))

    def runs(self, records: Records) -> list[tuple[int, int, int, int, int]]:
        """The records in runs of the same id: first index, index after the last one, where the id is (`NULL`: the part
        is null, `NO_ID`, `PREFIX`, or the number of a header), and the positions in the payload between which it is."""
        return find_runs(records, self.of_key, self._headers, self._sizes)

    def read(self, place: int, data: bytes) -> tuple[SchemaId, bytes] | None:
        """The id in these bytes, and those that follow it in a header; None if they are none."""
        if place == PREFIX:
            kind, size = self._kinds[data[0]]
            return _id_of(kind, data[:size], self._context), b""
        name = self._headers[place - 1]
        if name.endswith(b"Id"):
            kind = "content_id" if name.endswith(b".contentId") else "global_id"
            return (SchemaId(kind, int.from_bytes(data)), b"") if len(data) == 8 else None
        kind, size = FORMS["confluent"].kinds.get(data[0] if data else -1, ("", 0))
        return (_id_of(kind, data[:size], self._context), data[size:]) if kind and len(data) >= size else None


def _id_of(kind: str, data: bytes, context: str) -> SchemaId:
    if kind in ("id", "content_id"):
        return SchemaId(kind, int.from_bytes(data[1:]), context)
    return SchemaId(kind, str(UUID(bytes=data[-16:])), "")


def find_runs(
    records: Records, of_key: bool, headers: tuple[bytes, ...], sizes: bytes
) -> list[tuple[int, int, int, int, int]]:
    """As `Reader.runs`; ``sizes``: by the first byte, how many bytes an id has before the data, 0 for none."""
    found: list[tuple[int, int, int, int, int]] = []
    record = records._cursor()
    data = records.payload
    first = 0
    before, before_at, before_size = _NULL - 1, 0, 0  # of the run
    for index in range(len(records)):
        record._advance()
        record._read()
        at = record._key_at if of_key else record._value_at
        size = record._key_size if of_key else record._value_size
        place = _NULL if size < 0 else _NO_ID
        if size >= 0 and headers:
            place, at, size = _in_headers(record, headers, at, size)
        if place == _NO_ID and size > 0 and 0 < sizes[data[at]] <= size:
            place = _PREFIX
        size = 0 if place < _PREFIX else sizes[data[at]] if place == _PREFIX else size
        if place != before or size != before_size or not _same(data, at, before_at, size):
            if index > 0:
                found.append((first, index, before, before_at, before_at + before_size))
            first, before, before_at, before_size = index, place, at, size
        if index & _COMPILED == _COMPILED:
            checkpoint()
    if len(records) > 0:
        found.append((first, len(records), before, before_at, before_at + before_size))
    return found


def _in_headers(record: Record, headers: tuple[bytes, ...], at: int, size: int) -> tuple[int, int, int]:
    """The number of the first of these headers that the record has, and where its value is; else the arguments."""
    for place in range(len(headers)):
        found = record._find(headers[place])
        if found >= 0:
            raw, start = uvarint(record._data, found)
            if raw != _NULL_LENGTH:
                return place + 1, start, raw >> 1
    return _NO_ID, at, size


def _same(data: bytes, one: int, other: int, size: int) -> bool:
    if cython.compiled:
        start = cython.cast(cython.p_char, data)
        return bool(memcmp(start + one, start + other, size) == 0)
    return data[one : one + size] == data[other : other + size]
