"""Values that are stored as objects, and the batch that refers to them (the pattern "claim check")."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from crc32c import crc32c

from kafka_sidecar.codec.records import Change, Header, Record, Records, edit_records
from kafka_sidecar.large_messages import object_reference
from kafka_sidecar.large_messages.object_reference import ObjectReference


@dataclass(frozen=True, slots=True)
class Claims:
    """The records of a batch as they are sent, and the objects to store before."""

    records: Records
    objects: tuple[tuple[str, bytes], ...]  # key, value


def claim(records: Records, above: int, new_key: Callable[[], str]) -> Claims | None:
    """Replace values of more than ``above`` bytes by references; None: there are none.

    References that clients send are removed: they would have the sidecar read what they must not.
    """
    changes = list[tuple[Record, Change]]()
    objects = list[tuple[str, bytes]]()
    for record in records:
        headers = _without_references(record.headers)
        if record.value_size > above:
            value, key = record.value or b"", new_key()
            reference = ObjectReference(key, len(value), crc32c(value))
            objects.append((key, value))
            header = Header(object_reference.KEY, reference.encode())
            changes.append((record, Change(value=key.encode(), headers=(*headers, header))))
        elif len(headers) < len(record.headers):
            changes.append((record, Change(headers=headers)))
    return Claims(edit_records(records, changes), tuple(objects)) if changes else None


def _without_references(headers: Collection[Header]) -> tuple[Header, ...]:
    return tuple([header for header in headers if header.key_bytes != object_reference.KEY])
