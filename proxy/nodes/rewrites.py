"""Rewrites of responses: broker addresses become the sidecar's own (design D5), ApiVersions is reduced to the versions
that the sidecar relays (D4). One field is decoded and replaced; every other byte of the frame is kept (D1).

Brokers are a list of structs with node id, host and port: a field of the response, or (KIP-951) a tagged field at its
end.

In Fetch and ShareFetch responses it comes megabytes after a length prefix that was forwarded long before. So everything
up to that tail is forwarded as it arrives, only the tail is buffered, and its replacement has the same length: the rest
is filled with unknown tagged fields, which every reader skips (KIP-482). If the sidecar's addresses do not fit,
NodeEndpoints are removed: the client then requests metadata, as it did before KIP-951.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from kafka_sidecar.codec.apis import ApiKey, ErrorCode, response_header_version
from kafka_sidecar.codec.envelope import encode_response, replace_span, spliced
from kafka_sidecar.codec.errors import CodecError, TruncatedError
from kafka_sidecar.codec.fetch_counts import FetchWalk, ShareFetchWalk
from kafka_sidecar.codec.fetch_positions import Offsets
from kafka_sidecar.codec.message import (
    TAGS,
    Message,
    decode,
    encode,
    field_reader,
    field_writer,
    read_tags,
    replace_fields,
    skipper,
    span,
    write_tags,
)
from kafka_sidecar.codec.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafka_sidecar.codec.messages.describe_cluster import DescribeClusterResponse
from kafka_sidecar.codec.messages.describe_quorum import DescribeQuorumResponse
from kafka_sidecar.codec.messages.fetch import FetchResponse
from kafka_sidecar.codec.messages.find_coordinator import FindCoordinatorResponse
from kafka_sidecar.codec.messages.metadata import MetadataResponse
from kafka_sidecar.codec.messages.produce import ProduceResponse
from kafka_sidecar.codec.messages.share_acknowledge import ShareAcknowledgeResponse
from kafka_sidecar.codec.messages.share_fetch import ShareFetchResponse
from kafka_sidecar.codec.pieces import Pieces, in_pieces
from kafka_sidecar.codec.response_status import tags_finder
from kafka_sidecar.codec.wire import MAX_UVARINT_BYTES, write_uvarint
from kafka_sidecar.plugins.effects import Steps, Work
from kafka_sidecar.proxy.nodes.topic_names import learnt
from kafka_sidecar.proxy.relay.exchange import RouteError
from kafka_sidecar.proxy.relay.routes import NEWEST_API_VERSIONS, Rewrite, versions

# The structs of such a list.
Nodes = tuple[Any, ...]
# (node id, host, port of a broker) -> the sidecar's host and port for it. May open a listener.
Local = Callable[[int, str, int], tuple[str, int]]


@dataclass(frozen=True, slots=True)
class BrokersField:
    """The field of one API's responses that has brokers."""

    message: type[Any]
    field: str
    node_id: str = "node_id"
    tag: int | None = None  # the list is this tagged field
    since: int = 0  # earlier versions do not have it


BROKERS_FIELDS: dict[int, BrokersField] = {
    ApiKey.METADATA: BrokersField(MetadataResponse, "brokers"),
    ApiKey.FIND_COORDINATOR: BrokersField(FindCoordinatorResponse, "coordinators", since=4),
    ApiKey.DESCRIBE_CLUSTER: BrokersField(DescribeClusterResponse, "brokers", node_id="broker_id"),
    # KIP-951: the current leaders, beside the error NOT_LEADER_OR_FOLLOWER.
    ApiKey.PRODUCE: BrokersField(ProduceResponse, "node_endpoints", tag=0, since=10),
    ApiKey.FETCH: BrokersField(FetchResponse, "node_endpoints", tag=0, since=16),
    ApiKey.SHARE_FETCH: BrokersField(ShareFetchResponse, "node_endpoints"),
    ApiKey.SHARE_ACKNOWLEDGE: BrokersField(ShareAcknowledgeResponse, "node_endpoints"),
    # KIP-853: the listeners of controllers. The sidecar has no listener for them, so they are removed.
    ApiKey.DESCRIBE_QUORUM: BrokersField(DescribeQuorumResponse, "nodes", since=2),
}


class OrdinaryField:
    """Brokers in an ordinary field of the response."""

    empty = 1  # first byte of an empty list in a flexible version: its length plus one

    def __init__(self, field: BrokersField, version: int) -> None:
        self.find = span(field.message, field.field, version)  # (data, start of body) -> start, end of the list
        self.before = skipper(field.message, version, before=field.field)  # (data, start of body) -> start
        self._read = field_reader(field.message, field.field, version)
        self._write = field_writer(field.message, field.field, version)

    def edit(self, data: bytes, start: int, rewrite: Callable[[Nodes], Nodes]) -> bytes:
        """The bytes that replace the list at data[start]."""
        return self._write(rewrite(self._read(data, start)[0]))


