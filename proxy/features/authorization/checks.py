"""Requests that need what a client is not allowed: each is answered as by an authorizer that denies it.

    request --> denied as a whole: answered here
            --> denied elements (topics, groups, transactions) cut out --> the stages that follow --> broker
    client <-- the errors of denied elements added <-- the stages that follow <-- broker's response

Produce is checked by a stage among those of its records, so that its frame is opened once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import OpenRequest
from kafka_sidecar.codec.message import Message, Struct, replace_fields
from kafka_sidecar.codec.scan import ProduceSpans, TopicSpan
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.elements import Cut
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import UNKNOWN_ID, MessageRun, OpenMessage, Rejection, resolve
from kafka_sidecar.proxy.exchanges.produce import StageRun
from kafka_sidecar.proxy.exchanges.produce_response import PartitionRejection
from kafka_sidecar.proxy.features.authorization.acls import Operation
from kafka_sidecar.proxy.features.authorization.checked_apis import (
    ERRORS,
    CheckedApi,
    Need,
    Shown,
    on_topic,
    on_transaction,
)
from kafka_sidecar.proxy.features.denials import MAX_NAMED, Denials, Denied, explained
from kafka_sidecar.proxy.relay.acks import ProduceHead
from kafka_sidecar.proxy.relay.exchange import Client


@dataclass(frozen=True, slots=True)
class Rules:
    """Answers whether a client may do something, in any thread."""

    # Why a principal is denied something in requests of an API; None: it is not. The need's name is a name, no id.
    explain: Callable[[int, Need, str | None], str | None]
    name_of: Callable[[bytes], str | None]  # a topic's name by its id
    denials: Denials
    generation: object = field(default_factory=object)  # another one with each configuration

    def check(self, key: int, need: Need | None, principal: str | None) -> Rejection | None:
        """Why a client is denied this, if so. Where a topic's name is not known the request cannot go on either."""
        if need is None:
            return None
        if isinstance(need.name, bytes):
            name = self.name_of(need.name)
            if name is None:
                return UNKNOWN_ID if need.name != NO_ID else None
            need = need._replace(name=name)
        why = self.explain(key, need, principal)
        return self._denied(key, need, principal, why) if why is not None else None

    def _denied(self, key: int, need: Need, principal: str | None, why: str) -> Denied:
        return Denied(ERRORS[need.resource], why, need, self.denials.id_of(key, need, principal))

    def allow_all(self, key: int, needs: Sequence[Need], client: Client) -> bool:
        """Whether a client is allowed all of this."""
        are_allowed = all(self.allows(key, need, client.principal) for need in needs)
        if are_allowed and self.denials.wants_allowed:
            self.allowed(key, needs, client)
        return are_allowed

    def allowed(self, key: int, needs: Iterable[Need | None], client: Client) -> None:
        """A request may go on with these; called where a feature wants to know."""
        named = (self._named(need) for need in needs if need is not None)
        self.denials.allow(key, (need for need in named if need is not None), client)

    def _named(self, need: Need) -> Need | None:
        name = self.name_of(need.name) if isinstance(need.name, bytes) else need.name
        return need._replace(name=name) if name is not None else None

    def allows(self, key: int, need: Need, principal: str | None) -> bool:
        """Whether a client is allowed this."""
        name = self.name_of(need.name) if isinstance(need.name, bytes) else need.name
        return name is not None and self.explain(key, need._replace(name=name), principal) is None


