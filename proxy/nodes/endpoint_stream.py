"""Rewrites broker addresses in Fetch and ShareFetch responses without buffering the records.

NodeEndpoints are the last field of these responses (KIP-951), megabytes after a length prefix that was forwarded long
before. So everything up to that tail is forwarded as it arrives, only the tail is buffered, and its replacement has the
same length: the rest is filled with unknown tagged fields, which every reader skips (KIP-482). If the sidecar's
addresses do not fit, NodeEndpoints are removed: the client then requests metadata, as it did before KIP-951.
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
FIRST_LONG_TAG = 128  # the first whose number takes two bytes
MIN_PAD_BYTES = 2  # a tag's number and its length
MAX_STRUCT_BYTES = 16 << 20  # of a piece between two runs of records, such as a list of aborted transactions


class StreamedResponse(NamedTuple):
    """The structs of a response, its topics, their partitions."""

    message: type[Any]
    topic: type[Any]
    partition: type[Any]
    tag: int | None  # NodeEndpoints are this tagged field; None: the last field before the tags


STREAMED: dict[int, StreamedResponse] = {
    ApiKey.FETCH: StreamedResponse(fetch.FetchResponse, fetch.FetchableTopicResponse, fetch.PartitionData, tag=0),
    ApiKey.SHARE_FETCH: StreamedResponse(
        share_fetch.ShareFetchResponse, share_fetch.ShareFetchableTopicResponse, share_fetch.PartitionData, tag=None
    ),
}

Needs = Generator[None, None, int]  # yields if it needs more bytes; returns its position, or a number that it read
Step = Callable[[bytes, int], int]


class EndpointStream:
    """The rewrite of one such response."""

    buffers = False  # only its end

    def __init__(self, key: int, version: int, rewrite_nodes: Callable[[Nodes], Nodes]) -> None:
        self._tail = _Tail(STREAMED[key], version, rewrite_nodes)
        self._walk: Iterator[None] | None = self._to_tail(STREAMED[key], version)
        self._data = b""  # the chunk that is parsed
        self._at = 0
        self.skip = 0  # bytes of records that are still to come
        self._buffered: list[bytes] = []  # of the tail

    def feed(self, data: bytes, start: int, end: int, last: bool) -> bytes | None:
        """The bytes that replace data[start:end]; those of the tail come with the ``last`` chunk. Raises CodecError."""
        tail_at = start if self._walk is None else self._advance(data, start, end)
        if not last:
            if tail_at == end:
                return None
            self._buffered.append(data[tail_at:end])
            return data[start:tail_at]
        if self._walk is not None or tail_at > end:
            raise TruncatedError("a response ends before its fields do")
        old = b"".join((*self._buffered, data[tail_at:end]))
        new = self._tail.rewrite(old)
        return None if new is old and not self._buffered else data[start:tail_at] + new

    def _advance(self, data: bytes, start: int, end: int) -> int:
        """Parse further; the position in ``data`` where the tail begins, or ``end``."""
        unread = self._data[self._at :]
        if len(unread) > MAX_STRUCT_BYTES:
            raise FrameSizeError(f"{len(unread)} bytes between records without the end of a struct")
        # An incomplete struct is read again from its start. Bytes after records need no copy.
        self._data, self._at = (unread + data[start:end], 0) if unread else (data, start)
        before = start - len(unread) if unread else 0
        try:
            next(cast(Iterator[None], self._walk))
        except StopIteration:
            self._walk = None
            tail_at, self._data = self._at + before, b""
            return tail_at
        return end

    def _to_tail(self, response: StreamedResponse, version: int) -> Iterator[None]:
        """Skip everything before NodeEndpoints; yields whenever more bytes are needed."""
        yield from self._step(_header)
        yield from self._step(skipper(response.message, version, before="responses"))
        for _ in range((yield from self._count())):
            yield from self._step(skipper(response.topic, version, before="partitions"))
            for _ in range((yield from self._count())):
                yield from self._step(skipper(response.partition, version, before="records"))
                yield from self._records((yield from self._count()))
                yield from self._step(skipper(response.partition, version, after="records"))
            yield from self._step(skipper(response.topic, version, after="partitions"))

    def _step(self, step: Step) -> Needs:
        """Skip one struct; after more bytes it is read again from its start."""
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
    """Rewrites the end of a response, from NodeEndpoints on."""

    def __init__(self, response: StreamedResponse, version: int, rewrite_nodes: Callable[[Nodes], Nodes]) -> None:
        self._tag = response.tag
        self._rewrite_nodes = rewrite_nodes
        self._read = field_reader(response.message, "node_endpoints", version)
        self._write = field_writer(response.message, "node_endpoints", version)

    def rewrite(self, tail: bytes) -> bytes:
        """The tail with the sidecar's addresses, or without any if they do not fit; its length stays the same."""
        nodes, tags = self._parse(tail)
        if not nodes:
            return tail
        new = self._build(self._rewrite_nodes(nodes), tags)
        if new == tail:
            return tail
        room = len(tail) - len(new)
        if room and room < MIN_PAD_BYTES:
            nodes = ()
            room = len(tail) - len(self._build(nodes, tags))
        padded = self._build(self._rewrite_nodes(nodes), tags, room)
        if len(padded) != len(tail):
            raise CodecError("the end of a response cannot be rewritten in its length")
        return padded

    def _parse(self, tail: bytes) -> tuple[Nodes, list[tuple[int, bytes]]]:
        at = 0
        nodes: Nodes = ()
        if self._tag is None:
            nodes, at = self._read(tail, 0)
        tags, end = read_tags(tail, at)
        if end != len(tail):
            raise CodecError(f"{len(tail) - end} bytes after the last field of a response")
        for tag, payload in tags:
            if tag == self._tag:
                nodes, _ = self._read(payload, 0)
        return nodes, [(tag, payload) for tag, payload in tags if tag != self._tag]

    def _build(self, nodes: Nodes, tags: list[tuple[int, bytes]], room: int = 0) -> bytes:
        padded = [*tags, *padding(room, {tag for tag, _ in tags})]
        if self._tag is None:
            return self._write(nodes) + write_tags(padded)
        return write_tags(sorted([(self._tag, self._write(nodes)), *padded]) if nodes else padded)


def padding(room: int, used: set[int]) -> list[tuple[int, bytes]]:
    """Unknown tagged fields, with numbers not in ``used``, that take ``room`` bytes in all: 0, or at least 2.

    Nearly always one field; a short one is added before it if its length would need one byte more than there is.

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
