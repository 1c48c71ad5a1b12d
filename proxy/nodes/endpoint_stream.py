"""Keep broker addresses out of Fetch and ShareFetch responses without holding the records back.

NodeEndpoints stand at the very end of these responses (KIP-951), megabytes behind a length prefix that has long been
passed on. So everything up to that tail passes as it comes, the tail alone is held, and what replaces it is exactly as
long: what is left over is filled with unknown tagged fields, which every reader skips (KIP-482). Where the sidecar's
addresses do not fit, NodeEndpoints are left out: the client then asks for metadata, as it did before KIP-951.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple, cast

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError, FrameSizeError, TruncatedError
from kafka_sidecar.codec.message import field_reader, field_writer, read_tags, skipper, write_tags
from kafka_sidecar.codec.messages import fetch, share_fetch
from kafka_sidecar.codec.wire import MAX_UVARINT_BYTES, read_uvarint, write_uvarint
from kafka_sidecar.proxy.nodes.endpoints import Nodes

HEADER = 8  # length, correlation id
FIRST_PAD_TAG = 100
FIRST_LONG_TAG = 128  # its number takes two bytes
SMALLEST_PAD = 2  # a tag's number and its length
MAX_STRUCT = 16 << 20  # the longest piece between two runs of records, such as a list of aborted transactions


class Shape(NamedTuple):
    """The structs of a response: itself, its topics, their partitions."""

    response: type[Any]
    topic: type[Any]
    partition: type[Any]
    tag: int | None  # NodeEndpoints are this tagged field; None: the last field before the tags


SHAPES: dict[int, Shape] = {
    ApiKey.FETCH: Shape(fetch.FetchResponse, fetch.FetchableTopicResponse, fetch.PartitionData, tag=0),
    ApiKey.SHARE_FETCH: Shape(
        share_fetch.ShareFetchResponse, share_fetch.ShareFetchableTopicResponse, share_fetch.PartitionData, tag=None
    ),
}

Needs = Generator[None, None, int]  # yields when it needs more bytes; returns where it is, or a number that it read
Step = Callable[[bytes, int], int]


class EndpointStream:
    """The edit of one such response."""

    def __init__(self, key: int, version: int, told: Callable[[Nodes], Nodes]) -> None:
        self._tail = _Tail(SHAPES[key], version, told)
        self._walk: Iterator[None] | None = self._to_tail(SHAPES[key], version)
        self._data = b""  # what is being read
        self._at = 0
        self.skip = 0  # bytes of records that are still to come
        self._held: list[bytes] = []  # what has come of the tail

    def feed(self, data: bytes, start: int, end: int, last: bool) -> bytes | None:
        """What leaves in place of data[start:end]; the tail leaves with the ``last`` piece. Raises CodecError."""
        tail_at = start if self._walk is None else self._advance(data, start, end)
        if not last:
            if tail_at == end:
                return None
            self._held.append(data[tail_at:end])
            return data[start:tail_at]
        if self._walk is not None or tail_at > end:
            raise TruncatedError("a response ends before its fields do")
        old = b"".join((*self._held, data[tail_at:end]))
        new = self._tail.fitted(old)
        return None if new is old and not self._held else data[start:tail_at] + new

    def _advance(self, data: bytes, start: int, end: int) -> int:
        """Read on; where in ``data`` the tail begins, or ``end``."""
        left_over = self._data[self._at :]
        if len(left_over) > MAX_STRUCT:
            raise FrameSizeError(f"{len(left_over)} bytes without an end between records")
        # A struct that was cut is read again from its start. What follows records needs no copy.
        self._data, self._at = (left_over + data[start:end], 0) if left_over else (data, start)
        before = start - len(left_over) if left_over else 0
        try:
            next(cast(Iterator[None], self._walk))
        except StopIteration:
            self._walk = None
            tail_at, self._data = self._at + before, b""
            return tail_at
        return end

    def _to_tail(self, shape: Shape, version: int) -> Iterator[None]:
        """Step over everything before NodeEndpoints; yields whenever more bytes are needed."""
        yield from self._step(_header)
        yield from self._step(skipper(shape.response, version, before="responses"))
        for _ in range((yield from self._count())):
            yield from self._step(skipper(shape.topic, version, before="partitions"))
            for _ in range((yield from self._count())):
                yield from self._step(skipper(shape.partition, version, before="records"))
                yield from self._records((yield from self._count()))
                yield from self._step(skipper(shape.partition, version, after="records"))
            yield from self._step(skipper(shape.topic, version, after="partitions"))

    def _step(self, step: Step) -> Needs:
        """Take one step, which is taken again from its start when more bytes have come."""
        while True:
            try:
                self._at = step(self._data, self._at)
            except TruncatedError:
                yield None
            else:
                return self._at

    def _count(self) -> Needs:
        """A compact length: null and empty are both 0."""
        while True:
            try:
                value, self._at = read_uvarint(self._data, self._at)
            except IndexError:
                yield None
            else:
                return max(value - 1, 0)

    def _records(self, size: int) -> Iterator[None]:
        self.skip = size
        while (left := len(self._data) - self._at) < self.skip:
            self.skip -= left
            self._at += left
            yield None
        self._at += self.skip
        self.skip = 0


def _header(data: bytes, at: int) -> int:
    if len(data) < at + HEADER:
        raise TruncatedError("a response ends in its header")
    return read_tags(data, at + HEADER)[1]


class _Tail:
    """The end of a response, from NodeEndpoints on."""

    def __init__(self, shape: Shape, version: int, told: Callable[[Nodes], Nodes]) -> None:
        self._tag = shape.tag
        self._told = told
        self._read = field_reader(shape.response, "node_endpoints", version)
        self._write = field_writer(shape.response, "node_endpoints", version)

    def fitted(self, tail: bytes) -> bytes:
        """The tail with the sidecar's addresses, or with none where these do not fit; as long as before."""
        nodes, tags = self._parse(tail)
        if not nodes:
            return tail
        told = self._built(self._told(nodes), tags)
        if told == tail:
            return tail
        room = len(tail) - len(told)
        if room and room < SMALLEST_PAD:
            told, nodes = self._built((), tags), ()
            room = len(tail) - len(told)
        fitted = self._built(self._told(nodes), tags, room)
        if len(fitted) != len(tail):
            raise CodecError("the end of a response cannot be rewritten in its length")
        return fitted

    def _parse(self, tail: bytes) -> tuple[Nodes, list[tuple[int, bytes]]]:
        at = 0
        nodes: Nodes = ()
        if self._tag is None:
            nodes, at = self._read(tail, 0)
        tags, end = read_tags(tail, at)
        if end != len(tail):
            raise CodecError(f"{len(tail) - end} bytes behind the last field of a response")
        for tag, payload in tags:
            if tag == self._tag:
                nodes, _ = self._read(payload, 0)
        return nodes, [(tag, payload) for tag, payload in tags if tag != self._tag]

    def _built(self, nodes: Nodes, tags: list[tuple[int, bytes]], room: int = 0) -> bytes:
        padded = [*tags, *padding(room, {tag for tag, _ in tags})]
        if self._tag is None:
            return self._write(nodes) + write_tags(padded)
        return write_tags(sorted([(self._tag, self._write(nodes)), *padded]) if nodes else padded)


def padding(room: int, used: set[int]) -> list[tuple[int, bytes]]:
    """Unknown tagged fields, none numbered as in ``used``, that take ``room`` bytes in all: none or at least 2.

    One field nearly always; where its length would need one byte more than there is, a short one goes first.

    >>> [(tag, len(payload)) for tag, payload in padding(129, {100})]
    [(101, 127)]
    >>> [(tag, len(payload)) for tag, payload in padding(130, set())]
    [(100, 1), (101, 125)]
    """
    if not room:
        return []
    tag = next(number for number in range(FIRST_PAD_TAG, FIRST_LONG_TAG) if number not in used)
    for length_bytes in range(1, MAX_UVARINT_BYTES):
        payload = room - 1 - length_bytes
        if payload >= 0 and len(write_uvarint(payload)) == length_bytes:
            return [(tag, bytes(payload))]
    return [(tag, bytes(1)), *padding(room - 3, used | {tag})]
