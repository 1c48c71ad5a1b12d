"""Where the acks of a Produce request are: acks=0 gets no answer, so its place in the order of answers is empty."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.wire import MAX_STRING_BYTES, bad_length, read_uvarint, skip_tags

FIRST_FLEXIBLE = 9
FIRST_WITH_TRANSACTIONAL_ID = 3
_INT16 = Struct(">h")
# Two strings of maximum length and some tags. A longer beginning is rejected: each read would copy it again.
MAX_BYTES_BEFORE_ACKS = 128 << 10
CLIENT_ID_AT = 12  # after length, api key, api version, correlation id


def acks_at(version: int, data: bytes, at: int, size: int) -> int | None:
    """Where in ``data`` the acks of the Produce request of ``size`` bytes at data[at] are; None: more bytes are needed.

    Raises CodecError where the request ends before its acks, or they do not come.

        length int32 | key int16 | version int16 | correlation id int32 | client id string | [tags]
        [transactional id nullable string] | acks int16 | ...
    """
    try:
        here = _skip_string(data, at + CLIENT_ID_AT)
        if version >= FIRST_FLEXIBLE:
            here = skip_tags(data, here) if data[here] else here + 1
            length, here = read_uvarint(data, here)  # the transactional id: length + 1, 0 for null
            if length - 1 > MAX_STRING_BYTES:
                raise bad_length("the transactional id of a Produce request", length - 1)
            here += length - 1 if length else 0
        elif version >= FIRST_WITH_TRANSACTIONAL_ID:
            here = _skip_string(data, here)
        data[here + 1]
    except IndexError:
        if len(data) >= at + size:
            raise CodecError("a Produce request ends before its acks") from None
        if len(data) - at > MAX_BYTES_BEFORE_ACKS:
            raise CodecError(f"a Produce request has no acks in its first {MAX_BYTES_BEFORE_ACKS} bytes") from None
        return None
    if here + 2 > at + size:
        raise CodecError("a Produce request ends before its acks")
    return here


class ProduceHead(NamedTuple):
    """What a Produce request says before its topics."""

    client_id: str | None
    transactional_id: str | None
    acks: int


def read_head(version: int, data: bytes, at: int) -> ProduceHead:
    """The head of the Produce request at data[at], of which `acks_at` has found the acks."""
    client_id_end = here = _skip_string(data, at + CLIENT_ID_AT)
    client_id = _text(data, at + CLIENT_ID_AT + 2, _INT16.unpack_from(data, at + CLIENT_ID_AT)[0])
    length = -1
    if version >= FIRST_FLEXIBLE:
        here = skip_tags(data, here) if data[here] else here + 1
        length, here = read_uvarint(data, here)
        length -= 1
    elif version >= FIRST_WITH_TRANSACTIONAL_ID:
        length, here = _INT16.unpack_from(data, client_id_end)[0], client_id_end + 2
    acks: int = _INT16.unpack_from(data, here + max(length, 0))[0]
    return ProduceHead(client_id, _text(data, here, length), acks)


def _text(data: bytes, at: int, length: int) -> str | None:
    return data[at : at + length].decode(errors="surrogateescape") if length >= 0 else None


def _skip_string(data: bytes, at: int) -> int:
    if at + 2 > len(data):
        raise IndexError
    length: int = _INT16.unpack_from(data, at)[0]
    return at + 2 + max(length, 0)


MAX_KEPT_BYTES = 4096  # longer names than clients have are not kept with each connection


class AcksMemo:
    """Where the acks of a connection's Produce requests are: what stands before them hardly ever changes."""

    __slots__ = ("_before", "_version")

    def __init__(self) -> None:
        self._before = b""  # of the last Produce request: from its client id to its acks
        self._version = -1

    def find(self, version: int, data: bytes, at: int, size: int) -> int | None:
        """As `acks_at`; parses only what differs from the request before."""
        before = self._before
        here = at + CLIENT_ID_AT + len(before)
        if (
            data.startswith(before, at + CLIENT_ID_AT)
            and version == self._version
            and at + size >= here + 2 <= len(data)
        ):
            return here
        found = acks_at(version, data, at, size)
        if found is not None and found - at <= MAX_KEPT_BYTES:
            self._before, self._version = data[at + CLIENT_ID_AT : found], version
        return found
