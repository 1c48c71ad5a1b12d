"""Cuts a value into slices, each a batch that the topic allows.

Slices are cut by the size of their batch, compressed if it is: a batch that was compressed to a tenth needs a tenth of
the slices. Each says how many there are, so that is estimated before the first one, and all are built again if the
estimate was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from kafka_sidecar.codec.records import Header, build_single
from kafka_sidecar.large_messages import lm_header
from kafka_sidecar.large_messages.lm_header import LEGACY_V2, V3, LmHeader
from kafka_sidecar.large_messages.serializers import SegmentSerializer
from kafka_sidecar.large_messages.settings import MAX_SEGMENTS

Parts = tuple[bytes | memoryview, ...]  # of a batch, to be joined

CARRIED_BYTES = 1  # the last slice, which the client's own record has: li rejects an empty one
VARINTS_BYTES = 8  # by which the two lengths before a value grow with it
FILL = 0.93  # of a slice that is compressed, so that few are too large
MARGIN_BYTES = 64  # by which a compressed slice may grow if its header changes
MIN_RATIO = 0.001


class CutError(Exception):
    """The value cannot be cut into slices that the topic allows."""


@dataclass(frozen=True, slots=True)
class SliceForm:
    """How the slices of one value are written."""

    topic: str
    codec: int
    timestamp: int  # of the record, ms since 1970
    key: bytes | None  # of each, before its number; None: they have no key
    serializer: SegmentSerializer | None  # None: the header says what a slice is (V3)
    identify: Callable[[int], bytes]  # the id of the message by the number of its segments

    def header(self, message_id: bytes, number: int, count: int, size: int) -> LmHeader:
        return LmHeader(V3 if self.serializer is None else LEGACY_V2, message_id, number, count, size)

    def value(self, header: LmHeader, payload: bytes | memoryview) -> bytes | memoryview:
        """The value of the record that has a slice."""
        if self.serializer is None:
            return payload
        return self.serializer.serialize(self.topic, header.segment(payload))

    def build(self, header: LmHeader, payload: bytes | memoryview) -> Parts:
        """The batch of one slice."""
        key = None if self.key is None else self.key + header.number.to_bytes(4, "big")
        headers = (Header(lm_header.KEY, header.encode()),)
        return build_single(self.value(header, payload), key, headers, self.timestamp, self.codec)


@dataclass(frozen=True, slots=True)
class Cut:
    """A value that is cut."""

    slices: tuple[Parts, ...]  # without the last one
    header: LmHeader  # of the last one


def size_of(parts: Parts) -> int:
    """Bytes."""
    return sum(map(len, parts))


def cut(value: memoryview, form: SliceForm, max_slice: int, ratio: float) -> Cut:
    """Cut a value.

    Args:
        value: of at least two bytes.
        max_slice: bytes of the largest slice, as a batch.
        ratio: an estimate of its compressed size by its size; not used without compression.

    Raises:
        CutError: the slices would be too many, or have no room for a byte.
        Exception: what a serializer raises.
    """
    overhead = size_of(form.build(form.header(form.identify(2), 0, 2, len(value)), value[:1])) - 1 + VARINTS_BYTES
    if overhead + MARGIN_BYTES >= max_slice:
        raise CutError(f"{max_slice} bytes have no room for a slice")
    sizes, slices = (
        _compressed(value, form, max_slice - MARGIN_BYTES, ratio)
        if form.codec
        else (_even(value, max_slice - overhead), None)
    )
    count = len(sizes) + 1
    header = form.header(form.identify(count), count - 1, count, len(value))
    if slices is None:
        slices = _build(value, form, sizes)
    if any(size_of(one) > max_slice for one in slices):
        raise CutError("the serializer adds more bytes to some slices than to others")
    return Cut(slices, header)


def _even(value: memoryview, room: int) -> list[int]:
    """Sizes of slices that are not compressed."""
    end = len(value) - CARRIED_BYTES
    count = _count(end, room)
    size, larger = divmod(end, count)
    return [size + 1] * larger + [size] * (count - larger)


def _compressed(
    value: memoryview, form: SliceForm, room: int, ratio: float
) -> tuple[list[int], tuple[Parts, ...] | None]:
    """Sizes of slices that fit when they are compressed, and the slices if their number was right."""
    end = len(value) - CARRIED_BYTES
    probe = min(end, max(1, int(room * FILL / max(ratio, MIN_RATIO))))
    ratio = size_of(form.build(form.header(form.identify(2), 0, 2, len(value)), value[:probe])) / probe
    count = _count(end * ratio, room * FILL)
    message_id = form.identify(count + 1)
    at, sizes, slices = 0, list[int](), list[Parts]()
    while at < end:
        even = ceil((end - at) / max(1, count - len(sizes)))
        size = max(1, min(even, int(room / ratio)))
        while True:
            header = form.header(message_id, len(sizes), count + 1, len(value))
            built = form.build(header, value[at : at + size])
            used = size_of(built)
            if used <= room or size == 1:
                break
            size = max(1, min(size // 2, int(size * room * FILL / used)))
        ratio = max(used / size, MIN_RATIO)
        sizes.append(size)
        slices.append(built)
        at += size
        _count(len(sizes), 1)
    return sizes, tuple(slices) if len(sizes) == count else None


def _build(value: memoryview, form: SliceForm, sizes: Sequence[int]) -> tuple[Parts, ...]:
    count, at = len(sizes) + 1, 0
    message_id = form.identify(count)
    slices: list[Parts] = []
    for number, size in enumerate(sizes):
        header = form.header(message_id, number, count, len(value))
        slices.append(form.build(header, value[at : at + size]))
        at += size
    return tuple(slices)


def _count(size: float, room: float) -> int:
    """How many slices take ``size`` bytes. Raises CutError."""
    count = max(1, ceil(size / room))
    if count >= MAX_SEGMENTS:
        raise CutError(f"the value would be {count + 1} slices, more than {MAX_SEGMENTS}")
    return count
