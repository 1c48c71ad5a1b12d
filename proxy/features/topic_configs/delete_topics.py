"""DeleteTopics: what was set for a topic is forgotten with it.

Nothing depends on that: a topic that is created again has another id, for which nothing is set. It keeps the log short.
"""

from __future__ import annotations

from kafka_sidecar.codec.apis import APIS, ApiKey, ErrorCode
from kafka_sidecar.codec.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.exchanges.messages import MessageRun, MessageStage, OpenMessage
from kafka_sidecar.proxy.features.topic_configs.entries import Entry
from kafka_sidecar.proxy.features.topic_configs.keeper import ForgetConfigs, Keeper
from kafka_sidecar.proxy.relay.exchange import TURN, Client, Steps


class DeleteTopics(MessageStage):
    """The stage of DeleteTopics."""

    name = "topic configs"

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def start(self, client: Client, version: int) -> DeleteTopicsRun | None:
        return DeleteTopicsRun(self._keeper) if version >= APIS[ApiKey.DELETE_TOPICS].min_version else None


class DeleteTopicsRun(MessageRun):
    """One DeleteTopics request and its response."""

    __slots__ = ("_entries", "_keeper")

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        # Looked up before the broker is asked: what is set later may be for a topic that is created again.
        self._entries: list[Entry] = []

    @property
    def wants_response(self) -> bool:
        return bool(self._entries)

    def request(self, request: OpenMessage) -> Steps[None]:
        message = yield from request.read(DeleteTopicsRequest)
        names = [(name, NO_ID) for name in message.topic_names]
        topics = [(topic.name, topic.topic_id) for topic in message.topics]
        entries = self._keeper.entries
        for name, topic_id in names + topics:
            self._entries += entries.of(name, topic_id)
            yield TURN

    def response(self, response: OpenMessage) -> Steps[None]:
        message = yield from response.read(DeleteTopicsResponse)
        deleted = [result for result in message.responses if result.error_code == ErrorCode.NONE]
        names, ids = {result.name for result in deleted}, {result.topic_id for result in deleted}
        if gone := tuple(entry for entry in self._entries if entry.topic in names or entry.topic_id in ids):
            yield ForgetConfigs(gone)
