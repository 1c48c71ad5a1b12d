"""Rewrites broker addresses in Fetch and ShareFetch responses without buffering the records.

NodeEndpoints are the last field of these responses (KIP-951), megabytes after a length prefix that was forwarded long
before. So everything up to that tail is forwarded as it arrives, only the tail is buffered, and its replacement has the
same length: the rest is filled with unknown tagged fields, which every reader skips (KIP-482). If the sidecar's
addresses do not fit, NodeEndpoints are removed: the client then requests metadata, as it did before KIP-951.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError, TruncatedError
from kafka_sidecar.codec.fetch_counts import FetchWalk, ShareFetchWalk
from kafka_sidecar.codec.fetch_positions import Offsets
from kafka_sidecar.codec.message import field_reader, field_writer, read_tags, write_tags
from kafka_sidecar.codec.messages.fetch import FetchResponse
from kafka_sidecar.codec.messages.share_fetch import ShareFetchResponse
from kafka_sidecar.codec.wire import MAX_UVARINT_BYTES, write_uvarint
from kafka_sidecar.proxy.nodes.endpoints import Nodes

FIRST_PAD_TAG = 100
FIRST_LONG_TAG = 128  # the first whose number takes two bytes
MIN_PAD_BYTES = 2  # a tag's number and its length
MAX_STRUCT_BYTES = 16 << 20  # of a piece between two runs of records, such as a list of aborted transactions
MAX_TAIL_BYTES = 1 << 20  # NodeEndpoints and tagged fields: thousands of brokers
ANY_OFFSETS = Offsets()


class StreamedResponse(NamedTuple):
    """How a response is read up to its NodeEndpoints, and what is there."""

    message: type[Any]
    walk: Callable[[int], FetchWalk | ShareFetchWalk]  # by version
    tag: int | None  # NodeEndpoints are this tagged field; None: the last field before the tags
    empty: bytes  # the end of a response without NodeEndpoints and tagged fields


STREAMED: dict[int, StreamedResponse] = {
    ApiKey.FETCH: StreamedResponse(FetchResponse, lambda version: FetchWalk(version, ANY_OFFSETS), 0, b"\x00"),
    ApiKey.SHARE_FETCH: StreamedResponse(ShareFetchResponse, ShareFetchWalk, None, b"\x01\x00"),
}


def endpoint_streams(key: int, version: int, rewrite_nodes: Callable[[Nodes], Nodes]) -> Callable[[], EndpointStream]:
    """What creates the rewrite of one response of this API and version."""
    response = STREAMED[key]
    tail = Tail(response, version, rewrite_nodes)
    return lambda: EndpointStream(response.walk(version), tail)


class EndpointStream:
    """The rewrite of one such response."""

    __slots__ = ("_buffered", "_room", "_tail", "_walk", "skip")
    buffers = False  # only its end

    def __init__(self, walk: FetchWalk | ShareFetchWalk, tail: Tail) -> None:
        walk.ignore_batches(MAX_STRUCT_BYTES)
        self._walk = walk
        self._tail = tail
        self.skip = 0  # bytes of records that are still to come
        self._buffered: list[bytes] = []  # of the tail
        self._room = MAX_TAIL_BYTES

    def feed(self, data: bytes, start: int, end: int, last: bool) -> bytes | None:
        """The bytes that replace data[start:end]; those of the tail come with the ``last`` chunk. Raises CodecError."""
        tail_at = self._find_tail(data, start, end)
        if not last:
            if tail_at == end:
                return None
            self._buffer(data[tail_at:end])
            return data[start:tail_at]
        if not self._walk.is_done:
            raise TruncatedError("a response ends before its fields do")
        old = b"".join((*self._buffered, data[tail_at:end]))
        new = self._tail.rewrite(old)
        return None if new is old and not self._buffered else data[start:tail_at] + new

    def _buffer(self, tail: bytes) -> None:
        self._buffered.append(tail)
        self._room -= len(tail)
        if self._room < 0:
            raise CodecError(f"more than {MAX_TAIL_BYTES} bytes at the end of a response")

    def _find_tail(self, data: bytes, start: int, end: int) -> int:
        """Where the tail begins in data[start:end], or ``end``."""
        walk = self._walk
        if walk.is_done:
            return start
        walk.skip = self.skip
        walk.feed(data, start, end)
        self.skip = walk.skip
        return end - walk.left


class Tail:
    """Rewrites the end of a response, from NodeEndpoints on."""

    def __init__(self, response: StreamedResponse, version: int, rewrite_nodes: Callable[[Nodes], Nodes]) -> None:
        self._tag = response.tag
        self._empty = response.empty
        self._rewrite_nodes = rewrite_nodes
        self._read = field_reader(response.message, "node_endpoints", version)
        self._write = field_writer(response.message, "node_endpoints", version)

    def rewrite(self, tail: bytes) -> bytes:
        """The tail with the sidecar's addresses, or without any if they do not fit; its length stays the same."""
        if tail == self._empty:
            return tail
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
