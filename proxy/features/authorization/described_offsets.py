"""OffsetFetch: committed offsets of groups and topics that a client may not describe. Such groups get Kafka's error,
and so do topics that it names; where it asks for all topics of a group, those are omitted.

    request --> denied groups and topics cut out --> what else looks into it --> broker
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import decode_request, decode_response, encode_response
from kafka_sidecar.codec.message import Struct, first_version, replace_fields
from kafka_sidecar.codec.messages import offset_fetch
from kafka_sidecar.codec.pieces import whole
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.exchanges.rejections import Rejection
from kafka_sidecar.proxy.features.authorization.acls import Operation
from kafka_sidecar.proxy.features.authorization.checked_apis import on_group, on_topic
from kafka_sidecar.proxy.features.authorization.denials import Denials, inner_exchange
from kafka_sidecar.proxy.relay.exchange import (
    Begin,
    Client,
    Exchange,
    Forward,
    Outcome,
    OuterExchange,
    Respond,
    Steps,
    TopicNames,
)

NO_OFFSET = -1
_CODE_FROM = first_version(offset_fetch.OffsetFetchResponse, "error_code")
_GROUPS_FROM = first_version(offset_fetch.OffsetFetchResponse, "groups")


def guard(rules: Denials, key: int, version: int, begin: Begin | None) -> Begin | None:
    """What looks into OffsetFetch requests of this version, where ``begin`` looks into what is not denied."""
    if key != ApiKey.OFFSET_FETCH:
        return begin

    def guarded(data: bytes, at: int, size: int, client: Client) -> Exchange:
        return DescribedOffsets(rules, version, client, inner_exchange(begin, data, at, size, client))

    return guarded


@dataclass(slots=True)
class _Denied:
    """What is added to the response."""

    groups: list[offset_fetch.OffsetFetchResponseGroup] = field(default_factory=list)
    topics: dict[str, list[Struct]] = field(default_factory=dict)  # by group

    def __bool__(self) -> bool:
        return bool(self.groups or any(self.topics.values()))


class DescribedOffsets(OuterExchange):
    """One OffsetFetch request and its response. Before version 8 its one group and its topics stand at the top level:
    they are read as a group, too."""

    __slots__ = ("_changes", "_client", "_denied", "_rules", "_version")

    def __init__(self, rules: Denials, version: int, client: Client, inner: Exchange | None) -> None:
        super().__init__(inner)
        self._rules = rules
        self._version = version
        self._client = client
        self._denied = _Denied()
        self._changes = False

    def request(self, frame: bytes) -> Steps[Outcome]:
        opened, body = decode_request(offset_fetch.OffsetFetchRequest, frame)
        asked = body.message
        groups: tuple[Any, ...] = asked.groups if self._version >= _GROUPS_FROM else (asked,)
        yield from self._look_up(groups)
        kept = [self._without_denied(group) for group in groups if self._may_see(group.group_id)]
        if not kept:
            return Respond(encode_response(self._rejection(groups), self._version, opened.correlation_id))
        if self._denied:
            message = replace_fields(asked, groups=tuple(kept)) if self._version >= _GROUPS_FROM else kept[0]
            frame = body.with_message(message)
        self._changes = bool(self._denied) or any(group.topics is None for group in kept)
        outcome = yield from self.ask_inner(frame)
        if isinstance(outcome, Respond):
            return Respond(self._change(outcome.frame))
        if isinstance(outcome, Forward):
            return Forward(outcome.frame, outcome.wants_response or self._changes)
        return outcome

    def response(self, frame: bytes) -> Steps[bytes]:
        return self._change(whole((yield from self.inner_response(frame))))

    def _look_up(self, groups: Iterable[Any]) -> Steps[None]:
        ids = {_key(topic) for group in groups for topic in group.topics or ()}
        unknown = (one for one in ids if isinstance(one, bytes) and one != NO_ID and self._rules.name_of(one) is None)
        if asked := tuple(unknown):
            yield TopicNames(asked)

    def _check(self, need: Any) -> Rejection | None:
        return self._rules.check(ApiKey.OFFSET_FETCH, need, self._client.principal)

    def _may_see(self, group: str) -> bool:
        why = self._check(on_group(Operation.DESCRIBE, group))
        if why is not None:
            self._denied.groups.append(offset_fetch.OffsetFetchResponseGroup(group_id=group, error_code=why.error_code))
        return why is None

    def _without_denied(self, group: Any) -> Any:
        if group.topics is None:
            return group
        checked = [(topic, self._check(on_topic(Operation.DESCRIBE, _key(topic)))) for topic in group.topics]
        rejected = [_reject(topic, why, self._version) for topic, why in checked if why is not None]
        if not rejected:
            return group
        self._denied.topics[group.group_id] = rejected
        return replace_fields(group, topics=tuple(topic for topic, why in checked if why is None))

    def _change(self, frame: bytes) -> bytes:
        if not self._changes:
            return frame
        body = decode_response(offset_fetch.OffsetFetchResponse, frame, self._version)
        answered = body.message
        if self._version < _GROUPS_FROM:
            (rejected,) = self._denied.topics.values() or ([],)
            return body.with_message(replace_fields(answered, topics=(*self._seen(answered.topics), *rejected)))
        groups = (
            replace_fields(group, topics=(*self._seen(group.topics), *self._denied.topics.get(group.group_id, ())))
            for group in answered.groups
        )
        return body.with_message(replace_fields(answered, groups=(*groups, *self._denied.groups)))

    def _seen(self, topics: Iterable[Any]) -> Iterable[Any]:
        allows, principal = self._rules.allows, self._client.principal
        return (
            one for one in topics
            if allows(ApiKey.OFFSET_FETCH, on_topic(Operation.DESCRIBE, _key(one)), principal)
        )  # fmt: skip

    def _rejection(self, groups: tuple[Any, ...]) -> offset_fetch.OffsetFetchResponse:
        """The response where no group may be described."""
        denied = tuple(self._denied.groups)
        if self._version >= _GROUPS_FROM or not denied:
            return offset_fetch.OffsetFetchResponse(groups=denied)
        code = denied[0].error_code
        if self._version >= _CODE_FROM:
            return offset_fetch.OffsetFetchResponse(error_code=code)
        why, topics = Rejection(code, ""), groups[0].topics or ()
        return replace_fields(
            offset_fetch.OffsetFetchResponse(), topics=tuple(_reject(topic, why, self._version) for topic in topics)
        )


def _key(topic: Any) -> str | bytes:
    """Its name, or its id in versions that have no name."""
    key: str | bytes = topic.name or getattr(topic, "topic_id", NO_ID)
    return key


def _reject(topic: Any, why: Rejection, version: int) -> Struct:
    if version < _GROUPS_FROM:
        of, result = offset_fetch.OffsetFetchResponsePartition, offset_fetch.OffsetFetchResponseTopic
        old = tuple(_no_offset(of, index, why) for index in topic.partition_indexes)
        return result(name=topic.name, partitions=old)
    partitions = tuple(
        _no_offset(offset_fetch.OffsetFetchResponsePartitions, index, why) for index in topic.partition_indexes
    )
    return offset_fetch.OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _no_offset(of: Callable[..., Any], index: int, why: Rejection) -> Any:
    return of(partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=why.error_code)
