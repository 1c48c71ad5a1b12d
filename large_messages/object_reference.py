"""Values that are stored as objects (the pattern "claim check"): the record header `_lmo`, and the batch that has it.

    version 1 | size 8 | CRC-32C of the value 4 | key of the object, UTF-8

The value of the record is the key too: consumers without the sidecar see where the value is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

from crc32c import crc32c

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Change, Header, Record, Records, edit_records

KEY = b"_lmo"
VERSION = 1
MAX_KEY_BYTES = 1024  # of an object, in all stores

_NAME = re.compile("[0-9a-f]{32}")
_FIXED = Struct(">bqI")


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """What the value of the header says."""

    key: str  # of the object, below the URL of the store
    size: int  # bytes of the value
    crc: int  # CRC-32C of the value

    def encode(self) -> bytes:
        return _FIXED.pack(VERSION, self.size, self.crc) + self.key.encode()

    @staticmethod
    def decode(data: bytes | None, topic: str) -> ObjectReference:
        """Raises CodecError if the bytes are not the header, or the object is not one of this topic: whoever may write
        to a topic must not have the sidecar read others.
        """
        if data is None or not _FIXED.size < len(data) <= _FIXED.size + MAX_KEY_BYTES:
            raise CodecError("the header _lmo has an invalid length")
        version, size, crc = _FIXED.unpack_from(data)
        if version != VERSION:
            raise CodecError(f"unknown version {version} of the header _lmo")
        if not 0 <= size < 1 << 31:
            raise CodecError(f"the header _lmo announces {size} bytes")
        try:
            key = data[_FIXED.size :].decode()
        except UnicodeDecodeError as error:
            raise CodecError("the key in the header _lmo is not UTF-8") from error
        if not is_key_of(topic, key):
            raise CodecError("the key in the header _lmo is not that of an object of this topic")
        return ObjectReference(key, size, crc)


def new_key(topic: str, random: bytes) -> str:
    """The key of a new object."""
    return f"{topic}/{random.hex()}"


def is_key_of(topic: str, key: str) -> bool:
    """Whether `new_key` makes such keys for a topic."""
    folder, _, name = key.partition("/")
    return folder == topic and _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Claims:
    """The records of a batch as they are sent, and the objects to store before."""

    records: Records
    objects: tuple[tuple[str, bytes], ...]  # key, value


def claim(records: Records, above: int, new_key: Callable[[], str]) -> Claims | None:
    """Replace values of more than ``above`` bytes by references; None: there are none."""
    changes = list[tuple[Record, Change]]()
    objects = list[tuple[str, bytes]]()
    for record in records:
        if record.value_size > above:
            value, key = record.value or b"", new_key()
            reference = ObjectReference(key, len(value), crc32c(value))
            objects.append((key, value))
            header = Header(KEY, reference.encode())
            headers = [one for one in record.headers if one.key_bytes != KEY]
            changes.append((record, Change(value=key.encode(), headers=(*headers, header))))
    return Claims(edit_records(records, changes), tuple(objects)) if changes else None
