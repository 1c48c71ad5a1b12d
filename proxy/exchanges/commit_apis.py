"""The two APIs with which a group commits: OffsetCommit, and TxnOffsetCommit as part of a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_sidecar.codec.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

NEVER = 1 << 15  # no version

Request = OffsetCommitRequest | TxnOffsetCommitRequest
Topic = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic
Partition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
Response = OffsetCommitResponse | TxnOffsetCommitResponse


@dataclass(frozen=True, slots=True)
class CommitApi:
    """The messages of one of the two APIs; their fields have the same names."""

    request: type[Request]
    request_topic: type[Topic]
    request_partition: type[Partition]
    response: type[Response]
    response_topic: type[OffsetCommitResponseTopic | TxnOffsetCommitResponseTopic]
    response_partition: type[OffsetCommitResponsePartition | TxnOffsetCommitResponsePartition]
    first_with_ids: int
    first_that_joins: int  # makes the group part of the transaction


COMMIT_APIS: Mapping[int, CommitApi] = {
    ApiKey.OFFSET_COMMIT: CommitApi(
        request=OffsetCommitRequest,
        request_topic=OffsetCommitRequestTopic,
        request_partition=OffsetCommitRequestPartition,
        response=OffsetCommitResponse,
        response_topic=OffsetCommitResponseTopic,
        response_partition=OffsetCommitResponsePartition,
        first_with_ids=first_version(OffsetCommitRequestTopic, "topic_id"),
        first_that_joins=NEVER,
    ),
    ApiKey.TXN_OFFSET_COMMIT: CommitApi(
        request=TxnOffsetCommitRequest,
        request_topic=TxnOffsetCommitRequestTopic,
        request_partition=TxnOffsetCommitRequestPartition,
        response=TxnOffsetCommitResponse,
        response_topic=TxnOffsetCommitResponseTopic,
        response_partition=TxnOffsetCommitResponsePartition,
        first_with_ids=first_version(TxnOffsetCommitRequestTopic, "topic_id"),
        first_that_joins=5,
    ),
}


def commit_api(key: int, version: int) -> CommitApi | None:
    """The API of these requests if they are commits of a version that can be read."""
    api = COMMIT_APIS.get(key)
    versions = api.request.declaration_.versions if api is not None else None
    return api if versions is not None and version in versions else None
