"""Rewrites of responses: broker addresses become the sidecar's own (design D5), ApiVersions is reduced to the versions
that the sidecar relays (D4). One field is decoded and replaced; every other byte of the frame is kept (D1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct

from kafka_sidecar.codec.apis import ApiKey, ErrorCode, response_header_version
from kafka_sidecar.codec.envelope import encode_response, replace_span, spliced
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Message, decode, encode, read_tags, replace_fields
from kafka_sidecar.codec.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafka_sidecar.codec.messages.fetch import FetchResponse
from kafka_sidecar.codec.messages.find_coordinator import FindCoordinatorResponse
from kafka_sidecar.codec.messages.produce import ProduceResponse
from kafka_sidecar.codec.pieces import Pieces, in_pieces
from kafka_sidecar.codec.response_tags import tags_finder
from kafka_sidecar.codec.wire import LENGTH
from kafka_sidecar.plugins.effects import Steps, Work
from kafka_sidecar.proxy.nodes.endpoints import (
    Local,
    OrdinaryField,
    TaggedField,
    brokers_field,
    endpoint_streams,
    nodes_rewriter,
    rewrite_node,
)
from kafka_sidecar.proxy.nodes.topic_names import learnt
from kafka_sidecar.proxy.relay.exchange import RouteError
from kafka_sidecar.proxy.relay.routes import NEWEST_API_VERSIONS, Rewrite, versions

# A response frame: length int32 | correlation id int32 | [tags] | body
HEADER = 8
STREAMED = (ApiKey.FETCH, ApiKey.SHARE_FETCH)
# Whose brokers are a tagged field.
ENDS_WITH_TAGS: dict[int, type[Message]] = {ApiKey.PRODUCE: ProduceResponse, ApiKey.FETCH: FetchResponse}
CORRELATION_ID = Struct(">i")
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
        if key in STREAMED:
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
    body = encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=known), 0)
    return lambda correlation_id: LENGTH.pack(4 + len(body)) + CORRELATION_ID.pack(correlation_id) + body
