"""DeleteTopics: what was set for a topic is forgotten with it.

Nothing depends on that: a topic that is created again has another id, for which nothing is set. It keeps the log short.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import decode_request, decode_response
from kafka_sidecar.codec.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.features.topic_configs.entries import Entry
from kafka_sidecar.proxy.features.topic_configs.keeper import ForgetConfigs, Keeper
from kafka_sidecar.proxy.relay.exchange import Exchange, Forward, Outcome, Steps


class DeleteTopicsExchange(Exchange):
    """One DeleteTopics request and its response."""

    __slots__ = ("_entries", "_keeper", "_version")

    def __init__(self, version: int, keeper: Keeper) -> None:
        self._version = version
        self._keeper = keeper
        # Looked up before the broker is asked: what is set later may be for a topic that is created again.
        self._entries: list[Entry] = []

    def request(self, frame: bytes) -> Steps[Outcome]:
        yield from ()  # nothing is needed
        _, body = decode_request(DeleteTopicsRequest, frame)
        names = [(name, NO_ID) for name in body.message.topic_names]
        topics = [(topic.name, topic.topic_id) for topic in body.message.topics]
        entries = self._keeper.entries
        self._entries = [entry for name, topic_id in names + topics for entry in entries.of(name, topic_id)]
        return Forward(frame, wants_response=bool(self._entries))

    def response(self, frame: bytes) -> Steps[bytes]:
        body = decode_response(DeleteTopicsResponse, frame, self._version)
        results = body.message.responses
        if deleted := tuple(entry for entry in self._entries if _is_deleted(entry, results)):
            yield ForgetConfigs(deleted)
        return frame


def _is_deleted(entry: Entry, results: Iterable[DeletableTopicResult]) -> bool:
    deleted = (result for result in results if result.error_code == ErrorCode.NONE)
    return any(result.name == entry.topic or result.topic_id == entry.topic_id for result in deleted)
