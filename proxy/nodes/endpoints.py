"""Where responses name brokers, and how each such place is found, read and written.

A broker is named in a list of structs with a node id, a host and a port: a field of the response, or (KIP-951) a tagged
field at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.message import (
    TAGS,
    field_reader,
    field_writer,
    read_tags,
    replace_fields,
    skipper,
    span,
    write_tags,
)
from kafka_sidecar.codec.messages.describe_cluster import DescribeClusterResponse
from kafka_sidecar.codec.messages.describe_quorum import DescribeQuorumResponse
from kafka_sidecar.codec.messages.fetch import FetchResponse
from kafka_sidecar.codec.messages.find_coordinator import FindCoordinatorResponse
from kafka_sidecar.codec.messages.metadata import MetadataResponse
from kafka_sidecar.codec.messages.produce import ProduceResponse
from kafka_sidecar.codec.messages.share_acknowledge import ShareAcknowledgeResponse
from kafka_sidecar.codec.messages.share_fetch import ShareFetchResponse

# The structs of a list of brokers.
Nodes = tuple[Any, ...]
# (node id, host, port as a broker names them) -> host, port that the client is told. May open a listener.
Local = Callable[[int, str, int], tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the responses of one API name brokers."""

    message: type[Any]
    field: str
    node_id: str = "node_id"
    tag: int | None = None  # the list is this tagged field
    since: int = 0  # earlier versions name none


PLACES: dict[int, Place] = {
    ApiKey.METADATA: Place(MetadataResponse, "brokers"),
    ApiKey.FIND_COORDINATOR: Place(FindCoordinatorResponse, "coordinators", since=4),
    ApiKey.DESCRIBE_CLUSTER: Place(DescribeClusterResponse, "brokers", node_id="broker_id"),
    # KIP-951: who leads now, told with the error that says that the asked one does not.
    ApiKey.PRODUCE: Place(ProduceResponse, "node_endpoints", tag=0, since=10),
    ApiKey.FETCH: Place(FetchResponse, "node_endpoints", tag=0, since=16),
    ApiKey.SHARE_FETCH: Place(ShareFetchResponse, "node_endpoints"),
    ApiKey.SHARE_ACKNOWLEDGE: Place(ShareAcknowledgeResponse, "node_endpoints"),
    # KIP-853: where the controllers listen. They have no listener here, so the client is told of none.
    ApiKey.DESCRIBE_QUORUM: Place(DescribeQuorumResponse, "nodes", since=2),
}


class Listed:
    """Brokers in a field of the response."""

    empty = 1  # first byte of an empty list in a flexible version: its length plus one

    def __init__(self, place: Place, version: int) -> None:
        self.find = span(place.message, place.field, version)  # (data, start of body) -> start, end of the list
        self.before = skipper(place.message, version, before=place.field)  # (data, start of body) -> start
        self._read = field_reader(place.message, place.field, version)
        self._write = field_writer(place.message, place.field, version)

    def edited(self, data: bytes, start: int, told: Callable[[Nodes], Nodes]) -> bytes:
        """What stands in place of the list at data[start]."""
        return self._write(told(self._read(data, start)[0]))


class Tagged:
    """Brokers in a tagged field at the end of the response; other tags stay."""

    empty = 0  # first byte of a section without tags: their number

    def __init__(self, place: Place, version: int) -> None:
        self.find = span(place.message, TAGS, version)
        self.before = skipper(place.message, version, before=TAGS)
        self._tag = place.tag
        self._read = field_reader(place.message, place.field, version)
        self._write = field_writer(place.message, place.field, version)

    def edited(self, data: bytes, start: int, told: Callable[[Nodes], Nodes]) -> bytes:
        """What stands in place of the tag section at data[start]."""
        tags, _ = read_tags(data, start)
        return write_tags(
            [
                (tag, self._write(told(self._read(payload, 0)[0])) if tag == self._tag else payload)
                for tag, payload in tags
            ]
        )


def nodes_of(key: int, version: int) -> Listed | Tagged | None:
    """How the brokers in a response of (api, version) are found and edited; None: it names none in this form."""
    place = PLACES.get(key)
    if place is None or version < place.since:
        return None
    return Listed(place, version) if place.tag is None else Tagged(place, version)


def teller(key: int, local: Local) -> Callable[[Nodes], Nodes]:
    """A function from the structs that a broker sent to those that the client is told."""
    if key == ApiKey.DESCRIBE_QUORUM:
        return lambda nodes: tuple(replace_fields(node, listeners=()) for node in nodes)
    node_id = PLACES[key].node_id

    def told(nodes: Nodes) -> Nodes:
        return tuple(tell(node, getattr(node, node_id), local) for node in nodes)

    return told


def tell(node: Any, node_id: int, local: Local) -> Any:
    """The struct with the sidecar's host and port. One without a host (none was found) stays as it is."""
    if node_id < 0 or not node.host:
        return node
    host, port = local(node_id, node.host, node.port)
    return replace_fields(node, host=host, port=port)
