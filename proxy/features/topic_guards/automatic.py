"""Metadata: a topic that a broker would create because it is named (`auto.create.topics.enable`) is kept from it.

    request --> names that may not be created so? --> sent with allow_auto_topic_creation off --> broker
    request before version 4, which cannot say so --> those that do not exist are cut out --> broker
    client <-- UNKNOWN_TOPIC_OR_PARTITION for these, as of a broker that creates none

Such a topic has the broker's numbers and no configs. What these are is not asked for each Metadata: where a guard
limits them, topics are created by a request that says them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.message import Message, Struct, first_version, replace_fields
from kafka_sidecar.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.elements import Cut, ElementsApi
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import MessageRun, MessageStage, OpenMessage, Rejection
from kafka_sidecar.proxy.features.denials import Denied
from kafka_sidecar.proxy.features.topic_guards.guards import Guard, Violation
from kafka_sidecar.proxy.features.topic_guards.stages import Site
from kafka_sidecar.proxy.relay.exchange import Client, Send

CAN_SAY = first_version(MetadataRequest, "allow_auto_topic_creation")
NO_TOPIC = "-/-"  # no topic can have this name, so no broker creates it
NOT_THERE = Rejection(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
# Of a topic that is named for the first time: one that is not created, and one that is being created.
NEW = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
Refused = dict[str, tuple[Guard, Sequence[Violation]]]  # by name


def _reject(topic: MetadataRequestTopic, why: Rejection) -> Struct:
    return MetadataResponseTopic(error_code=why.error_code, name=topic.name)


def _name(of: Any) -> str | None:
    name: str | None = of.name
    return name


METADATA = ElementsApi(
    request=MetadataRequest,
    response=MetadataResponse,
    arrays=("topics",),
    results="topics",
    identify=_name,
    reject=_reject,
)


class NamedTopics(MessageStage):
    """The stage of Metadata."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def start(self, client: Client, version: int) -> NamedTopicsRun:
        return NamedTopicsRun(self._site, client, version)


class NamedTopicsRun(MessageRun):
    """One Metadata request and its response."""

    __slots__ = ("_client", "_cut", "_refused", "_site", "_version")

    def __init__(self, site: Site, client: Client, version: int) -> None:
        self._site = site
        self._client = client
        self._version = version
        self._refused: Refused = {}
        self._cut: Cut | None = None

    @property
    def wants_response(self) -> bool:
        # Most clients name topics that exist.
        return self._cut is not None or any(not self._site.is_known(name) for name in self._refused)

    def request(self, request: OpenMessage) -> Steps[None]:
        message = yield from request.read(MetadataRequest)
        if not message.topics or not message.allow_auto_topic_creation:
            return
        self._refused = yield from offload(partial(self._check, message.topics), request.elements)
        if not (enforced := {name for name, (guard, _) in self._refused.items() if guard.is_enforced}):
            return
        if self._version < CAN_SAY:
            yield from self._cut_out(request, message, enforced)
            return
        others = tuple(topic for topic in message.topics if topic.name and topic.name not in enforced)
        if any(not self._site.is_known(topic.name or "") for topic in others):
            # These may be created: the broker does so when it is asked for them alone.
            yield from self._send(request, replace_fields(message, topics=others), self._version)
        request.replace(replace_fields(message, allow_auto_topic_creation=False))

    def response(self, response: OpenMessage) -> Steps[None]:
        message = yield from response.read(MetadataResponse)
        topics: Iterable[MetadataResponseTopic] = message.topics
        if self._cut is not None:
            topics = self._cut.complete(topic for topic in message.topics if topic.name != NO_TOPIC)
            response.replace(replace_fields(message, topics=tuple(topics)))
        denied = yield from offload(partial(self._denied, topics), response.elements)
        self._site.denials.record(ApiKey.METADATA, denied, self._client)

    def _denied(self, topics: Iterable[MetadataResponseTopic]) -> list[Denied]:
        """Those that were not created, or are being created in mode shadow."""
        return [
            self._site.denied(ApiKey.METADATA, "create", topic.name, *found, self._client)
            for topic in topics
            if topic.name and topic.error_code in NEW and (found := self._refused.get(topic.name)) is not None
        ]

    def _check(self, topics: Iterable[MetadataRequestTopic]) -> Refused:
        """The names for which no topic may be created."""
        found: Refused = {}
        for name in filter(None, (topic.name for topic in topics)):
            guard = self._site.guards.of(name, self._client.principal)
            if guard is not None and (violations := list(guard.of_automatic_creation(name))):
                found[name] = guard, violations
        return found

    def _cut_out(self, request: OpenMessage, message: MetadataRequest, names: Collection[str]) -> Steps[None]:
        """Remove topics that do not exist: the broker would create them."""
        asked = tuple(MetadataRequestTopic(name=name) for name in names)
        question = replace_fields(message, topics=asked, allow_auto_topic_creation=False)
        frame = yield from self._send(request, question, CAN_SAY)
        cut = yield from offload(partial(_without_missing, message, names, frame), request.elements)
        if not cut.rejected:
            return
        self._cut, rest = cut, cut.request
        if not rest.topics and not self._version:  # where no topics stand for all
            rest = replace_fields(rest, topics=(MetadataRequestTopic(name=NO_TOPIC),))
        request.replace(rest)

    def _send(self, request: OpenMessage, message: Message, version: int) -> Steps[bytes]:
        encode = partial(encode_request, message, version, request.correlation_id, self._client.client_id)
        (answer,) = yield Send(((yield from offload(encode, request.elements)),))
        frame: bytes = answer
        return frame


def _without_missing(message: MetadataRequest, names: Collection[str], frame: bytes) -> Cut:
    """The request without those of the names that a broker does not know, as this response says."""
    answered = decode_response(MetadataResponse, frame, CAN_SAY).message
    there = {topic.name for topic in answered.topics if topic.error_code not in NEW}
    missing = set(names) - there
    return METADATA.cut(message, [NOT_THERE if topic.name in missing else None for topic in message.topics or ()])
