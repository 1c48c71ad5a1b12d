"""DescribeTopicPartitions: pages of topics in which none is named that a client may not describe.

    client <-- topics that may be described, and a cursor at one of them <-- further pages, if need be <-- broker

A broker with the same rules leaves out the others before it counts what fits into a page, so the sidecar asks on until
the page is full, or the cursor is at a topic that the client may know of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.message import Message, replace_fields
from kafka_sidecar.codec.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import OpenMessage
from kafka_sidecar.proxy.features.authorization.acls import Operation
from kafka_sidecar.proxy.features.authorization.checked_apis import CheckedApi, on_topic
from kafka_sidecar.proxy.features.authorization.checks import Check, CheckRun, Rules
from kafka_sidecar.proxy.relay.exchange import Client, Send

PAGE = 2000  # Kafka's max.request.partition.size.limit
ELEMENT_BYTES = 32  # of a partition, about
OURS = 0  # the correlation id of our own requests


class CheckPages(Check):
    """The stage of DescribeTopicPartitions."""

    def start(self, client: Client, version: int) -> CheckPagesRun:
        return CheckPagesRun(self._rules, self._key, self._api, client, version)


class CheckPagesRun(CheckRun):
    """One request and its response."""

    __slots__ = ("_asked", "_version")

    def __init__(self, rules: Rules, key: int, api: CheckedApi, client: Client, version: int) -> None:
        super().__init__(rules, key, api, client)
        self._version = version
        self._asked = DescribeTopicPartitionsRequest()

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        answer = yield from super().request(request)
        if answer is None:
            self._asked = yield from request.read(DescribeTopicPartitionsRequest)
        return answer

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