class TaggedField:
    """Brokers in a tagged field at the end of the response; other tagged fields are kept."""

    empty = 0  # first byte of a section without tags: their number

    def __init__(self, field: BrokersField, version: int) -> None:
        self.find = span(field.message, TAGS, version)
        self.before = skipper(field.message, version, before=TAGS)
        self._tag = field.tag
        self._read = field_reader(field.message, field.field, version)
        self._write = field_writer(field.message, field.field, version)

    def edit(self, data: bytes, start: int, rewrite: Callable[[Nodes], Nodes]) -> bytes:
        """The bytes that replace the tag section at data[start]."""
        tags, _ = read_tags(data, start)
        return write_tags(
            [
                (tag, self._write(rewrite(self._read(payload, 0)[0])) if tag == self._tag else payload)
                for tag, payload in tags
            ]
        )


def brokers_field(key: int, version: int) -> OrdinaryField | TaggedField | None:
    """The field of a response of (api, version) that has brokers; None: it has no such field."""
    field = BROKERS_FIELDS.get(key)
    if field is None or version < field.since:
        return None
    return OrdinaryField(field, version) if field.tag is None else TaggedField(field, version)


def nodes_rewriter(key: int, local: Local) -> Callable[[Nodes], Nodes]:
    """A function that replaces the addresses in the structs of a list of brokers."""
    if key == ApiKey.DESCRIBE_QUORUM:
        return lambda nodes: tuple(replace_fields(node, listeners=()) for node in nodes)
    node_id = BROKERS_FIELDS[key].node_id

    def rewrite(nodes: Nodes) -> Nodes:
        return tuple(rewrite_node(node, getattr(node, node_id), local) for node in nodes)

    return rewrite


def rewrite_node(node: Any, node_id: int, local: Local) -> Any:
    """The struct with the sidecar's host and port; unchanged without a host, as if no coordinator was found."""
    if node_id < 0 or not node.host:
        return node
    host, port = local(node_id, node.host, node.port)
    return replace_fields(node, host=host, port=port)


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


STREAMED_RESPONSES: dict[int, StreamedResponse] = {
    ApiKey.FETCH: StreamedResponse(FetchResponse, lambda version: FetchWalk(version, ANY_OFFSETS), 0, b"\x00"),
    ApiKey.SHARE_FETCH: StreamedResponse(ShareFetchResponse, ShareFetchWalk, None, b"\x01\x00"),
}


def endpoint_streams(key: int, version: int, rewrite_nodes: Callable[[Nodes], Nodes]) -> Callable[[], EndpointStream]:
    """What creates the rewrite of one response of this API and version."""
    response = STREAMED_RESPONSES[key]
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


# A response frame: length int32 | correlation id int32 | [tags] | body
HEADER = 8
# Whose brokers are a tagged field.
ENDS_WITH_TAGS: dict[int, type[Message]] = {ApiKey.PRODUCE: ProduceResponse, ApiKey.FETCH: FetchResponse}
NO_ADDRESS = "", 0


def body_of(key: int, version: int) -> Callable[[bytes, int], int]:
    """A function (data, start of a response frame) -> start of its body."""
    if response_header_version(key, version) == 0:
        return lambda data, start: start + HEADER
    return _after_tags


def _after_tags(data: bytes, start: int) -> int:
    try:
        return start + HEADER + 1 if not data[start + HEADER] else read_tags(data, start + HEADER)[1]
    except IndexError:
        raise CodecError("a response ends in its header") from None


class Rewrites:
    """The rewrites of one process; `response` is called once per (api, version)."""

    def __init__(self, local: Local, learn: Callable[[list[tuple[bytes, str]]], None]) -> None:
        self._local = local
        self._learn = learn  # called with the topics of each Metadata response

    def response(self, key: int, version: int) -> Rewrite | None:
        """The rewrite of responses of one (api, version); None: they are relayed unchanged."""
        if key == ApiKey.API_VERSIONS:
            return Rewrite(partial(reduce_versions, version))
        field = brokers_field(key, version)
        if field is None:
            single = key == ApiKey.FIND_COORDINATOR
            return Rewrite(partial(self._rewrite_coordinator, version)) if single else None
        edit = BrokersEdit(key, version, field, self._local, self._learn)
        wanted, stream = None, None
        if (message := ENDS_WITH_TAGS.get(key)) is not None:
            wanted = tags_finder(message, version)
        if key in STREAMED_RESPONSES:
            wanted = wanted or edit.is_wanted
            stream = endpoint_streams(key, version, nodes_rewriter(key, self._local))
        return Rewrite(edit.apply, edit.steps, wanted, stream)

    def _rewrite_coordinator(self, version: int, frame: bytes) -> bytes:
        """FindCoordinator before v4: the response itself is the broker."""
        at = body_of(ApiKey.FIND_COORDINATOR, version)(frame, 0)
        response, end = decode(FindCoordinatorResponse, frame, version, at)
        return replace_span(frame, at, end, encode(rewrite_node(response, response.node_id, self._local), version))


