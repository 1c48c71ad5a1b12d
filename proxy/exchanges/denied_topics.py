"""Topics that a client may not name in requests of some APIs: each is answered as by an authorizer that denies it, the
other topics of the request go on.

    request --> denied topics cut out --> what else looks into it --> broker
    client <-- TOPIC_AUTHORIZATION_FAILED for them added <-- what else looks into it <-- broker's response

Produce is denied by a stage of its exchange (`denied_produce`), so that its frame is opened once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from kafka_sidecar.codec.apis import APIS, ErrorCode
from kafka_sidecar.codec.envelope import decode_request, decode_response, encode_response
from kafka_sidecar.codec.message import Struct, replace_fields
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.exchanges.topic_apis import TOPIC_APIS, TopicError
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
    TopicNames,
    Work,
)

UNKNOWN_ID = TopicError(ErrorCode.UNKNOWN_TOPIC_ID, "the topic's id is not known here")


@dataclass(frozen=True, slots=True)
class DeniedTopics:
    """Which topics are denied in requests of which APIs."""

    apis: Collection[int]
    # Why a topic is denied to a principal in requests of an API; None: it is not.
    explain: Callable[[int, str, str | None], str | None]
    name_of: Callable[[bytes], str | None]  # a topic's name by its id
    counts: Counter[str]  # of denied topics, by API
    concerns: Callable[[int, str], bool]  # whether the topic may be denied to anybody in requests of the API

    def check(self, key: int, topic: str | bytes | None, principal: str | None) -> TopicError | None:
        """Why a client may not name a topic, if so. Where its name is not known the request cannot go on either."""
        if topic is None:
            return None
        name = self.name_of(topic) if isinstance(topic, bytes) else topic
        if name is None:
            return UNKNOWN_ID if topic != NO_ID else None
        if (why := self.explain(key, name, principal)) is None:
            return None
        self.counts[APIS[key].name] += 1
        return TopicError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, why)

    def guard(self, key: int, version: int, begin: Begin | None) -> Begin | None:
        """What looks into requests of this API and version, where ``begin`` looks into what is not denied."""
        if key not in self.apis or key not in TOPIC_APIS:
            return begin

        def guarded(data: bytes, at: int, size: int, client: Client) -> Exchange:
            found = begin(data, at, size, client) if begin is not None else None
            if isinstance(found, Look):
                found = found.start()
            return DenyExchange(self, key, version, client, None if isinstance(found, Pass) else found)

        return guarded


class DenyExchange(Exchange):
    """One request and its response. What is not denied is for ``inner``, if there is one."""

    __slots__ = ("_api", "_client", "_inner", "_inner_wants_response", "_key", "_results", "_rules", "_version")

    def __init__(self, rules: DeniedTopics, key: int, version: int, client: Client, inner: Exchange | None) -> None:
        self._rules = rules
        self._key = key
        self._api = TOPIC_APIS[key]
        self._client = client
        self._version = version
        self._inner = inner
        self._inner_wants_response = False
        self._results: list[Struct] = []  # of denied topics

    def request(self, frame: bytes) -> Steps[Outcome]:
        api, rules = self._api, self._rules
        opened, body = decode_request(api.request, frame)
        elements: dict[str, tuple[Any, ...]] = {name: getattr(body.message, name) for name in api.elements}
        ids = {key for some in elements.values() for one in some if isinstance(key := api.topic_of(one), bytes)}
        if unknown := tuple(one for one in ids - {NO_ID} if rules.name_of(one) is None):
            yield TopicNames(unknown)
        kept = {name: tuple(filter(self._is_allowed, some)) for name, some in elements.items()}
        if self._results and not any(kept.values()):
            response = replace_fields(api.response(), **{api.results: tuple(self._results)})
            return Respond(encode_response(response, self._version, opened.correlation_id))
        if self._results:
            frame = body.with_message(replace_fields(body.message, **kept))
        outcome = (yield from self._inner.request(frame)) if self._inner is not None else Forward(frame)
        if isinstance(outcome, Respond):
            return Respond(self._add_results(outcome.frame))
        if isinstance(outcome, Forward):
            self._inner_wants_response = outcome.wants_response
            return Forward(outcome.frame, outcome.wants_response or bool(self._results))
        return outcome

    def response(self, frame: bytes) -> Steps[bytes]:
        if self._inner is not None and self._inner_wants_response:
            frame = yield from self._inner.response(frame)
        return self._add_results(frame)

    def lost(self, why: str) -> Work | None:
        return self._inner.lost(why) if self._inner is not None else None

    def _is_allowed(self, element: Any) -> bool:
        error = self._rules.check(self._key, self._api.topic_of(element), self._client.principal)
        if error is not None:
            self._results.append(self._api.reject(element, error))
        return error is None

    def _add_results(self, frame: bytes) -> bytes:
        """The response with the denied topics after all others: clients look results up by topic."""
        if not self._results:
            return frame
        results, body = self._api.results, decode_response(self._api.response, frame, self._version)
        merged = (*getattr(body.message, results), *self._results)
        return body.with_message(replace_fields(body.message, **{results: merged}))
