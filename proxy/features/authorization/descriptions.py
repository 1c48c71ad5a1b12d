"""Metadata, OffsetFetch and DescribeTopicPartitions: topics and groups that a client may not describe.

What it names gets Kafka's error; lists of all omit it. Topics of Metadata that are denied do not reach the broker,
which might create them. DescribeTopicPartitions has pages:

    client <-- topics that may be described, and a cursor at one of them <-- further pages, if need be <-- broker

A broker with the same rules leaves out the others before it counts what fits into a page, so the sidecar asks on until
the page is full, or the cursor is at a topic that the client may know of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import array_count, decode_response, encode_request, response_body_at, splice
from kafka_sidecar.codec.message import (
    Message,
    Struct,
    decode,
    element_spans,
    encode,
    field_reader,
    first_version,
    replace_fields,
    skipper,
)
from kafka_sidecar.codec.messages import offset_fetch
from kafka_sidecar.codec.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from kafka_sidecar.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.effects import Steps, Work
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_FRAME, offload
from kafka_sidecar.proxy.exchanges.messages import NO_TOPIC, MessageRun, OpenMessage, Rejection, resolve
from kafka_sidecar.proxy.features.authorization.acls import Operation
from kafka_sidecar.proxy.features.authorization.checked_apis import CheckedApi, Need, on_group, on_topic
from kafka_sidecar.proxy.features.authorization.checks import CheckRun, Rules
from kafka_sidecar.proxy.relay.exchange import Client, Send

NO_OFFSET = -1
_CODE_FROM = first_version(offset_fetch.OffsetFetchResponse, "error_code")
_GROUPS_FROM = first_version(offset_fetch.OffsetFetchResponse, "groups")
_IDS_FROM = first_version(offset_fetch.OffsetFetchRequestTopics, "topic_id")
PAGE = 2000  # Kafka's max.request.partition.size.limit
ELEMENT_BYTES = 32  # of a partition, about
OURS = 0  # the correlation id of our own requests


class DescribedTopicsRun(MessageRun):
    """One Metadata request and its response, of whose topics none becomes an object: there may be 10,000."""

    __slots__ = ("_client", "_denied", "_hidden", "_named_bytes", "_names_ids", "_rules", "_version")

    def __init__(self, rules: Rules, client: Client, version: int) -> None:
        self._rules = rules
        self._version = version
        self._client = client
        self._denied: list[str] = []  # that the client has named
        self._hidden: list[Rejection] = []  # topics of the response that it has named by their ids
        self._names_ids = False
        self._named_bytes = 0  # at most, in the names of these

    @property
    def wants_response(self) -> bool:
        return True

    def request(self, request: OpenMessage) -> Steps[None]:
        message = yield from request.read(MetadataRequest)
        topics = message.topics or ()
        self._names_ids = any(topic.topic_id != NO_ID for topic in topics)
        if self._names_ids:
            return  # then brokers look at no name, and create nothing
        kept, denied = yield from offload(partial(self._kept, topics), request.elements)
        self._rules.denials.record(ApiKey.METADATA, denied, self._client)
        if self._rules.denials.wants_allowed:
            allowed = (on_topic(Operation.DESCRIBE, topic.name) for topic in kept if topic.name)
            self._rules.allowed(ApiKey.METADATA, allowed, self._client)
        if self._denied:
            self._named_bytes = request.size
            if not kept and not self._version:  # where no topics stand for all
                kept = (MetadataRequestTopic(name=NO_TOPIC),)
            request.replace(replace_fields(message, topics=kept))

    def response(self, response: OpenMessage) -> Steps[None]:
        frame = yield from response.frame()
        visible, is_small = partial(self._visible, frame), len(frame) + self._named_bytes <= MAX_INLINE_FRAME
        response.replace_frame(visible() if is_small else (yield Work(visible, is_light=True)))
        self._rules.denials.record(ApiKey.METADATA, self._hidden, self._client)

    def _kept(
        self, topics: Iterable[MetadataRequestTopic]
    ) -> tuple[tuple[MetadataRequestTopic, ...], Sequence[Rejection]]:
        """The topics that may be described, and why the others may not, whose names are noted."""
        checked = [(topic, self._check(topic.name) if topic.name is not None else None) for topic in topics]
        self._denied = [topic.name for topic, why in checked if topic.name is not None and why is not None]
        return tuple(one for one, why in checked if why is None), [why for _, why in checked if why is not None]

    def _visible(self, frame: bytes) -> bytes:
        """The response without the topics that the client may not describe, and with those that it has named."""
        version = self._version
        body_at = response_body_at(ApiKey.METADATA, version, frame)
        (count_at, first), spans = element_spans(MetadataResponse, "topics", version)(frame, body_at)
        to_name = skipper(MetadataResponseTopic, version, before="name")
        name_of = field_reader(MetadataResponseTopic, "name", version)
        removed, count, end = list[tuple[int, int, bytes]](), 0, first
        for at, (start, end) in enumerate(spans, 1):
            name = name_of(frame, to_name(frame, start))[0]
            if name and (name == NO_TOPIC or self._hides(name)):
                removed.append((start, end, self._denied_id(frame, start, end) if self._names_ids else b""))
            count = at
        if not removed and not self._denied:
            return frame
        denied = (
            MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name) for name in self._denied
        )
        new_count = array_count(
            count - sum(not new for _, _, new in removed) + len(self._denied),
            MetadataResponse.declaration_.is_flexible(version),
        )
        added = [(end, end, encode(one, version)) for one in denied]
        return splice(frame, [(count_at, first, new_count), *removed, *added])

    def _denied_id(self, frame: bytes, start: int, end: int) -> bytes:
        """What the client gets for frame[start:end], a topic that it has named by its id; errors are as they are."""
        topic, _ = decode(MetadataResponseTopic, frame, self._version, start)
        if topic.error_code != ErrorCode.NONE:
            return frame[start:end]
        error = MetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic.topic_id
        )
        return encode(error, self._version)

    def _check(self, name: str) -> Rejection | None:
        return self._rules.check(ApiKey.METADATA, on_topic(Operation.DESCRIBE, name), self._client.principal)

    def _hides(self, name: str) -> bool:
        """Whether the client may not see a topic; it is denied one that it has named, and not shown others."""
        if self._rules.allows(ApiKey.METADATA, on_topic(Operation.DESCRIBE, name), self._client.principal):
            return False
        if self._names_ids and (why := self._check(name)) is not None:
            self._hidden.append(why)
        return True


@dataclass(slots=True)
class _Denied:
    """Groups and topics to be added to a response."""

    groups: list[offset_fetch.OffsetFetchResponseGroup] = field(default_factory=list)
    topics: dict[str, list[Struct]] = field(default_factory=dict)  # by group
    why: list[Rejection] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.groups or any(self.topics.values()))


class DescribedOffsetsRun(MessageRun):
    """One OffsetFetch request and its response. Before version 8 its one group and its topics stand at the top level:
    they are read as a group, too."""

    __slots__ = ("_changes", "_client", "_denied", "_rules", "_version")

    def __init__(self, rules: Rules, client: Client, version: int) -> None:
        self._rules = rules
        self._version = version
        self._client = client
        self._denied = _Denied()
        self._changes = False

    @property
    def wants_response(self) -> bool:
        return self._changes

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        asked = yield from request.read(offset_fetch.OffsetFetchRequest)
        groups: tuple[Any, ...] = asked.groups if self._version >= _GROUPS_FROM else (asked,)
        if self._version >= _IDS_FROM:
            yield from resolve((yield from offload(partial(_topic_ids, groups), request.elements)), self._rules.name_of)
        kept = yield from offload(partial(self._kept, groups), request.elements)
        self._rules.denials.record(ApiKey.OFFSET_FETCH, self._denied.why, self._client)
        if self._rules.denials.wants_allowed:
            self._rules.allowed(ApiKey.OFFSET_FETCH, _needs(kept), self._client)
        if not kept:
            return self._rejection(groups)
        if self._denied:
            request.replace(replace_fields(asked, groups=tuple(kept)) if self._version >= _GROUPS_FROM else kept[0])
        self._changes = bool(self._denied) or any(group.topics is None for group in kept)
        return None

    def response(self, response: OpenMessage) -> Steps[None]:
        answered = yield from response.read(offset_fetch.OffsetFetchResponse)
        response.replace((yield from offload(partial(self._visible, answered), response.elements)))

    def _visible(self, answered: offset_fetch.OffsetFetchResponse) -> offset_fetch.OffsetFetchResponse:
        if self._version < _GROUPS_FROM:
            (rejected,) = self._denied.topics.values() or ([],)
            return replace_fields(answered, topics=(*self._seen(answered.topics), *rejected))
        groups = (
            replace_fields(group, topics=(*self._seen(group.topics), *self._denied.topics.get(group.group_id, ())))
            for group in answered.groups
        )
        return replace_fields(answered, groups=(*groups, *self._denied.groups))

    def _kept(self, groups: Iterable[Any]) -> list[Any]:
        """What is left of the groups that the client asks for; the others are noted."""
        return [self._without_denied(group) for group in groups if self._may_see(group.group_id)]

    def _check(self, need: Any) -> Rejection | None:
        if (why := self._rules.check(ApiKey.OFFSET_FETCH, need, self._client.principal)) is not None:
            self._denied.why.append(why)
        return why

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

    def _seen(self, topics: Iterable[Any]) -> list[Any]:
        allows, principal = self._rules.allows, self._client.principal
        needs = ((one, on_topic(Operation.DESCRIBE, _key(one))) for one in topics)
        # What has no name and no id is no topic: the broker says so.
        return [one for one, need in needs if need.name == NO_ID or allows(ApiKey.OFFSET_FETCH, need, principal)]

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


def _needs(groups: Iterable[Any]) -> Iterable[Need]:
    """Those of groups and topics that are asked for."""
    for group in groups:
        yield on_group(Operation.DESCRIBE, group.group_id)
        yield from (on_topic(Operation.DESCRIBE, _key(topic)) for topic in group.topics or ())


def _topic_ids(groups: Iterable[Any]) -> list[bytes]:
    return [topic.topic_id for group in groups for topic in group.topics or ()]


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


class CheckPagesRun(CheckRun):
    """One DescribeTopicPartitions request and its response."""

    __slots__ = ("_asked",)

    def __init__(self, rules: Rules, key: int, api: CheckedApi, client: Client, version: int) -> None:
        super().__init__(rules, key, api, client, version)
        self._asked = DescribeTopicPartitionsRequest()

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        answer = yield from super().request(request)
        if (cursor := self._request.cursor) is not None:
            begin = partial(self._begin_at, cursor.topic_name, request, answer)
            answer = yield from offload(begin, request.elements)
        if answer is None:
            self._asked = yield from request.read(DescribeTopicPartitionsRequest)
        return answer

    def _begin_at(self, name: str, request: OpenMessage, answer: Message | None) -> Message | None:
        """Denied topics before the cursor are no part of the page, and the broker's begins at one that is allowed."""
        rejected: tuple[Any, ...] = self._cut.rejected if self._cut is not None else getattr(answer, "topics", ())
        if any(topic.name == name for topic in self._request.topics):
            after = tuple(one for one in rejected if one.name >= name)
        else:  # that is an error of all
            after = tuple(replace_fields(one, error_code=ErrorCode.INVALID_REQUEST) for one in rejected)
        if self._cut is None:
            return self._api.answer(after) if answer is not None else None
        self._cut = replace(self._cut, rejected=after)
        if not any(one.name == name for one in after):
            return None
        topics: Sequence[Any] = self._cut.request.topics
        if (first := min((topic.name for topic in topics if topic.name > name), default=None)) is None:
            return self._api.answer(after)
        request.replace(replace_fields(self._cut.request, cursor=Cursor(topic_name=first)))
        return None

    def response(self, response: OpenMessage) -> Steps[None]:
        first = yield from response.read(DescribeTopicPartitionsResponse)
        page, elements, shown = first, response.elements, _Page()
        while (cursor := (yield from offload(partial(shown.add, page.topics, self._may_see), elements))) is None:
            cursor = page.next_cursor
            if cursor is None or (shown.room <= 0 and self._may_see(cursor.topic_name)):
                break
            page = yield from self._ask(cursor)
            elements = sum(1 + len(topic.partitions) for topic in page.topics)
            if page.next_cursor == cursor:
                cursor = None  # it never ends
                break
        topics = self._cut.complete(shown.topics) if self._cut is not None else tuple(shown.topics)
        response.replace(replace_fields(first, topics=topics, next_cursor=cursor))

    def _ask(self, cursor: Cursor) -> Steps[DescribeTopicPartitionsResponse]:
        """What follows at the broker."""
        asked = replace_fields(self._asked, cursor=cursor, response_partition_limit=PAGE)
        (frame,) = yield Send((encode_request(asked, self._version, OURS, self._client.client_id),))
        decode = partial(decode_response, DescribeTopicPartitionsResponse, frame, self._version)
        return (yield from offload(decode, len(frame) // ELEMENT_BYTES)).message

    def _may_see(self, topic: str | None) -> bool:
        return topic is not None and self._rules.allows(
            self._key, on_topic(Operation.DESCRIBE, topic), self._client.principal
        )


class _Page:
    """What a client gets: as many partitions as the first page of the broker had."""

    def __init__(self) -> None:
        self.room = -1
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []

    def add(
        self, topics: Sequence[DescribeTopicPartitionsResponseTopic], sees: Callable[[str | None], bool]
    ) -> Cursor | None:
        """Add topics of a further page; if there is no room for all, the first partition of the rest."""
        if self.room < 0:
            self.room = sum(len(topic.partitions) for topic in topics)
        for topic in topics:
            if not sees(topic.name):
                continue
            kept, rest = topic.partitions[: self.room], topic.partitions[self.room :]
            if rest and not kept:
                return Cursor(topic_name=topic.name or "", partition_index=rest[0].partition_index)
            if self.topics and self.topics[-1].name == topic.name:  # it began in the page before
                kept = (*self.topics.pop().partitions, *kept)
            self.topics.append(replace_fields(topic, partitions=kept))
            self.room -= len(topic.partitions) - len(rest)
            if rest:
                return Cursor(topic_name=topic.name or "", partition_index=rest[0].partition_index)
        return None
