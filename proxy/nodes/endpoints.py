"""The fields of responses that have broker addresses, and how each is found and rewritten.

Brokers are a list of structs with node id, host and port: a field of the response, or (KIP-951) a tagged field at its
end.
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
