"""What requests of a group's members say of the group and its offsets, without objects for their other fields.

This file runs as it is and compiled (group_requests.pxd holds the C types).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from kafka_sidecar.codec.apis import ApiKey, request_header_version
from kafka_sidecar.codec.message import Message, Struct, first_version, has_field
from kafka_sidecar.codec.messages import offset_commit, txn_offset_commit
from kafka_sidecar.codec.messages.offset_fetch import OffsetFetchRequest

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.cursor import cursor_at
    from kafka_sidecar.codec.fetch_head import open_request
else:
    from cython.cimports.kafka_sidecar.codec.cursor import cursor_at  # type: ignore[no-redef]
    from cython.cimports.kafka_sidecar.codec.fetch_head import open_request  # type: ignore[no-redef]

Partition = tuple[str | bytes, int]  # a topic's name, or in newer versions its id of 16 bytes; the index

_FLEXIBLE_HEADER = 2
_SEVERAL_GROUPS = first_version(OffsetFetchRequest, "groups")


class _Commit(NamedTuple):
    """The structs of an API."""

    request: type[Message]
    topic: type[Struct]
    partition: type[Struct]
    response: type[Message]


COMMITS: dict[int, _Commit] = {
    ApiKey.OFFSET_COMMIT: _Commit(
        offset_commit.OffsetCommitRequest,
        offset_commit.OffsetCommitRequestTopic,
        offset_commit.OffsetCommitRequestPartition,
        offset_commit.OffsetCommitResponse,
    ),
    ApiKey.TXN_OFFSET_COMMIT: _Commit(
        txn_offset_commit.TxnOffsetCommitRequest,
        txn_offset_commit.TxnOffsetCommitRequestTopic,
        txn_offset_commit.TxnOffsetCommitRequestPartition,
        txn_offset_commit.TxnOffsetCommitResponse,
    ),
}


class GroupRequests:
    """Requests of one API and version whose first field is the group."""

    __slots__ = ("_flexible", "_in_array")

    def __init__(self, key: int, version: int) -> None:
        self._flexible = request_header_version(key, version) >= _FLEXIBLE_HEADER
        self._in_array = key == ApiKey.OFFSET_FETCH and version >= _SEVERAL_GROUPS  # KIP-709

    def group(self, data: bytes, at: int, end: int) -> str:
        """The group of the request data[at:end], which begins with its length: the first one, "" if there is none.

        Raises:
            CodecError: these bytes are no such request.
        """
        cursor = open_request(data, at, end, self._flexible)
        if self._in_array and cursor.length(4, False, "groups") == 0:
            return ""
        return cursor.string(False, "group_id") or ""


class CommitRequests:
    """OffsetCommit or TxnOffsetCommit of one version, and its responses."""

    __slots__ = (
        "_after_offset", "_before_member", "_by_id", "_flexible", "_has_instance", "_has_member", "_in_transaction",
        "_retention", "_throttle",
    )  # fmt: skip

    def __init__(self, key: int, version: int) -> None:
        commit = COMMITS[key]
        has = partial(has_field, version=version)
        self._flexible = commit.request.declaration_.is_flexible(version)
        self._by_id = has(commit.topic, "topic_id")
        self._in_transaction = has(commit.request, "transactional_id")
        self._has_member = has(commit.request, "member_id")
        self._has_instance = has(commit.request, "group_instance_id")
        # In bytes.
        producer = 10 if self._in_transaction else 0  # producer_id, producer_epoch
        self._before_member = producer + (4 if has(commit.request, "generation_id_or_member_epoch") else 0)
        self._retention = 8 if has(commit.request, "retention_time_ms") else 0
        timestamp = 8 if has(commit.partition, "commit_timestamp") else 0
        self._after_offset = timestamp + (4 if has(commit.partition, "committed_leader_epoch") else 0)
        self._throttle = 4 if has(commit.response, "throttle_time_ms") else 0

    def read(self, data: bytes, at: int, end: int) -> tuple[str, dict[Partition, int]]:
        """The group of the request data[at:end], which begins with its length, and the offsets.

        Raises:
            CodecError: these bytes are no such request.
        """
        cursor = open_request(data, at, end, self._flexible)
        if self._in_transaction:
            cursor.skip(cursor.length(2, False, "transactional_id"))
        group = cursor.string(False, "group_id")
        cursor.skip(self._before_member)
        if self._has_member:
            cursor.skip(cursor.length(2, False, "member_id"))
        if self._has_instance:
            cursor.skip(cursor.length(2, True, "group_instance_id"))
        cursor.skip(self._retention)
        offsets: dict[Partition, int] = {}
        for _ in range(cursor.length(4, False, "topics")):
            key = cursor.topic(self._by_id)
            for _ in range(cursor.length(4, False, "partitions")):
                index = cursor.integer(4)
                offsets[key, index] = cursor.integer(8)
                cursor.skip(self._after_offset)
                cursor.skip(cursor.length(2, True, "committed_metadata"))
                cursor.skip_tags()
            cursor.skip_tags()
        cursor.skip_tags()
        return group or "", offsets

    def accepted(self, data: bytes, at: int, end: int) -> list[Partition]:
        """The partitions without an error in the response data[at:end], which begins with its length.

        Raises:
            CodecError: these bytes are no such response.
        """
        cursor = cursor_at(data, at, end, self._flexible)
        cursor.skip(8)  # length, correlation id
        cursor.skip_tags()
        cursor.skip(self._throttle)
        found: list[Partition] = []
        for _ in range(cursor.length(4, False, "topics")):
            key = cursor.topic(self._by_id)
            for _ in range(cursor.length(4, False, "partitions")):
                index = cursor.integer(4)
                if not cursor.integer(2):
                    found.append((key, index))
                cursor.skip_tags()
            cursor.skip_tags()
        cursor.skip_tags()
        return found
