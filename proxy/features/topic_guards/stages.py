"""CreateTopics, CreatePartitions, AlterConfigs, IncrementalAlterConfigs, DeleteTopics and
AlterPartitionReassignments: the stages of guards.

    request --> each topic checked --> what violates a guard is cut out --> the stages that follow --> broker
                     |
                     +--> own questions to the broker, which change nothing: its defaults, the value that is appended
                          to, and whether it rejects the topic itself

A broker calls its own policies last (KIP-108, KIP-133), so what it rejects itself keeps its own error: an application
that creates its topics at each start still gets TOPIC_ALREADY_EXISTS.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import decode_response
from kafka_sidecar.codec.message import Message, first_version, replace_fields
from kafka_sidecar.codec.messages.create_topics import CreatableTopicResult
from kafka_sidecar.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges import elements
from kafka_sidecar.proxy.exchanges.elements import Cut, ElementsApi, rejection_of
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import (
    TOPIC_RESOURCE,
    UNKNOWN_ID,
    MessageRun,
    MessageStage,
    OpenMessage,
    Rejection,
    resolve,
)
from kafka_sidecar.proxy.features.denials import MAX_NAMED, Denials, Denied, explained
from kafka_sidecar.proxy.features.topic_guards.guards import (
    Creation,
    Guard,
    Guards,
    Operation,
    Rule,
    Violation,
    describe,
)
from kafka_sidecar.proxy.relay.exchange import Client

DEFAULT = -1  # of numbers that the broker is to choose (KIP-464)
WITH_NUMBERS = first_version(CreatableTopicResult, "num_partitions")
DESCRIBED = 1  # the version of our own DescribeConfigs
OF_THE_TOPIC, OF_KAFKA = 1, 5  # Kafka's DescribeConfigsResponse.ConfigSource


class What(NamedTuple):
    """An operation on a topic, as denials have it."""

    operation: str
    resource: str
    name: str


@dataclass(frozen=True, slots=True)
class Site:
    """What the stages have in common."""

    guards: Guards
    own_configs: Callable[[], Collection[str]]  # that the sidecar itself keeps
    name_of: Callable[[bytes], str | None]  # a topic's name by its id
    is_known: Callable[[str], bool]  # whether a topic was there a moment ago
    denials: Denials

    def denied(
        self, key: int, operation: str, topic: str, guard: Guard, violations: Sequence[Violation], client: Client
    ) -> Denied:
        """What violates a guard, as clients and operators see it."""
        what = What(operation, "topic", topic)
        return Denied(
            ErrorCode.POLICY_VIOLATION, describe(topic, guard, violations), what,
            self.denials.id_of(key, what, client.principal), guard.mode, violations[0].rule,
        )  # fmt: skip


@dataclass(slots=True)
class Checked:
    """One topic of a request to which a guard applies."""

    at: int  # among the elements of the request
    element: Any
    name: str
    guard: Guard
    violations: list[Violation]
    is_open: bool  # it depends on what only the broker knows
    rejection: Rejection | None = None  # of the broker
    instead: Any = None  # an element that is sent in its place

    @property
    def is_refused(self) -> bool:
        return self.guard.is_enforced and bool(self.violations)


Found = tuple[Iterable[Violation], bool]  # and whether more may be found once the broker is asked
Find = Callable[[Guard, Any, Collection[str]], Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedApi(ElementsApi):
    """One API. ``Any`` is an element of its request."""

    key: ApiKey
    operation: str  # Kafka's AclOperation
    find: Find  # what of an element violates a guard
    name_of: Callable[[Any], str | bytes | None]  # the topic's name or its id; None: it is no topic
    without: Callable[[Any, Collection[str]], Any] | None = None  # an element without these configs
    question_from: int | None = 0  # the oldest version in which a broker can be asked first; None: it cannot


class GuardTopicsRun(MessageRun):
    """One request and its response."""

    __slots__ = ("_api", "_client", "_cut", "_site", "_version")

    def __init__(self, api: GuardedApi, site: Site, client: Client, version: int) -> None:
        self._api = api
        self._site = site
        self._client = client
        self._version = version
        self._cut: Cut | None = None

    @property
    def wants_response(self) -> bool:
        return self._cut is not None

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        api, site = self._api, self._site
        message = yield from request.read(api.request)
        every = api.elements(message)
        ids = yield from offload(partial(self._ids, every), request.elements)
        yield from resolve(ids, site.name_of)
        checked = yield from offload(partial(self._check, every), request.elements)
        yield from self._ask(request, message, checked)
        decided = yield from offload(partial(self._decide, every, checked), request.elements)
        site.denials.record(api.key, decided.denied, self._client)
        if decided.instead:
            rest = tuple(decided.instead.get(at, one) for at, one in enumerate(every))
            message = replace_fields(message, **{api.arrays[0]: rest})
        elif not decided.rejects:
            return None
        cut = yield from offload(partial(api.cut, message, decided.why), request.elements)
        if cut.rejected and cut.answer is None:
            self._cut = cut
        request.replace(cut.request)
        return cut.answer

    def response(self, response: OpenMessage) -> Steps[None]:
        assert self._cut is not None
        message, name = (yield from response.read(self._api.response)), self._api.results
        complete = partial(self._cut.complete, getattr(message, name))
        response.replace(replace_fields(message, **{name: (yield from offload(complete, response.elements))}))

    def _ids(self, every: Iterable[Any]) -> list[bytes]:
        return [named for one in every if isinstance(named := self._api.name_of(one), bytes)]

    def _check(self, every: Iterable[Any]) -> list[Checked]:
        """The topics that violate a guard, or may do so."""
        found: list[Checked] = []
        own = self._site.own_configs()
        for at, element in enumerate(every):
            if (name := self._name_of(element)) is None:
                continue
            if (guard := self._site.guards.of(name, self._client.principal)) is not None:
                violations, may_be_more = self._api.find(guard, element, own)
                one = Checked(at, element, name, guard, list(violations), may_be_more)
                if one.violations or one.is_open:
                    found.append(one)
        return found

    def _unknown(self, every: Iterable[Any]) -> list[Rejection | None]:
        """Of each element, why it is rejected: whether it may be deleted is not known of a topic without a name."""
        passes = not self._site.guards.any(lambda guard: guard.is_enforced and not guard.may_delete)
        return [
            None if passes or named in (None, NO_ID) or self._name_of(one) is not None else UNKNOWN_ID
            for one in every
            for named in [self._api.name_of(one)]
        ]

    def _name_of(self, element: Any) -> str | None:
        named = self._api.name_of(element)
        return self._site.name_of(named) if isinstance(named, bytes) else named

    def _ask(self, request: OpenMessage, message: Any, checked: Sequence[Checked]) -> Steps[None]:
        """Find out what is open, and what the broker rejects itself."""
        api, own = self._api, self._site.own_configs()
        asked = [one for one in checked if one.is_refused or (one.is_open and not one.violations)]
        if api.question_from is None or api.identify is None or not asked:
            return
        without = api.without
        plain = (without(one.element, own) if without is not None else one.element for one in asked)
        version = max(self._version, api.question_from)
        results = yield from api.validate(request, message, plain, version, self._client)
        yield from offload(partial(self._take, asked, results), request.elements)

    def _take(self, asked: Iterable[Checked], results: Mapping[Hashable, Any]) -> None:
        """Note what the broker has answered."""
        identify = self._api.identify
        assert identify is not None
        for one in asked:
            result = results.get(identify(one.element))
            if (rejection := rejection_of(result)) is not None:
                one.is_open = False
                if one.guard.is_enforced:
                    one.rejection, one.violations = rejection, []
            elif not one.violations:
                self._close(one, result)

    def _close(self, one: Checked, result: Any) -> None:
        """The broker has said what was open."""

    def _decide(self, every: Sequence[Any], checked: Sequence[Checked]) -> _Decided:
        decided = _Decided(self._unknown(every))
        for one in checked:
            if one.violations:
                denied = self._site.denied(
                    self._api.key, self._api.operation, one.name, one.guard, one.violations, self._client
                )
                decided.denied.append(denied)
                if one.guard.is_enforced:
                    one.rejection = explained(denied) if len(decided.denied) <= MAX_NAMED else denied
            decided.why[one.at] = one.rejection
            if one.instead is not None and one.rejection is None:
                decided.instead[one.at] = one.instead
        if (identify := self._api.identify) is not None and decided.rejects:
            # A topic that is named twice has one result for clients; brokers reject both as well.
            rejected = {identify(every[one.at]): one.rejection for one in checked if one.rejection is not None}
            decided.why = [why or rejected.get(identify(one)) for one, why in zip(every, decided.why, strict=True)]
        return decided


@dataclass(slots=True)
class _Decided:
    """What becomes of the elements of a request."""

    why: list[Rejection | None]  # of each
    denied: list[Denied] = field(default_factory=list)
    instead: dict[int, Any] = field(default_factory=dict)

    @property
    def rejects(self) -> bool:
        return any(why is not None for why in self.why)


class CreationRun(GuardTopicsRun):
    """One CreateTopics and its response. The broker says its defaults, as it does in every response to a creation."""

    __slots__ = ()

    def _close(self, one: Checked, result: Any) -> None:
        known = creation(one.element, result.num_partitions, result.replication_factor)
        if one.guard.depends_on_defaults(known):
            one.violations = [
                Violation(
                    Rule.PARTITIONS,
                    "the broker does not tell this client its defaults: name the numbers of partitions and replicas, "
                    "or allow it to describe configs",
                )
            ]
        else:
            one.violations = list(one.guard.of_creation(known, self._site.own_configs()))


class IncrementalRun(GuardTopicsRun):
    """One IncrementalAlterConfigs and its response.

    What is appended to a config, or subtracted from it, is sent as the whole value that was checked: another client
    may change it in between.
    """

    __slots__ = ()

    def _ask(self, request: OpenMessage, message: Any, checked: Sequence[Checked]) -> Steps[None]:
        yield from super()._ask(request, message, checked)
        if not (asked := [one for one in checked if one.is_open and not one.violations]):
            return
        resources = tuple(
            DescribeConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=one.name, configuration_keys=tuple(_appended(one))
            )
            for one in asked
        )
        question = DescribeConfigsRequest(resources=resources, include_synonyms=True)
        answer = yield from request.ask(question, DESCRIBED, self._client)
        decode = partial(decode_response, DescribeConfigsResponse, answer, DESCRIBED)
        opened = yield from offload(decode, request.elements)
        results = {result.resource_name: result for result in opened.message.results}
        for one in asked:
            result = results.get(one.name)
            if (rejection := rejection_of(result)) is None:
                self._complete(one, result)
            elif one.guard.is_enforced:
                one.rejection = rejection

    def _complete(self, one: Checked, result: Any) -> None:
        current = {config.name: _base(config) for config in result.configs}
        configs = tuple(_whole(config, one.guard, current) for config in one.element.configs)
        one.violations = list(one.guard.of_incremental(_triples(configs), self._site.own_configs()))
        if one.guard.is_enforced:
            one.instead = replace_fields(one.element, configs=configs)


_LISTED = (Operation.APPEND, Operation.SUBTRACT)


def _appended(one: Checked) -> dict[str, None]:
    """The configs of which the value that there is now has to be known."""
    return dict.fromkeys(
        config.name
        for config in one.element.configs
        if config.config_operation in _LISTED and one.guard.limits_value(config.name)
    )


def _base(config: Any) -> str:
    """The value to which a controller appends: the topic's own, or else Kafka's default, whatever brokers have."""
    found = {synonym.source: synonym.value for synonym in config.synonyms}
    return next((value for source in (OF_THE_TOPIC, OF_KAFKA) if (value := found.get(source)) is not None), "")


def _whole(config: Any, guard: Guard, current: Mapping[str, str]) -> Any:
    """A change of a list as the value that it makes."""
    if config.config_operation not in _LISTED or not guard.limits_value(config.name) or config.name not in current:
        return config
    parts = list(filter(None, current[config.name].split(",")))
    changed = list(filter(None, (config.value or "").split(",")))
    if config.config_operation == Operation.APPEND:
        parts += [part for part in dict.fromkeys(changed) if part not in parts]
    else:
        parts = [part for part in parts if part not in changed]
    return replace_fields(config, config_operation=int(Operation.SET), value=",".join(parts))


def creation(topic: Any, partitions: int = DEFAULT, replication_factor: int = DEFAULT) -> Creation:
    """What a client asks for; the numbers that it leaves to the broker are given."""
    configs = [(config.name, config.value) for config in topic.configs]
    if topic.assignments:
        factors = {len(one.broker_ids) for one in topic.assignments}
        return Creation(topic.name, len(topic.assignments), factors, configs)
    partitions = topic.num_partitions if topic.num_partitions != DEFAULT else partitions
    factor = topic.replication_factor if topic.replication_factor != DEFAULT else replication_factor
    return Creation(
        topic.name, None if partitions == DEFAULT else partitions, None if factor == DEFAULT else (factor,), configs
    )


def _triples(configs: Iterable[Any]) -> list[tuple[str, int, str | None]]:
    """Name, operation and value; a part of a list is no value."""
    return [
        (config.name, config.config_operation, None if config.config_operation in _LISTED else config.value)
        for config in configs
    ]


def _find_creation(guard: Guard, topic: Any, own: Collection[str]) -> Found:
    asked = creation(topic)
    return guard.of_creation(asked, own), guard.depends_on_defaults(asked)


def _find_replaced(guard: Guard, resource: Any, own: Collection[str]) -> Found:
    return guard.of_replaced([(config.name, config.value) for config in resource.configs], own), False


def _find_incremental(guard: Guard, resource: Any, own: Collection[str]) -> Found:
    is_open = any(config.config_operation in _LISTED and guard.limits_value(config.name) for config in resource.configs)
    return guard.of_incremental(_triples(resource.configs), own), is_open


def _find_partitions(guard: Guard, topic: Any, own: Collection[str]) -> Found:
    return guard.of_partitions(topic.count), False


def _find_reassignment(guard: Guard, topic: Any, own: Collection[str]) -> Found:
    return guard.of_replicas({len(one.replicas) for one in topic.partitions if one.replicas is not None}), False


def _find_deletion(guard: Guard, topic: Any, own: Collection[str]) -> Found:
    return guard.of_deletion(), False


def _name(topic: Any) -> str:
    name: str = topic.name
    return name


def _name_of_resource(resource: Any) -> str | None:
    return resource.resource_name if resource.resource_type == TOPIC_RESOURCE else None


def _name_or_id(topic: Any) -> str | bytes:
    found: str | bytes = topic if isinstance(topic, str) else topic.topic_id if topic.name is None else topic.name
    return found


def _without(element: Any, own: Collection[str]) -> Any:
    return replace_fields(element, configs=tuple(one for one in element.configs if one.name not in own))


def _guarded(
    api: ElementsApi, key: ApiKey, operation: str, find: Find, name_of: Callable[[Any], str | bytes | None], **more: Any
) -> GuardedApi:
    return api.extended(GuardedApi, key=key, operation=operation, find=find, name_of=name_of, **more)


GUARDED_APIS: Mapping[int, GuardedApi] = {
    api.key: api
    for api in (
        _guarded(
            elements.CREATE_TOPICS, ApiKey.CREATE_TOPICS, "create", _find_creation, _name, without=_without,
            question_from=WITH_NUMBERS,
        ),
        _guarded(elements.CREATE_PARTITIONS, ApiKey.CREATE_PARTITIONS, "alter", _find_partitions, _name),
        _guarded(
            elements.ALTER_CONFIGS, ApiKey.ALTER_CONFIGS, "alter_configs", _find_replaced, _name_of_resource,
            without=_without,
        ),
        _guarded(
            elements.INCREMENTAL_ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, "alter_configs", _find_incremental,
            _name_of_resource, without=_without,
        ),
        _guarded(
            elements.DELETE_TOPICS, ApiKey.DELETE_TOPICS, "delete", _find_deletion, _name_or_id, question_from=None
        ),
        _guarded(
            elements.ALTER_PARTITION_REASSIGNMENTS, ApiKey.ALTER_PARTITION_REASSIGNMENTS, "alter", _find_reassignment,
            _name, question_from=None,
        ),
    )
}  # fmt: skip
_RUNS: Mapping[int, type[GuardTopicsRun]] = {  # in place of `GuardTopicsRun`
    ApiKey.CREATE_TOPICS: CreationRun,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: IncrementalRun,
}


def guard_topics(key: int, site: Site) -> MessageStage:
    """The stage of one of these APIs."""
    return partial(_RUNS.get(key, GuardTopicsRun), GUARDED_APIS[key], site)
