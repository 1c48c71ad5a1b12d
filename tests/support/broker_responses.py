"""Responses of every API that names brokers, in all versions, and what a client must get instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from kio.index import UnknownEntity, load_response_schema

from kafka_sidecar.codec.apis import ApiKey
from support import oracle
from support.dialogue import FIRST_PORT, HOST

DOMAIN = b".internal"
TOPIC_ID = bytes(range(16))


def broker(node_id: int, **more: Any) -> dict[str, Any]:
    """A broker with its own address, under every name that its fields have in some API."""
    where = {"host": f"broker-{node_id}.internal", "port": 9000 + node_id}
    return {"node_id": node_id, "broker_id": node_id, **where, **more}


NODES = [broker(7, rack="eu-west-1a"), broker(8), broker(12)]

_LEADER = {"leader_id": 7, "leader_epoch": 4}
_METADATA_TOPIC = {
    "name": "orders",
    "topic_id": TOPIC_ID,
    "topic_authorized_operations": 8,
    "partitions": [
        {"partition_index": n, "leader_id": 7, "leader_epoch": 3, "replica_nodes": [7, 8], "isr_nodes": [7]}
        for n in range(3)
    ],
}
_PRODUCED = {
    "name": "orders", "topic_id": TOPIC_ID,
    "partition_responses": [
        {"index": 0, "error_code": 6, "base_offset": -1, "current_leader": _LEADER},
        {"index": 1, "error_code": 87, "error_message": "no", "record_errors": [
            {"batch_index": 3, "batch_index_error_message": "too big"}]},
    ],
}  # fmt: skip
_FETCHED = {
    "topic": "orders", "topic_id": TOPIC_ID,
    "partitions": [
        {"partition_index": 0, "records": b"\x01records\xff" * 100, "high_watermark": 5, "current_leader": _LEADER,
         "aborted_transactions": [{"producer_id": 9, "first_offset": 2}], "diverging_epoch": {"epoch": 1}},
        {"partition_index": 1, "error_code": 6, "records": None, "aborted_transactions": None},
        {"partition_index": 2, "records": b"", "preferred_read_replica": 8, "snapshot_id": {"end_offset": 1}},
    ],
}  # fmt: skip
_SHARED = {
    "topic_id": TOPIC_ID,
    "partitions": [
        {"partition_index": 0, "records": b"\x00batch" * 50, "error_message": "moved", "current_leader": _LEADER,
         "acquired_records": [{"first_offset": 1, "last_offset": 4, "delivery_count": 1}]},
        {"partition_index": 1, "error_code": 6, "records": b""},
    ],
}  # fmt: skip
CONTENTS: dict[ApiKey, dict[str, Any]] = {
    ApiKey.METADATA: {
        "brokers": NODES, "topics": [_METADATA_TOPIC], "cluster_id": "cluster", "controller_id": 8, "error_code": 0
    },
    ApiKey.FIND_COORDINATOR: {
        **NODES[1], "coordinators": [{"key": "a", **NODES[0]}, {"key": "b", "error_message": "late", **NODES[1]}]
    },
    ApiKey.DESCRIBE_CLUSTER: {"brokers": NODES, "cluster_id": "cluster", "controller_id": 8},
    ApiKey.PRODUCE: {"responses": [_PRODUCED], "node_endpoints": NODES},
    ApiKey.FETCH: {"responses": [_FETCHED, _FETCHED], "node_endpoints": NODES, "session_id": 3},
    ApiKey.SHARE_FETCH: {"responses": [_SHARED], "node_endpoints": NODES, "error_message": "none"},
    ApiKey.SHARE_ACKNOWLEDGE: {"responses": [_SHARED], "node_endpoints": NODES, "error_message": None},
}  # fmt: skip
# The first version that names brokers.
SINCE = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 16}


def _known_to_kio(key: int) -> Iterator[int]:
    for version in range(30):
        try:
            load_response_schema(key, version)
        except UnknownEntity:
            continue
        yield version


PAIRS = [(key, version) for key in CONTENTS for version in _known_to_kio(key)]
NAMING = [(key, version) for key, version in PAIRS if version >= SINCE.get(key, 0)]


def named(key: ApiKey, version: int, **values: Any) -> Any:
    """kio's response with all of the contents above, or with ``values`` in their place."""
    return oracle.response(key, version, **(CONTENTS[key] | values))


def asked(key: ApiKey, version: int, correlation_id: int = 1) -> bytes:
    """A request for this response."""
    acks = {"acks": 1} if key == ApiKey.PRODUCE else {}
    return oracle.request_frame(oracle.request(key, version, **acks), correlation_id)


def as_rewritten(value: Any, host: str = HOST, first_port: int = FIRST_PORT) -> Any:
    """kio's message with every broker's address replaced by the one that `Dialogue` gives it."""
    if isinstance(value, tuple):
        return tuple(as_rewritten(item, host, first_port) for item in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {field.name: as_rewritten(getattr(value, field.name), host, first_port) for field in fields(value)}
    if changed.get("host"):
        node_id = changed["node_id"] if "node_id" in changed else changed["broker_id"]
        changed |= {"host": host, "port": first_port + node_id} if node_id >= 0 else {}
    return replace(value, **changed)
