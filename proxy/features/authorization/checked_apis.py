"""What an API needs, and how it answers that something is not allowed: the rows of the tables `*_apis`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.message import Message, replace_fields
from kafka_sidecar.proxy.exchanges.elements import ElementsApi
from kafka_sidecar.proxy.exchanges.messages import Rejection
from kafka_sidecar.proxy.features.authorization.acls import CLUSTER_NAME, Operation, Resource

ERRORS = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


class Need(NamedTuple):
    """An operation that a principal has to be allowed."""

    operation: Operation
    resource: Resource
    name: str | bytes  # bytes: the id of a topic
    is_prefix: bool = False  # on all that begin with this name, which there are now and later


def on_topic(operation: Operation, name: str | bytes) -> Need:
    return Need(operation, Resource.TOPIC, name)


def on_group(operation: Operation, name: str) -> Need:
    return Need(operation, Resource.GROUP, name)


def on_transaction(operation: Operation, name: str) -> Need:
    return Need(operation, Resource.TRANSACTIONAL_ID, name)


def on_cluster(operation: Operation) -> Need:
    return Need(operation, Resource.CLUSTER, CLUSTER_NAME)


def _nothing(request: Any) -> Iterable[Need]:
    return ()


def _none(of: Any, request: Any) -> Need | None:
    return None


class Sight(Protocol):
    """Whether a client is allowed to see something."""

    def __call__(self, need: Need) -> bool:
        """Of a list of all: what it may not see is omitted, and that is no denial."""
        ...

    def deny(self, need: Need) -> Rejection | None:
        """Why not, if so, of what the client has asked for: it gets an error for it, or only a part."""
        ...


# From a result of the broker's, the request, and what the client may see: the result as it may see it, or None.
Shown = Callable[[Any, Any, Sight], Any | None]


def shown_if(need_of: Callable[[Any], Need]) -> Shown:
    """A result as it is, for those who are allowed this."""
    return lambda result, request, allows: result if allows(need_of(result)) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedApi(ElementsApi):
    """One API. ``Any`` is its request, a part of it that is denied alone, or a result in the response."""

    needs: Callable[[Any], Iterable[Need]] = _nothing  # all of these, or the request is refused as a whole
    refuse: Callable[[Any, Rejection], Message] | None = None  # None: with the response's error code, or its results'
    unless: Need | None = None  # who is allowed this needs nothing else
    need_of: Callable[[Any, Any], Need | None] = _none  # from a part and the request
    error_of_others: int | None = None  # what the other parts get where one is denied; None: they go on
    asks_for_none: bool = False  # whether the broker is asked though no part is left: an error of the group comes first
    shown: Shown | None = None

    def refusal(self, request: Any, why: Rejection) -> Message:
        """The response to a request that is denied as a whole."""
        if self.refuse is not None:
            return self.refuse(request, why)
        fields = {field.name for field in self.response.declaration_.fields}
        if "error_code" in fields:
            values = {"error_code": why.error_code, "error_message": why.message}
            return replace_fields(self.response(), **{name: values[name] for name in values.keys() & fields})
        return self.answer(self.reject(one, why) for one in self.elements(request))
