"""The lines that a reader of `/tap` wants: parsed from its query once, then asked for each client, topic and event."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qs

from kafka_sidecar.codec.apis import APIS
from kafka_sidecar.plugins.patterns import matcher
from kafka_sidecar.proxy.config.sections import Tap
from kafka_sidecar.proxy.exchanges.messages import ANONYMOUS

N = TypeVar("N", int, float)
RECORDS, REQUESTS, REJECTIONS, CONNECTIONS = KINDS = ("records", "requests", "rejections", "connections")
DIRECTIONS = ("produced", "fetched")
MAX_PATTERNS, MAX_CHARS = 20, 300  # of one filter, and of one of its patterns
SALT_BYTES = 16
# The filters of each kind; each may be given more than once, and one has to match.
FILTERS: Mapping[str, tuple[str, ...]] = {
    RECORDS: ("topic", "client_id", "principal", "direction", "partition"),
    REQUESTS: ("topic", "client_id", "principal", "api"),
    REJECTIONS: ("topic", "client_id", "principal", "policy", "reason"),
    CONNECTIONS: ("client_id", "principal"),
}
SHOWN = ("keys", "values")
_API_NAMES = {api.name.lower(): api.name for api in APIS.values()}


class RefusedError(ValueError):
    """A tap that is not opened; one line with the remedy."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status  # of HTTP


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one tap shows."""

    kind: str
    filters: Mapping[str, Sequence[str]]  # patterns, by the names of `FILTERS`
    show: frozenset[str] = frozenset()  # of `SHOWN`
    count: int | None = None  # lines after which it ends
    seconds: float | None = None  # the same
    salt: bytes = b""  # of the hashes of keys, which are the same in all workers and in no other tap

    def refusal(self, settings: Tap) -> RefusedError | None:
        """Why these settings do not allow it, if they do not."""
        if not settings.enabled:
            return RefusedError(404, "this sidecar has no taps: set tap.enabled: true in its configuration")
        for name in SHOWN:
            if name in self.show and not getattr(settings, f"allow_{name}"):
                return RefusedError(
                    403, f"{name} are not shown here: set tap.allow_{name}: true in the configuration of the sidecar"
                )
        return None

    def describe(self) -> str:
        """For a log line."""
        filters = [f"{name} {' or '.join(patterns)}" for name, patterns in self.filters.items()]
        shown = [f"{name} {'shown' if name in self.show else 'not shown'}" for name in SHOWN]
        return ", ".join([self.kind, *filters, *(shown if self.kind == RECORDS else ())])


def wanted_of(query: str) -> Wanted:
    """What a query asks for, such as ``kind=records&topic=orders-*&show=values``. Raises RefusedError."""
    try:
        given = parse_qs(query, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        raise RefusedError(400, "too many filters") from None
    kind = given.pop("kind", [""])[-1]
    if kind not in KINDS:
        raise RefusedError(400, f"name a kind: {', '.join(KINDS)}")
    show = frozenset(",".join(given.pop("show", [])).split(",")) - {""}
    if unknown := show - set(SHOWN):
        raise RefusedError(400, f"{_quoted(min(unknown))} cannot be shown: choose from {', '.join(SHOWN)}")
    if show and kind != RECORDS:
        raise RefusedError(400, f"only records have {' and '.join(sorted(show))}")
    count, seconds = _limit("count", given, int), _limit("seconds", given, float)
    return Wanted(kind, _filters(kind, given), show, count, seconds, os.urandom(SALT_BYTES))


def _limit(name: str, given: dict[str, list[str]], read: Callable[[str], N]) -> N | None:
    text = given.pop(name, [None])[-1]
    try:
        limit = None if text is None else read(text)
    except ValueError:
        limit = read("0")
    if limit is not None and not 0 < limit < float("inf"):
        raise RefusedError(400, f"{name}: write a number above 0")
    return limit


def _filters(kind: str, given: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    filters = {}
    for name, patterns in given.items():
        if name not in FILTERS[kind]:
            raise RefusedError(400, f"{kind} have no filter {_quoted(name)}: choose from {', '.join(FILTERS[kind])}")
        if len(patterns) > MAX_PATTERNS or max(map(len, patterns)) > MAX_CHARS:
            raise RefusedError(400, f"{name}: at most {MAX_PATTERNS} patterns of {MAX_CHARS} characters")
        filters[name] = tuple(_CHECKS.get(name, str)(one) for one in patterns)
    return filters


def _api(text: str) -> str:
    try:
        return _API_NAMES[text.lower()]
    except KeyError:
        raise RefusedError(
            400, f"api: {_quoted(text)} is not an API of Kafka: write one as in Metadata, Produce"
        ) from None


def _direction(text: str) -> str:
    if text not in DIRECTIONS:
        raise RefusedError(400, f"direction: choose from {', '.join(DIRECTIONS)}")
    return text


def _partition(text: str) -> str:
    if not text.isdecimal() or not text.isascii():
        raise RefusedError(400, f"partition: {_quoted(text)} is no number")
    return str(int(text))


_CHECKS = {"api": _api, "direction": _direction, "partition": _partition}


def _quoted(text: str) -> str:
    return repr(text[:MAX_CHARS])


class Filter:
    """The filters of one tap, compiled."""

    __slots__ = ("_matchers", "allows_any_client", "topics")

    def __init__(self, wanted: Wanted) -> None:
        self._matchers = {name: matcher(patterns) for name, patterns in wanted.filters.items()}
        self.topics = self._matchers.get("topic")  # None: all
        self.allows_any_client = not ({"client_id", "principal"} & self._matchers.keys())

    @property
    def is_of_clients_or_topics(self) -> bool:
        """Whether the beginning of a request may say that it is not wanted."""
        return self.topics is not None or not self.allows_any_client

    def allows(self, name: str, value: str | None) -> bool:
        """Whether a value is wanted, where it is filtered at all."""
        match = self._matchers.get(name)
        return match is None or (value is not None and match(value))

    def allows_client(self, client_id: str | None, principal: str | None) -> bool:
        return self.allows_any_client or (
            self.allows("client_id", client_id) and self.allows("principal", principal or ANONYMOUS)
        )

    def allows_row(self, row: Mapping[str, Any]) -> bool:
        """Whether an event with the names of `FILTERS` is wanted."""
        return all(self.allows(name, _text(row.get(name))) for name in self._matchers if name != "principal") and (
            self.allows("principal", row.get("principal") or ANONYMOUS)
        )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
