"""A client that is not read for a while (KIP-219), and its responses, which say for how long.

    Produce:     ... | throttle time int32 | [tags]
    most others: length int32 | correlation id int32 | [tags] | throttle time int32 | ...

Clients that know of throttle times wait by themselves; the others find that what they send is not read.
"""

from __future__ import annotations

import math
import sys
from functools import cache
from struct import Struct

from kafka_sidecar.codec.apis import ApiKey, response_header_version
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Buffer
from kafka_sidecar.codec.messages.produce import ProduceResponse
from kafka_sidecar.codec.pieces import MIN_BYTES, Pieces
from kafka_sidecar.codec.response_status import status_fields, tags_finder
from kafka_sidecar.proxy.relay.frames import Edit, Frames
from kafka_sidecar.proxy.relay.responses import RESPONSE

INT32 = Struct(">i")
AT_END = 0  # in place of a place from the start
FIRST_PRODUCE = 1  # whose responses have a throttle time
NO_TAGS = 0  # the byte of a tag section without tags


class Mute:
    """What a connection has to do: read nothing of the client until its session's `muted_until`."""

    __slots__ = ()


MUTE = Mute()


@cache
def throttle_place(key: int, version: int) -> int | None:
    """Where a response frame has its throttle time if its header has no tags; `AT_END`; None: it has none there.

    >>> throttle_place(ApiKey.FETCH, 12), throttle_place(ApiKey.HEARTBEAT, 0)
    (9, None)
    """
    if key == ApiKey.PRODUCE:
        return AT_END if version >= FIRST_PRODUCE else None
    fields = status_fields(key, version)
    if "T" not in fields:
        return None
    return RESPONSE.size + response_header_version(key, version) + 2 * fields.index("T")


def tell(frames: Frames, key: int, version: int, seconds: float) -> None:
    """Have the response that begins now say that its client is not read for so long."""
    if (place := throttle_place(key, version)) is not None:
        marked = Marking(key, version, place, seconds)
        marked.before = frames.edit(marked)


def marked_frame(key: int, version: int, frame: bytes | Pieces, seconds: float) -> bytes | Pieces:
    """The same of a whole response, which may be in pieces."""
    place = throttle_place(key, version)
    if place is None:
        return frame
    if isinstance(frame, Pieces):
        parts: tuple[Buffer, ...] = frame.parts
    elif place == AT_END or len(frame) < MIN_BYTES:
        return _marked(key, version, place, frame, seconds)
    else:
        parts = (frame,)
    first, end = memoryview(parts[0]), place + INT32.size
    if place == AT_END or len(first) < end:
        return frame  # only responses with records are in pieces, and these have it at the start
    return Pieces((_marked(key, version, place, bytes(first[:end]), seconds), first[end:], *parts[1:]))


class Marking:
    """The edit of one response, around the one that it has anyway."""

    __slots__ = ("_held", "_key", "_place", "_seconds", "_version", "before", "buffers", "skip")

    def __init__(self, key: int, version: int, place: int, seconds: float) -> None:
        self._key = key
        self._version = version
        self._place = place
        self._seconds = seconds
        self._held: list[Buffer] | None = []  # what is changed once it is all there; None: it has passed
        self.before: Edit | None = None
        self.buffers = True
        self.skip = 0

    def feed(self, data: bytes, start: int, end: int, last: bool) -> bytes | None:
        new = self._feed_before(data, start, end, last)
        held = self._held
        if held is None:
            return new
        held.append(data[start:end] if new is None else new)
        if not last and (self._place == AT_END or sum(map(len, held)) < self._place + INT32.size):
            return b""
        self._held = None
        if self.before is None:
            self.skip = sys.maxsize  # what follows passes unseen
        return _marked(self._key, self._version, self._place, b"".join(held), self._seconds)

    def _feed_before(self, data: bytes, start: int, end: int, last: bool) -> bytes | None:
        before, size = self.before, end - start
        if before is None:
            return None
        if before.skip >= size and not last:
            before.skip -= size
            return None
        return before.feed(data, start, end, last)

    def lost(self, why: str) -> None:
        """The connection has ended before the end of the frame."""
        if (lost := getattr(self.before, "lost", None)) is not None:
            lost(why)


def _marked(key: int, version: int, place: int, frame: bytes, seconds: float) -> bytes:
    """A frame, or its beginning, with what is longer: the broker's throttle time or ours."""
    at = _end_place(version, frame) if place == AT_END else place
    is_cut = at is None or at + INT32.size > len(frame)
    if at is None or is_cut or (response_header_version(key, version) and frame[RESPONSE.size] != NO_TAGS):
        return frame
    ours = math.ceil(seconds * 1000)
    if INT32.unpack_from(frame, at)[0] >= ours:
        return frame
    return b"".join((frame[:at], INT32.pack(ours), frame[at + INT32.size :]))


def _end_place(version: int, frame: bytes) -> int | None:
    """Of a Produce response; None where it ends with tags, such as the address of a new leader, or cannot be read."""
    if not ProduceResponse.declaration_.is_flexible(version):
        return len(frame) - INT32.size
    try:
        has_tags = tags_finder(ProduceResponse, version)(frame, 0, len(frame))
    except CodecError:
        return None
    return None if has_tags else len(frame) - INT32.size - 1
