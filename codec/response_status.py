"""The throttle time and the error code at the beginning of responses, of APIs that have them there; tags at the end.

The errors of single topics and partitions are further inside, and so is the throttle time of Produce.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafka_sidecar.codec.apis import ApiKey, response_header_version
from kafka_sidecar.codec.cursor import ends_with_tags
from kafka_sidecar.codec.message import TAGS, Message, plan

MAX_STATUS_BYTES = 7  # the header's tag section, which is empty, and both fields

# What a response begins with, from a version on: T the throttle time (int32), E the error code (int16).
_STARTS: dict[str, tuple[ApiKey, ...]] = {
    "0:E": (ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE, ApiKey.DESCRIBE_QUORUM),
    "0:E 1:TE": (ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, ApiKey.LIST_GROUPS),
    "0:E 1:TE 4:T": (ApiKey.FIND_COORDINATOR,),
    "0:E 2:TE": (ApiKey.JOIN_GROUP,),
    "0:ET": (ApiKey.OFFSET_DELETE,),
    "0:T": (
        ApiKey.DELETE_RECORDS, ApiKey.TXN_OFFSET_COMMIT, ApiKey.ALTER_CONFIGS, ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_GROUPS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ),
    "0:T 1:TE": (ApiKey.ELECT_LEADERS,),
    "0:T 4:TE": (ApiKey.ADD_PARTITIONS_TO_TXN,),
    "0:TE": (
        ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.UPDATE_FEATURES,
        ApiKey.DESCRIBE_CLUSTER, ApiKey.UNREGISTER_BROKER, ApiKey.LIST_TRANSACTIONS, ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS, ApiKey.LIST_CONFIG_RESOURCES, ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER, ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    ),
    "0:TE 1:T": (ApiKey.ALTER_PARTITION_REASSIGNMENTS,),
    "1:E": (
        ApiKey.SASL_HANDSHAKE, ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ),
    "1:T": (
        ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.SHARE_GROUP_DESCRIBE,
    ),
    "1:T 3:TE": (ApiKey.DESCRIBE_LOG_DIRS,),
    "1:TE": (ApiKey.DESCRIBE_ACLS, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE),
    "2:T": (ApiKey.LIST_OFFSETS, ApiKey.CREATE_TOPICS, ApiKey.OFFSET_FOR_LEADER_EPOCH),
    "2:TE": (ApiKey.ALTER_PARTITION,),
    "3:T": (ApiKey.METADATA, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH),
    "4:T 7:TE": (ApiKey.FETCH,),
}  # fmt: skip
_START_OF = {int(key): text for text, keys in _STARTS.items() for key in keys}
_SIZES = {"T": 4, "E": 2}


@dataclass(frozen=True, slots=True)
class Status:
    """What a response says at its beginning; None: nothing there."""

    throttle_ms: int | None = None
    error_code: int | None = None


UNKNOWN = Status()


def status_fields(key: int, version: int) -> str:
    """The fields that responses of this version begin with: T, E, both in their order, or none.

    >>> status_fields(ApiKey.FETCH, 12), status_fields(ApiKey.PRODUCE, 9)
    ('TE', '')
    """
    fields = ""
    for part in _START_OF.get(key, "").split():
        since, _, later = part.partition(":")
        fields = later if version >= int(since) else fields
    return fields


def read_status(key: int, version: int, start: bytes) -> Status:
    """The status of a response whose bytes after the correlation id are ``start``, as far as these have it."""
    at = 0
    if response_header_version(key, version):
        if start[:1] != b"\0":  # tagged fields, or cut off
            return UNKNOWN
        at = 1
    values: dict[str, int] = {}
    for field in status_fields(key, version):
        end = at + _SIZES[field]
        if len(start) < end:
            break
        values[field] = int.from_bytes(start[at:end], "big", signed=True)
        at = end
    return Status(values.get("T"), values.get("E"))


def tags_finder(message: type[Message], version: int) -> Callable[[bytes, int, int], bool]:
    """The function ``(data, at, end) -> has tags`` for a response data[at:end], which begins with its length.

    It raises CodecError if these bytes are no such response, and is for flexible versions.
    """
    fields = plan(message, version, before=TAGS)
    return lambda data, at, end: ends_with_tags(data, at, end, fields)
