"""Metadata of topics that a client may not describe: named ones get Kafka's error, lists of all leave them out."""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import decode_request, decode_response
from kafka_sidecar.codec.message import replace_fields
from kafka_sidecar.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafka_sidecar.proxy.relay.exchange import Begin, Client, Exchange, Forward, Outcome, Steps

NO_TOPIC = "-/-"  # no topic can have this name, so no broker creates it
# (principal, topic) -> whether it may be described
Allows = Callable[[str | None, str], bool]


def guard(allows: Allows, key: int, version: int, begin: Begin | None) -> Begin | None:
    """What looks into Metadata requests of this version."""
    if key != ApiKey.METADATA:
        return begin
    return lambda data, at, size, client: DescribedTopics(allows, version, client)


class DescribedTopics(Exchange):
    """One Metadata request and its response. Denied topics that it names do not reach the broker, which might create
    them."""

    __slots__ = ("_allows", "_client", "_denied", "_version")

    def __init__(self, allows: Allows, version: int, client: Client) -> None:
        self._allows = allows
        self._version = version
        self._client = client
        self._denied: list[str] = []  # that the client has named

    def request(self, frame: bytes) -> Steps[Outcome]:
        yield from ()
        body = decode_request(MetadataRequest, frame)[1]
        asked = body.message.topics or ()
        self._denied = [topic.name for topic in asked if topic.name and not self._is_allowed(topic.name)]
        if self._denied:
            kept = tuple(topic for topic in asked if topic.name not in self._denied)
            if not kept and not self._version:  # where no topics stand for all
                kept = (MetadataRequestTopic(name=NO_TOPIC),)
            frame = body.with_message(replace_fields(body.message, topics=kept))
        return Forward(frame, wants_response=True)

    def response(self, frame: bytes) -> Steps[bytes]:
        yield from ()
        body = decode_response(MetadataResponse, frame, self._version)
        asked = (topic for topic in body.message.topics if topic.name != NO_TOPIC)
        kept = tuple(topic for topic in asked if not topic.name or self._is_allowed(topic.name))
        denied = (
            MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name) for name in self._denied
        )
        return body.with_message(replace_fields(body.message, topics=(*kept, *denied)))

    def _is_allowed(self, name: str) -> bool:
        return self._allows(self._client.principal, name)
