"""Which consumer group a client belongs to: a Fetch does not say, other requests of the same client id and address do.

Where one client id and address belong to several groups at a time, it is not known in which of them they read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from kafka_sidecar.audit.contract import SEVERAL_GROUPS
from kafka_sidecar.codec.apis import ApiKey, request_header_version
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.wire import CLIENT_ID_AT, read_uvarint, skip_tags

MAX_CLIENTS = 10_000
MAX_GROUPS = 16  # of one client id and address
KEPT_S = 60.0  # since a request named the group; members send heartbeats every few seconds
FIRST_WITH_GROUPS = 8  # OffsetFetch: the version from which on it names several groups (KIP-709)
_INT16 = struct.Struct(">h")
_FLEXIBLE_HEADER = 2

Client = tuple[str | None, str | None]  # client id, address


class Groups:
    """The groups of all clients."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock  # seconds
        self._seen: dict[Client, dict[str, float]] = {}  # when requests have named each group last
        self._groups: dict[Client, str] = {}
        self.find = self._groups.get

    def learn(self, client: Client, group: str) -> None:
        """A request of this client has named a group."""
        if not group:
            return
        now = self._clock()
        seen = self._seen.get(client)
        if seen is None:
            if len(self._seen) >= MAX_CLIENTS:
                oldest = next(iter(self._seen))
                del self._seen[oldest], self._groups[oldest]
            seen = self._seen[client] = {}
        seen[group] = now
        for other in [one for one, at in seen.items() if now - at > KEPT_S]:
            del seen[other]
        if len(seen) > MAX_GROUPS:
            del seen[next(iter(seen))]
        self._groups[client] = group if len(seen) == 1 else SEVERAL_GROUPS


def named_group(key: int, version: int, frame: bytes, at: int) -> str:
    """The group in a group request: its first field. OffsetFetch can name several: the first.

    Raises:
        CodecError: these bytes are no such request.
    """
    try:
        here = at + CLIENT_ID_AT
        here += 2 + max(_INT16.unpack_from(frame, here)[0], 0)
        is_flexible = request_header_version(key, version) >= _FLEXIBLE_HEADER
        if is_flexible:
            here = skip_tags(frame, here)
        if key == ApiKey.OFFSET_FETCH and version >= FIRST_WITH_GROUPS:
            count, here = read_uvarint(frame, here)
            if count <= 1:
                return ""
        if is_flexible:
            size, here = read_uvarint(frame, here)
            size -= 1
        else:
            size, here = _INT16.unpack_from(frame, here)[0], here + 2
        return frame[here : here + max(size, 0)].decode()
    except (IndexError, ValueError, struct.error) as error:
        raise CodecError("a request ends before its group") from error
