"""Groups that a client may not use: members and commits are answered as by an authorizer that denies them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_sidecar.codec.apis import APIS, ApiKey, ErrorCode, request_header_version
from kafka_sidecar.codec.envelope import decode_request, encode_response, open_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.messages import offset_commit
from kafka_sidecar.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_sidecar.codec.messages.heartbeat import HeartbeatResponse
from kafka_sidecar.codec.messages.join_group import JoinGroupResponse
from kafka_sidecar.codec.messages.leave_group import LeaveGroupResponse
from kafka_sidecar.codec.messages.sync_group import SyncGroupResponse
from kafka_sidecar.codec.wire import read_uvarint
from kafka_sidecar.proxy.relay.exchange import (
    Begin,
    Client,
    Exchange,
    Forward,
    Look,
    Outcome,
    Pass,
    Respond,
    Steps,
    Work,
)

DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED


def _reject_commit(frame: bytes) -> Message:
    request = decode_request(offset_commit.OffsetCommitRequest, frame)[1].message
    topics = (
        offset_commit.OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                offset_commit.OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=DENIED)
                for one in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return offset_commit.OffsetCommitResponse(topics=tuple(topics))


def _reject_with(response: type[Any]) -> Callable[[bytes], Message]:
    rejection: Message = response(error_code=DENIED)
    return lambda frame: rejection


# All begin with the group's id. From the request's frame: the response.
GROUP_APIS: Mapping[int, Callable[[bytes], Message]] = {
    ApiKey.JOIN_GROUP: _reject_with(JoinGroupResponse),
    ApiKey.SYNC_GROUP: _reject_with(SyncGroupResponse),
    ApiKey.HEARTBEAT: _reject_with(HeartbeatResponse),
    ApiKey.LEAVE_GROUP: _reject_with(LeaveGroupResponse),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _reject_with(ConsumerGroupHeartbeatResponse),
    ApiKey.OFFSET_COMMIT: _reject_commit,
}


def group_of(frame: bytes) -> str:
    """The group that a request of one of these APIs is of. Raises CodecError."""
    request = open_request(frame)
    at = request.body_at
    if request_header_version(request.api_key, request.api_version) > 1:
        length, at = read_uvarint(frame, at)
        length -= 1
    else:
        length, at = int.from_bytes(frame[at : at + 2], "big", signed=True), at + 2
    if not 0 <= length <= len(frame) - at:
        raise CodecError(f"a group id of {length} bytes, {len(frame) - at} are left")
    return frame[at : at + length].decode(errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class DeniedGroups:
    """Which groups are denied to whom."""

    allows: Callable[[str | None, str], bool]  # principal, group
    counts: Counter[str]  # of denied requests, by API

    def guard(self, key: int, version: int, begin: Begin | None) -> Begin | None:
        """What looks into requests of this API and version, where ``begin`` looks into what is not denied."""
        if key not in GROUP_APIS:
            return begin

        def guarded(data: bytes, at: int, size: int, client: Client) -> Exchange:
            found = begin(data, at, size, client) if begin is not None else None
            if isinstance(found, Look):
                found = found.start()
            return GroupExchange(self, key, version, client, None if isinstance(found, Pass) else found)

        return guarded


class GroupExchange(Exchange):
    """One request. What is not denied is for ``inner``, if there is one."""

    __slots__ = ("_client", "_inner", "_key", "_rules", "_version")

    def __init__(self, rules: DeniedGroups, key: int, version: int, client: Client, inner: Exchange | None) -> None:
        self._rules = rules
        self._key = key
        self._version = version
        self._client = client
        self._inner = inner

    def request(self, frame: bytes) -> Steps[Outcome]:
        if not self._rules.allows(self._client.principal, group_of(frame)):
            self._rules.counts[APIS[ApiKey(self._key)].name] += 1
            rejection = GROUP_APIS[self._key](frame)
            return Respond(encode_response(rejection, self._version, open_request(frame).correlation_id))
        return (yield from self._inner.request(frame)) if self._inner is not None else Forward(frame)

    def response(self, frame: bytes) -> Steps[bytes]:
        assert self._inner is not None
        return (yield from self._inner.response(frame))

    def lost(self, why: str) -> Work | None:
        return self._inner.lost(why) if self._inner is not None else None
