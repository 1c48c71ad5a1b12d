"""DeleteTopics: what was set for a topic is forgotten with it.

Nothing depends on that: a topic made again has another id, for which nothing is set. It keeps the log short.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import decode_request, decode_response
from kafka_sidecar.codec.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.relay.exchange import Exchange, Hold
from kafka_sidecar.proxy.topic_configs.entries import Entry
from kafka_sidecar.proxy.topic_configs.keeper import Keeper


class Deletion(Exchange):
    """One request that deletes topics, and its response."""

    __slots__ = ("_entries", "_keeper", "_version")

    def __init__(self, version: int, keeper: Keeper) -> None:
        self._version, self._keeper = version, keeper
        # Known before the broker is asked: what is set from now on may be for a topic made again.
        self._entries: list[Entry] = []

    def request(self, frame: bytes) -> bytes:
        request = decode_request(DeleteTopicsRequest, frame)[1].message
        asked = [*((name, NO_ID) for name in request.topic_names), *((t.name, t.topic_id) for t in request.topics)]
        entries = self._keeper.entries
        self._entries = [entry for name, topic_id in asked for entry in entries.of(name, topic_id)]
        return frame

    @property
    def wants_response(self) -> bool:
        return bool(self._entries)

    def response(self, frame: bytes) -> bytes | Hold:
        response = decode_response(DeleteTopicsResponse, frame, self._version).message
        gone = [entry for entry in self._entries if _is_deleted(entry, response.responses)]
        return Hold(lambda: self._keeper.forget(gone), lambda: frame) if gone else frame


def _is_deleted(entry: Entry, results: Iterable[DeletableTopicResult]) -> bool:
    deleted = (result for result in results if result.error_code == ErrorCode.NONE)
    return any(result.name == entry.topic or result.topic_id == entry.topic_id for result in deleted)
