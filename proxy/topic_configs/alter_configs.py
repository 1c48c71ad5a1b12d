"""CreateTopics, AlterConfigs and IncrementalAlterConfigs: the sidecar's own configs are taken out of the request, and
stored once the broker has agreed to the rest.

A topic of which only own configs are asked still goes to the broker, with nothing to change: so the broker decides who
may alter it and whether it exists. Its error wins, and then nothing of ours is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import Opened, OpenRequest, decode_request, decode_response, encode_response
from kafka_sidecar.codec.message import Message, replace_fields
from kafka_sidecar.codec.messages.create_topics import CreatableTopicConfigs
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.relay.exchange import Answer, Exchange, Hold, Step
from kafka_sidecar.proxy.topic_configs.apis import TOPIC, Identity, Shape
from kafka_sidecar.proxy.topic_configs.definitions import Refusal
from kafka_sidecar.proxy.topic_configs.describe_configs import DYNAMIC_TOPIC_CONFIG
from kafka_sidecar.proxy.topic_configs.keeper import Change, Keeper


class Alteration(Exchange):
    """One request that sets topic configs, and its response."""

    __slots__ = ("_asked", "_changes", "_keeper", "_refused", "_shape", "_validate_only", "_version")

    def __init__(self, shape: Shape, version: int, keeper: Keeper) -> None:
        self._shape, self._version, self._keeper = shape, version, keeper
        self._asked: list[Any] = []
        self._changes: dict[Identity, Change] = {}  # what becomes of those that are asked of the broker
        self._refused: dict[Identity, Refusal] = {}  # those that the broker does not see
        self._validate_only = False

    def request(self, frame: bytes) -> Step:
        header, opened = decode_request(self._shape.request, frame)
        request = opened.message
        self._asked = list(getattr(request, self._shape.asked))
        self._validate_only = getattr(request, "validate_only")  # noqa: B009 - all three have it
        # The broker refuses a resource that is asked twice: which of the two would be ours to judge?
        times = Counter(map(self._shape.identity, self._asked))
        forwarded = tuple(
            self._stripped(element, once=times[self._shape.identity(element)] == 1) for element in self._asked
        )
        if not self._refused:
            return opened.with_message(replace_fields(request, **{self._shape.asked: forwarded}))
        kept = tuple(element for element in forwarded if self._shape.identity(element) not in self._refused)
        if not kept:
            return Answer(self._own_answer(header))
        return opened.with_message(replace_fields(request, **{self._shape.asked: kept}))

    @property
    def wants_response(self) -> bool:
        return bool(self._changes or self._refused)

    def response(self, frame: bytes) -> bytes | Hold:
        opened = decode_response(self._shape.response, frame, self._version)
        results: dict[Identity, Any] = {}
        for result in getattr(opened.message, self._shape.answered):
            results.setdefault(self._shape.identity(result), result)
        agreed = {
            identity: self._with_id(change, results[identity])
            for identity, change in self._changes.items()
            if identity in results and results[identity].error_code == ErrorCode.NONE
        }
        failures: dict[str, str] = {}

        async def store() -> None:
            failures.update(await self._keeper.alter(list(agreed.values())))

        def then() -> bytes:
            return self._answered(opened, agreed, failures)

        return Hold(store, then) if agreed and not self._validate_only else then()

    def _stripped(self, element: Any, once: bool) -> Any:
        """What the broker is asked of one resource; notes what becomes of the rest."""
        shape, own = self._shape, self._keeper.own
        identity = kind, topic = shape.identity(element)
        if kind != TOPIC:
            return element
        mine = [config for config in element.configs if shape.is_own(own, config)]
        if once and (mine or (shape.replaces and self._is_affected(topic))):
            sets = shape.sets(own, mine)
            if isinstance(sets, Refusal):
                self._refused[identity] = sets
            elif (trouble := self._keeper.trouble) is not None:
                self._refused[identity] = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Nothing was changed: {trouble}")
            else:
                self._changes[identity] = Change(topic, sets, shape.replaces)
        if not mine:
            return element
        return replace_fields(
            element, configs=tuple(config for config in element.configs if not shape.is_own(own, config))
        )

    def _is_affected(self, topic: str) -> bool:
        """Whether a request that names none of our configs takes something away from this topic."""
        if self._shape.key == ApiKey.CREATE_TOPICS:
            return self._keeper.trouble is None and bool(self._keeper.entries.of(topic, NO_ID))
        return self._keeper.trouble is not None or bool(self._keeper.entries.of(topic, NO_ID))

    def _with_id(self, change: Change, result: Any) -> Change:
        topic_id = getattr(result, "topic_id", NO_ID)
        return change if topic_id == NO_ID else Change(change.topic, change.sets, change.replaces, topic_id)

    def _own_answer(self, header: OpenRequest) -> bytes:
        refused = tuple(
            self._shape.refused(element, self._refused[self._shape.identity(element)]) for element in self._asked
        )
        response = replace_fields(self._shape.response(), **{self._shape.answered: refused})
        return encode_response(response, self._version, header.correlation_id)

    def _answered(
        self, opened: Opened[Message], agreed: Mapping[Identity, Change], failures: Mapping[str, str]
    ) -> bytes:
        """The broker's answers with ours among them, in the order of the request."""
        response = opened.message
        results: dict[Identity, list[Any]] = {}
        for result in getattr(response, self._shape.answered):
            identity = self._shape.identity(result)
            results.setdefault(identity, []).append(self._told(result, agreed.get(identity), failures))
        if not self._refused:
            return opened.with_message(replace_fields(response, **{self._shape.answered: _flat(results)}))
        ordered: dict[Identity, list[Any]] = {}
        for element in self._asked:
            identity = self._shape.identity(element)
            if identity in self._refused:
                ordered[identity] = [self._shape.refused(element, self._refused[identity])]
            elif identity in results:
                ordered[identity] = results[identity]
        rest = {identity: same for identity, same in results.items() if identity not in ordered}
        return opened.with_message(replace_fields(response, **{self._shape.answered: _flat(ordered | rest)}))

    def _told(self, result: Any, change: Change | None, failures: Mapping[str, str]) -> Any:
        """One result of the broker's as the client is told it."""
        if change is None:
            return result
        if (why := failures.get(change.topic)) is not None:
            return replace_fields(result, error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=why)
        if self._shape.key != ApiKey.CREATE_TOPICS or result.configs is None:
            return result
        shown = tuple(
            CreatableTopicConfigs(name=name, value=value, config_source=DYNAMIC_TOPIC_CONFIG)
            for name, value in change.sets.items()
        )
        return replace_fields(result, configs=result.configs + shown)


def _flat(results: Mapping[Identity, list[Any]]) -> tuple[Any, ...]:
    return tuple(result for same in results.values() for result in same)
