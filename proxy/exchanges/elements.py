"""Elements of a request that a stage rejects one by one: topics, groups, resources, transactional ids.

request --> rejected elements cut out --> the stages that follow --> broker
        --> none is left: answered here
client <-- their results, each at its place in the request <-- the stages that follow <-- broker's response
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Any, TypeVar

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.message import Message, Struct, replace_fields
from kafka_sidecar.codec.messages import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    incremental_alter_configs,
)
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import TOPIC_RESOURCE, OpenMessage, Rejection
from kafka_sidecar.proxy.relay.exchange import Client, Send

A = TypeVar("A", bound="ElementsApi")


def _reject_nothing(of: Any, why: Rejection) -> Struct:
    raise AssertionError("an API without elements")


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementsApi:
    """An API whose requests may have elements with results of their own. ``Any``: such a request, element or result."""

    request: type[Message] = Message  # this one: it is not read
    response: type[Message]
    arrays: tuple[str, ...] = ()  # of the request, in its versions
    results: str = ""  # the array of the response
    reject: Callable[[Any, Rejection], Struct] = _reject_nothing  # the result of an element
    # What an element and its result have in common. None: brokers give results in any order, ours come last.
    identify: Callable[[Any], Hashable] | None = None
    answers_once: bool = False  # whether what is named twice has one result

    def extended(self, kind: type[A], **more: Any) -> A:
        """The same with what a feature knows of this API besides."""
        return kind(**{one.name: getattr(self, one.name) for one in fields(self)}, **more)

    def elements(self, request: Any) -> list[Any]:
        """All of a request."""
        return [one for name in self.arrays for one in getattr(request, name)]

    def answer(self, results: Iterable[Struct]) -> Message:
        """A response that has these results alone."""
        return replace_fields(self.response(), **{self.results: tuple(results)})

    def cut(self, request: Any, why: Sequence[Rejection | None]) -> Cut:
        """The request without what is rejected; ``why``: of each element, in their order.

        What is named twice is rejected with the error that it has at every broker.
        """
        whys, kept, places = iter(why), dict[str, tuple[Any, ...]](), list[_Place]()
        repeated = self._repeated(self.elements(request), why)
        for name in self.arrays:
            decided = [(one, next(whys)) for one in getattr(request, name)]
            left = []
            for one, rejection in decided:
                identity = self.identify(one) if self.identify is not None else None
                if identity in repeated:
                    rejection = TWICE
                    if self.answers_once and repeated[identity]:
                        continue
                    repeated[identity] = True
                places.append((identity, self.reject(one, rejection) if rejection is not None else None))
                if rejection is None:
                    left.append(one)
            kept[name] = tuple(left)
        rejected = tuple(result for _, result in places if result is not None)
        return Cut(self, request if not rejected else replace_fields(request, **kept), rejected, tuple(places))

    def _repeated(self, elements: Iterable[Any], why: Iterable[Rejection | None]) -> dict[Hashable, bool]:
        """The identities of several elements of which one is rejected; False: they have no result as yet."""
        if (identify := self.identify) is None or not any(why):
            return {}
        identities = [identify(one) for one in elements]
        count = Counter(identities)
        return {one: False for one, rejection in zip(identities, why, strict=True) if rejection and count[one] > 1}

    def validate(
        self, request: OpenMessage, message: Any, elements: Iterable[Any], version: int, client: Client
    ) -> Steps[Mapping[Hashable, Any]]:
        """The broker's results, if the request had these elements alone: it is asked with `validate_only`."""

        def encode() -> bytes:
            question = replace_fields(message, **{self.arrays[0]: tuple(elements), "validate_only": True})
            return encode_request(question, version, request.correlation_id, client.client_id)

        (answer,) = yield Send(((yield from offload(encode, request.elements)),))
        return (yield from offload(partial(self._by_identity, answer, version), request.elements))

    def _by_identity(self, frame: bytes, version: int) -> Mapping[Hashable, Any]:
        assert self.identify is not None
        results = getattr(decode_response(self.response, frame, version).message, self.results)
        return {self.identify(result): result for result in results}


TWICE = Rejection(ErrorCode.INVALID_REQUEST, "the request names it more than once")