class CheckRun(MessageRun):
    """One request and its response, of an API whose requests all have to pass."""

    __slots__ = ("_api", "_client", "_cut", "_key", "_request", "_rules", "_shown", "_version")

    def __init__(self, rules: Rules, key: int, api: CheckedApi, client: Client, version: int) -> None:
        self._rules = rules
        self._key = key
        self._api = api
        self._client = client
        self._version = version
        self._cut: Cut | None = None  # with denied elements
        self._shown: Shown | None = None  # what of the broker's results, to the request
        self._request: Any = None

    @property
    def wants_response(self) -> bool:
        return self._cut is not None or self._shown is not None

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        api, rules = self._api, self._rules
        watches = rules.denials.wants_allowed
        if api.unless is not None and rules.allows(self._key, api.unless, self._client.principal):
            if watches:
                rules.allowed(self._key, [api.unless], self._client)
            return None
        message = self._request = (yield from request.read(api.request)) if api.request is not Message else None
        if (why := (yield from offload(partial(self._refusal, message), request.elements))) is not None:
            rules.denials.record(self._key, [why], self._client)
            return api.refusal(message, explained(why))
        self._shown = api.shown
        if watches:
            rules.allowed(self._key, api.needs(message), self._client)
        if not api.arrays:
            return None
        ids = yield from offload(partial(_topic_ids, api, message), request.elements)
        yield from resolve(ids, rules.name_of)
        denied = yield from offload(partial(self._denied, message), request.elements)
        rules.denials.record(self._key, [why for why in denied if why is not None], self._client)
        cut = yield from offload(partial(self._without, message, denied), request.elements)
        if watches and (kept := api.elements(cut.request)):
            rules.allowed(self._key, (api.need_of(one, message) for one in kept), self._client)
        if not cut.rejected:
            return None
        if cut.answer is not None and not api.asks_for_none:
            return cut.answer
        self._cut = cut
        request.replace(cut.request)
        return None

    def response(self, response: OpenMessage) -> Steps[None]:
        """Leave out what the client may not see, and add the results of denied elements."""
        name, message = self._api.results, (yield from response.read(self._api.response))
        if self._shown is None and getattr(message, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
            return  # of the whole: then a broker has no results of parts
        sight = _Sight(self._rules, self._key, self._client.principal)
        visible = yield from offload(partial(self._completed, getattr(message, name), sight), response.elements)
        self._rules.denials.record(self._key, sight.denied, self._client)
        response.replace(replace_fields(message, **{name: visible}))

    def _refusal(self, message: Any) -> Rejection | None:
        """Why the request is denied as a whole, if it is."""
        checked = (self._rules.check(self._key, need, self._client.principal) for need in self._api.needs(message))
        return next((why for why in checked if why is not None), None)

    def _denied(self, message: Any) -> list[Rejection | None]:
        """Of each element, why it is denied."""
        needs = (self._api.need_of(one, message) for one in self._api.elements(message))
        return [self._rules.check(self._key, need, self._client.principal) for need in needs]

    def _without(self, message: Any, denied: Sequence[Rejection | None]) -> Cut:
        named = set(islice((at for at, one in enumerate(denied) if one is not None), MAX_NAMED))
        why = [explained(one) if one is not None and at in named else one for at, one in enumerate(denied)]
        if (others := self._api.error_of_others) is not None and any(why):
            why = [one or Rejection(others, "another topic of the request is denied") for one in why]
        return self._api.cut(message, why)

    def _completed(self, results: Iterable[Struct], sight: _Sight) -> tuple[Struct, ...]:
        """What the client gets of the broker's results, with those of denied elements."""
        visible = self._visible(results, sight)
        return self._cut.complete(visible) if self._cut is not None else tuple(visible)

    def _visible(self, results: Iterable[Struct], sight: _Sight) -> Iterable[Struct]:
        if (shown := self._shown) is None:
            return results
        changed = (shown(one, self._request, sight) for one in results)
        return [one for one in changed if one is not None]


@dataclass(slots=True)
class _Sight:
    """As `checked_apis.Sight`."""

    rules: Rules
    key: int
    principal: str | None
    denied: list[Rejection] = field(default_factory=list)

    def __call__(self, need: Need) -> bool:
        return self.rules.allows(self.key, need, self.principal)

    def deny(self, need: Need) -> Rejection | None:
        if (why := self.rules.check(self.key, need, self.principal)) is not None:
            self.denied.append(why)
        return why


def _topic_ids(api: CheckedApi, message: Any) -> list[bytes]:
    needs = (api.need_of(one, message) for one in api.elements(message))
    return [need.name for need in needs if need is not None and isinstance(need.name, bytes)]


class CheckProduce:
    """The stage of a Produce that lets no records into denied topics, or of denied transactions. It comes first."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def allows(self, client: Client, head: ProduceHead, topics: Sequence[str | bytes]) -> bool:
        """As `exchanges.limits.Guard`."""
        needs = [on_topic(Operation.WRITE, topic) for topic in topics]
        if head.transactional_id is not None:
            needs.append(on_transaction(Operation.WRITE, head.transactional_id))
        return self._rules.allow_all(ApiKey.PRODUCE, needs, client)

    def start(self, client: Client, version: int) -> CheckProduceRun:
        return CheckProduceRun(self._rules, client)


class CheckProduceRun(StageRun):
    """One request."""

    __slots__ = ("_client", "_rules", "_transaction")

    wants_response = False

    def __init__(self, rules: Rules, client: Client) -> None:
        self._rules = rules
        self._client = client
        self._transaction: Rejection | None = None

    def open(self, request: OpenRequest, spans: ProduceSpans) -> None:
        if spans.transactional_id is not None:
            need = on_transaction(Operation.WRITE, spans.transactional_id)
            self._transaction = self._check(need)

    def admit(self, topic: str | None, topic_id: bytes, span: TopicSpan) -> PartitionRejection | None:
        need = on_topic(Operation.WRITE, topic_id if topic is None else topic)
        denial = self._transaction or self._check(need)
        return PartitionRejection(denial.error_code, explained(denial).message) if denial is not None else None

    def _check(self, need: Need) -> Rejection | None:
        if (denial := self._rules.check(ApiKey.PRODUCE, need, self._client.principal)) is not None:
            self._rules.denials.record(ApiKey.PRODUCE, [denial], self._client)
        return denial
