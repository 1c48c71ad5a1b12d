"""Requests that need what a client is not allowed: each is answered as by an authorizer that denies it.

    request --> denied as a whole: answered here
            --> denied elements (topics, groups, transactions) cut out --> what else looks into it --> broker
    client <-- the errors of denied elements added <-- what else looks into it <-- broker's response

Produce is denied by a stage of its exchange (`denied_produce`), so that its frame is opened once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_sidecar.codec.apis import APIS, ErrorCode
from kafka_sidecar.codec.envelope import decode_request, decode_response, encode_response, open_request
from kafka_sidecar.codec.message import Message, Struct, replace_fields
from kafka_sidecar.codec.pieces import Pieces, whole
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.exchanges.rejections import Rejection
from kafka_sidecar.proxy.features.authorization.checked_apis import ERRORS, CheckedApi, Elements, Need, Shown
from kafka_sidecar.proxy.relay.exchange import (
    Begin,
    Client,
    Exchange,
    Forward,
    Look,
    Outcome,
    OuterExchange,
    Pass,
    Respond,
    Steps,
    TopicNames,
)

UNKNOWN_ID = Rejection(ErrorCode.UNKNOWN_TOPIC_ID, "the topic's id is not known here")


@dataclass(frozen=True, slots=True)
class Denials:
    """What is denied to whom."""

    apis: Mapping[int, CheckedApi]
    # Why a principal is denied something in requests of an API; None: it is not. The need's name is a name, no id.
    explain: Callable[[int, Need, str | None], str | None]
    name_of: Callable[[bytes], str | None]  # a topic's name by its id
    counts: Counter[str]  # of denied resources, by API
    concerns: Callable[[int, str], bool]  # whether a topic may be denied to anybody in requests of the API

    def check(self, key: int, need: Need | None, principal: str | None) -> Rejection | None:
        """Why a client is denied this, if so. Where a topic's name is not known the request cannot go on either."""
        if need is None:
            return None
        if isinstance(need.name, bytes):
            name = self.name_of(need.name)
            if name is None:
                return UNKNOWN_ID if need.name != NO_ID else None
            need = need._replace(name=name)
        if (why := self.explain(key, need, principal)) is None:
            return None
        self.counts[APIS[key].name] += 1
        return Rejection(ERRORS[need.resource], why)

    def allows(self, key: int, need: Need, principal: str | None) -> bool:
        """Whether a client is allowed this, which it has not asked for: nothing is counted."""
        name = self.name_of(need.name) if isinstance(need.name, bytes) else need.name
        return name is not None and self.explain(key, need._replace(name=name), principal) is None

    def guard(self, key: int, version: int, begin: Begin | None) -> Begin | None:
        """What looks into requests of this API and version, where ``begin`` looks into what is not denied."""
        if (api := self.apis.get(key)) is None:
            return begin

        def guarded(data: bytes, at: int, size: int, client: Client) -> Exchange:
            return DenyExchange(self, key, api, version, client, inner_exchange(begin, data, at, size, client))

        return guarded


def inner_exchange(begin: Begin | None, data: bytes, at: int, size: int, client: Client) -> Exchange | None:
    """What else looks into a request, if anything."""
    found = begin(data, at, size, client) if begin is not None else None
    if isinstance(found, Look):
        found = found.start()
    return None if isinstance(found, Pass) else found


class DenyExchange(OuterExchange):
    """One request and its response. What is not denied is for ``inner``, if there is one."""

    __slots__ = (
        "_api",
        "_client",
        "_key",
        "_request",
        "_results",
        "_rules",
        "_shown",
        "_version",
    )

    def __init__(
        self, rules: Denials, key: int, api: CheckedApi, version: int, client: Client, inner: Exchange | None
    ) -> None:
        super().__init__(inner)
        self._rules = rules
        self._key = key
        self._api = api
        self._client = client
        self._version = version
        self._results: list[Struct] = []  # of denied elements
        self._shown: Shown | None = None  # what of the broker's results, to the request
        self._request: Any = None

    def request(self, frame: bytes) -> Steps[Outcome]:
        api = self._api
        if api.unless is None or not self._rules.allows(self._key, api.unless, self._client.principal):
            self._shown = api.shown
            body = decode_request(api.request, frame)[1] if api.request is not None else None
            request = self._request = body.message if body is not None else None
            if (refusal := self._refusal(request)) is not None:
                return self._respond(refusal, frame)
            if body is not None and api.elements is not None:
                kept = yield from self._kept(api.elements, request)
                if self._results and not any(kept.values()):
                    return self._respond(api.with_results(self._results), frame)
                if self._results:
                    frame = body.with_message(replace_fields(body.message, **kept))
        return (yield from self._forward(frame))

    def response(self, frame: bytes) -> Steps[bytes | Pieces]:
        response = yield from self.inner_response(frame)
        return self._change_results(whole(response)) if self._changes_response else response

    def _forward(self, frame: bytes) -> Steps[Outcome]:
        outcome = yield from self.ask_inner(frame)
        if isinstance(outcome, Respond):
            return Respond(self._change_results(outcome.frame))
        if isinstance(outcome, Forward):
            return Forward(outcome.frame, outcome.wants_response or self._changes_response)
        return outcome

    def _refusal(self, request: Any) -> Message | None:
        for need in self._api.needs(request):
            if (why := self._rules.check(self._key, need, self._client.principal)) is not None:
                return self._api.refusal(request, why)
        return None

    def _kept(self, elements: Elements, request: Any) -> Steps[dict[str, tuple[Any, ...]]]:
        """By array: the elements that are not denied. The results of the others are noted."""
        rules = self._rules
        needs = {
            name: [(one, elements.need_of(one, request)) for one in getattr(request, name)] for name in elements.arrays
        }
        ids = {need.name for some in needs.values() for _, need in some if need and isinstance(need.name, bytes)}
        if unknown := tuple(one for one in ids - {NO_ID} if rules.name_of(one) is None):
            yield TopicNames(unknown)
        kept: dict[str, tuple[Any, ...]] = {}
        for name, some in needs.items():
            checked = [(one, rules.check(self._key, need, self._client.principal)) for one, need in some]
            self._results += [elements.reject(one, why) for one, why in checked if why is not None]
            kept[name] = tuple(one for one, why in checked if why is None)
        if self._results and elements.error_of_others is not None:
            why = Rejection(elements.error_of_others, "another topic of the request is denied")
            self._results += [elements.reject(one, why) for some in kept.values() for one in some]
            return dict.fromkeys(kept, ())
        return kept

    @property
    def _changes_response(self) -> bool:
        return bool(self._results) or self._shown is not None

    def _respond(self, response: Message, frame: bytes) -> Respond:
        return Respond(encode_response(response, self._version, open_request(frame).correlation_id))

    def _change_results(self, frame: bytes) -> bytes:
        """The response without what the client may not see, and with denied elements after all others: clients look
        results up by name."""
        if not self._changes_response:
            return frame
        results, body = self._api.results, decode_response(self._api.response, frame, self._version)
        merged = (*self._visible(getattr(body.message, results)), *self._results)
        return body.with_message(replace_fields(body.message, **{results: merged}))

    def _visible(self, results: Iterable[Struct]) -> Iterable[Struct]:
        if (shown := self._shown) is None:
            return results
        changed = (shown(one, self._request, self._allows) for one in results)
        return (one for one in changed if one is not None)

    def _allows(self, need: Need) -> bool:
        return self._rules.allows(self._key, need, self._client.principal)