def rejection_of(result: Any | None) -> Rejection | None:
    """Why the broker rejects an element, if it does."""
    if result is None:
        return Rejection(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker has not answered for this topic")
    if result.error_code != ErrorCode.NONE:
        return Rejection(result.error_code, result.error_message or "")
    return None


_Place = tuple[Hashable, Struct | None]  # of an element: its identity, and its result where it is rejected


@dataclass(frozen=True, slots=True)
class Cut:
    """What is left of a request, and the results of what is rejected."""

    api: ElementsApi
    request: Any
    rejected: tuple[Struct, ...]
    _places: tuple[_Place, ...]

    @property
    def answer(self) -> Message | None:
        """The response, where all is rejected."""
        return self.api.answer(self.rejected) if 0 < len(self.rejected) == len(self._places) else None

    def complete(self, results: Iterable[Any]) -> tuple[Any, ...]:
        """The broker's results with those of what is rejected among them, in the order of the request."""
        identify = self.api.identify
        if identify is None or not self.rejected:
            return (*results, *self.rejected)
        of_broker: dict[Hashable, deque[Any]] = {}
        for result in results:
            of_broker.setdefault(identify(result), deque()).append(result)
        ordered: list[Any] = []
        for identity, rejected in self._places:
            if rejected is not None:
                ordered.append(rejected)
            elif same := of_broker.get(identity):
                ordered.append(same.popleft())
        return (*ordered, *(result for same in of_broker.values() for result in same))


def _topic_by_name(of: Any) -> Hashable:
    return TOPIC_RESOURCE, of.name


def _resource(of: Any) -> Hashable:
    return of.resource_type, of.resource_name


# By which an element and its result are the same one.
IDENTITY = frozenset({"name", "topic", "topic_name", "topic_id", "resource_type", "resource_name"})


@cache
def _named(of: type[Struct]) -> frozenset[str]:
    return frozenset(one.name for one in of.declaration_.fields)


def _result(kind: type[Struct], why: Rejection, **values: Any) -> Struct:
    """With the error; not each kind has a message."""
    message = {"error_message": why.message} if "error_message" in _named(kind) else {}
    return replace_fields(kind(), error_code=why.error_code, **message, **values)


def _identity(kind: type[Struct], of: Struct) -> dict[str, Any]:
    return {name: getattr(of, name) for name in _named(kind) & _named(type(of)) & IDENTITY}


def reject_element(kind: type[Struct], of: Struct, why: Rejection) -> Struct:
    """The result of an element, of a kind that has its identity and an error."""
    return _result(kind, why, **_identity(kind, of))


def reject_partitions(kind: type[Struct], each: type[Struct], of: Any, why: Rejection, **more: Any) -> Struct:
    """The result of a topic, of a kind that has its identity and an error of each partition. ``more``: what these have
    besides."""
    index = "partition_index" if "partition_index" in _named(each) else "partition"
    partitions = (_result(each, why, **{index: getattr(one, index)}, **more) for one in of.partitions)
    return replace_fields(kind(), **_identity(kind, of), partitions=tuple(partitions))


def _reject_deletion(of: str | delete_topics.DeleteTopicState, why: Rejection) -> Struct:
    name, topic_id = (of, NO_ID) if isinstance(of, str) else (of.name, of.topic_id)
    return delete_topics.DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=why.error_code, error_message=why.message
    )


CREATE_TOPICS = ElementsApi(
    request=create_topics.CreateTopicsRequest,
    response=create_topics.CreateTopicsResponse,
    arrays=("topics",),
    results="topics",
    identify=_topic_by_name,
    answers_once=True,
    reject=partial(reject_element, create_topics.CreatableTopicResult),
)
CREATE_PARTITIONS = ElementsApi(
    request=create_partitions.CreatePartitionsRequest,
    response=create_partitions.CreatePartitionsResponse,
    arrays=("topics",),
    results="results",
    identify=_topic_by_name,
    answers_once=True,
    reject=partial(reject_element, create_partitions.CreatePartitionsTopicResult),
)
ALTER_CONFIGS = ElementsApi(
    request=alter_configs.AlterConfigsRequest,
    response=alter_configs.AlterConfigsResponse,
    arrays=("resources",),
    results="responses",
    identify=_resource,
    reject=partial(reject_element, alter_configs.AlterConfigsResourceResponse),
)
INCREMENTAL_ALTER_CONFIGS = ElementsApi(
    request=incremental_alter_configs.IncrementalAlterConfigsRequest,
    response=incremental_alter_configs.IncrementalAlterConfigsResponse,
    arrays=("resources",),
    results="responses",
    identify=_resource,
    reject=partial(reject_element, incremental_alter_configs.AlterConfigsResourceResponse),
)
DELETE_TOPICS = ElementsApi(
    request=delete_topics.DeleteTopicsRequest,
    response=delete_topics.DeleteTopicsResponse,
    arrays=("topics", "topic_names"),
    results="responses",
    reject=_reject_deletion,
)
ALTER_PARTITION_REASSIGNMENTS = ElementsApi(
    request=alter_partition_reassignments.AlterPartitionReassignmentsRequest,
    response=alter_partition_reassignments.AlterPartitionReassignmentsResponse,
    arrays=("topics",),
    results="responses",
    reject=partial(
        reject_partitions,
        alter_partition_reassignments.ReassignableTopicResponse,
        alter_partition_reassignments.ReassignablePartitionResponse,
    ),
)