class BrokersEdit:
    """The edit of responses of one (api, version) that have brokers."""

    __slots__ = ("_body", "_field", "_key", "_learn", "_local", "_version")

    def __init__(
        self,
        key: int,
        version: int,
        field: OrdinaryField | TaggedField,
        local: Local,
        learn: Callable[[list[tuple[bytes, str]]], None],
    ) -> None:
        self._key = key
        self._version = version
        self._field = field
        self._local = local
        self._learn = learn
        self._body = body_of(key, version)

    def apply(self, frame: bytes) -> bytes:
        """The frame with the sidecar's addresses."""
        if self._key == ApiKey.METADATA:
            self._learn(self._topics(frame))
        return replace_span(frame, *self._new(frame, self._local))

    def steps(self, frame: bytes) -> Steps[bytes | Pieces]:
        """The same of a long one, which may name very many brokers: 10,000 coordinators, if a client asks for them."""
        if self._key == ApiKey.METADATA:
            self._learn((yield Work(partial(self._topics, frame), is_light=True)))
        brokers: dict[tuple[int, str, int], tuple[str, int]] = {}
        yield Work(partial(self._new, frame, lambda *broker: brokers.setdefault(broker, NO_ADDRESS)), is_light=True)
        for broker in brokers:
            brokers[broker] = self._local(*broker)  # not in a thread: it may open a listener
        new = yield Work(partial(self._new, frame, lambda *broker: brokers[broker]), is_light=True)
        return in_pieces(spliced(frame, [new]))

    def _topics(self, frame: bytes) -> list[tuple[bytes, str]]:
        return learnt(frame, self._body(frame, 0), self._version)

    def _new(self, frame: bytes, local: Local) -> tuple[int, int, bytes]:
        """Start and end of the field, and what is in its place."""
        start, end = self._field.find(frame, self._body(frame, 0))
        return start, end, self._field.edit(frame, start, nodes_rewriter(self._key, local))

    def is_wanted(self, data: bytes, start: int, end: int) -> bool:
        """Whether the response data[start:end] names a broker."""
        at = self._field.before(data, self._body(data, start))
        if at >= end:
            raise CodecError("a response is shorter than its fields")
        return data[at] > self._field.empty


def reduce_versions(version: int, frame: bytes) -> bytes:
    """An ApiVersions response with only the APIs and versions that are relayed. Its header never has tags."""
    error = int.from_bytes(frame[HEADER : HEADER + 2], "big", signed=True)
    # A broker that does not support the requested version responds in version 0, without a list of APIs (KIP-511).
    if error == ErrorCode.UNSUPPORTED_VERSION:
        return frame
    response, end = decode(ApiVersionsResponse, frame, version, HEADER)
    return replace_span(
        frame, HEADER, end, encode(replace_fields(response, api_keys=served_by_both(response.api_keys)), version)
    )


def own_versions(offered: ApiVersionsResponse | None, version: int, correlation_id: int) -> bytes:
    """The sidecar's own response to ApiVersions, from what a broker has responded before. Raises RouteError."""
    if (newer := local_response(ApiKey.API_VERSIONS, version)) is not None:
        return newer(correlation_id)
    if offered is None:
        raise RouteError("broker_unreachable", "no broker has responded yet, so the versions to offer are not known")
    both = replace_fields(offered, api_keys=served_by_both(offered.api_keys))
    return encode_response(both, version, correlation_id)


def served_by_both(offered: tuple[ApiVersion, ...]) -> tuple[ApiVersion, ...]:
    """The APIs and versions that both the broker and the sidecar support, in the broker's order."""
    both: list[ApiVersion] = []
    for api in offered:
        served = versions(api.api_key)
        if served is not None:
            oldest, newest = max(api.min_version, served[0]), min(api.max_version, served[1])
            if oldest <= newest:
                both.append(replace_fields(api, min_version=oldest, max_version=newest))
    return tuple(both)


def local_response(key: int, version: int) -> Callable[[int], bytes] | None:
    """The sidecar's own response to an ApiVersions request of a version newer than it relays, by correlation id:
    the versions that it relays, in version 0 (KIP-511). None for all other requests."""
    if key != ApiKey.API_VERSIONS or version <= NEWEST_API_VERSIONS:
        return None
    oldest, newest = versions(ApiKey.API_VERSIONS) or (0, NEWEST_API_VERSIONS)
    known = (ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=oldest, max_version=newest),)
    return partial(encode_response, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=known), 0)
