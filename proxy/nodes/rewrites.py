"""Rewrites of responses: broker addresses become the sidecar's own (design D5), ApiVersions is reduced to the versions
that the sidecar relays (D4). One field is decoded and replaced; every other byte of the frame is kept (D1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct

from kafka_sidecar.codec.apis import ApiKey, ErrorCode, response_header_version
from kafka_sidecar.codec.envelope import encode_response, replace_span
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Message, decode, encode, read_tags, replace_fields
from kafka_sidecar.codec.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafka_sidecar.codec.messages.fetch import FetchResponse
from kafka_sidecar.codec.messages.find_coordinator import FindCoordinatorResponse
from kafka_sidecar.codec.messages.produce import ProduceResponse
from kafka_sidecar.codec.response_tags import tags_finder
from kafka_sidecar.codec.wire import LENGTH
from kafka_sidecar.proxy.nodes.endpoint_stream import endpoint_streams
from kafka_sidecar.proxy.nodes.endpoints import Local, brokers_field, nodes_rewriter, rewrite_node
from kafka_sidecar.proxy.relay.exchange import RouteError
from kafka_sidecar.proxy.relay.routes import NEWEST_API_VERSIONS, Rewrite, versions

# A response frame: length int32 | correlation id int32 | [tags] | body
HEADER = 8
STREAMED = (ApiKey.FETCH, ApiKey.SHARE_FETCH)
# Whose brokers are a tagged field.
ENDS_WITH_TAGS: dict[int, type[Message]] = {ApiKey.PRODUCE: ProduceResponse, ApiKey.FETCH: FetchResponse}
CORRELATION_ID = Struct(">i")


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

    def __init__(self, local: Local, learn: Callable[[bytes, int, int], None]) -> None:
        self._local = local
        self._learn = learn  # called for each Metadata response with its frame, start of its body, version

    def response(self, key: int, version: int) -> Rewrite | None:
        """The rewrite of responses of one (api, version); None: they are relayed unchanged."""
        if key == ApiKey.API_VERSIONS:
            return Rewrite(partial(reduce_versions, version))
        field = brokers_field(key, version)
        if field is None:
            single = key == ApiKey.FIND_COORDINATOR
            return Rewrite(partial(self._rewrite_coordinator, version)) if single else None
        body = body_of(key, version)
        rewrite_nodes = nodes_rewriter(key, self._local)
        before, empty = field.before, field.empty

        def rewrite(frame: bytes) -> bytes:
            at = body(frame, 0)
            if key == ApiKey.METADATA:
                self._learn(frame, at, version)
            start, end = field.find(frame, at)
            return replace_span(frame, start, end, field.edit(frame, start, rewrite_nodes))

        def has_brokers(data: bytes, start: int, end: int) -> bool:
            at = before(data, body(data, start))
            if at >= end:
                raise CodecError("a response is shorter than its fields")
            return data[at] > empty

        wanted, stream = None, None
        if (message := ENDS_WITH_TAGS.get(key)) is not None:
            wanted = tags_finder(message, version)
        if key in STREAMED:
            wanted = wanted or has_brokers
            stream = endpoint_streams(key, version, rewrite_nodes)
        return Rewrite(rewrite, wanted, stream)

    def _rewrite_coordinator(self, version: int, frame: bytes) -> bytes:
        """FindCoordinator before v4: the response itself is the broker."""
        at = body_of(ApiKey.FIND_COORDINATOR, version)(frame, 0)
        response, end = decode(FindCoordinatorResponse, frame, version, at)
        return replace_span(frame, at, end, encode(rewrite_node(response, response.node_id, self._local), version))


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
