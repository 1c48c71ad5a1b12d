"""Requests that features deny, by what and by whom: counted, written as log lines, the last stored for the admin port.

Called in the event loop alone. Names that clients choose are cut, and nothing grows with their number.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

from kafka_sidecar.codec.apis import APIS
from kafka_sidecar.proxy.exchanges.messages import ANONYMOUS, Rejection
from kafka_sidecar.proxy.exchanges.repeated import MAX_RECENT, Repeated, cut, cut_or_none, explanation, with_hint
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter
from kafka_sidecar.proxy.telemetry.logs import timestamp

log = logging.getLogger(__name__)

MAX_NAMED = 20  # of one request that are stored and written; all are counted
LOG_INTERVAL_S = 10.0  # for one principal, operation and resource


class Need(Protocol):
    """An operation that a principal has to be allowed."""

    @property
    def operation(self) -> str: ...
    @property
    def resource(self) -> str:
        """The type of the resource."""

    @property
    def name(self) -> str | bytes: ...


@dataclass(frozen=True, slots=True)
class Denied(Rejection):
    """A rejection by a rule; the need has a name, no id."""

    need: Need
    id: str  # for the operator
    mode: str = "enforce"  # shadow: it was not rejected
    reason: str = "denied"


def explained(why: Rejection, text: str | None = None) -> Rejection:
    """For the client: the message, or another one, says how an operator finds out more."""
    message = why.message if text is None else text
    return Rejection(why.error_code, with_hint(message, why.id) if isinstance(why, Denied) else message)


@dataclass(frozen=True, slots=True)
class Denial:
    """What one principal was denied in requests of one API, once or more often."""

    id: str
    api: str
    operation: str
    resource_type: str
    resource: str
    principal: str
    message: str
    since: float  # seconds since the epoch
    at: float  # the last time
    times: int
    mode: str  # enforce or shadow, the last time
    reason: str
    # Of the last time:
    session: int
    client: str | None  # its address
    client_id: str | None
    client_software: str | None


@dataclass(frozen=True, slots=True)
class Source:
    """The feature that denies, as pages and log lines show it."""

    policy: str  # in place of a policy
    remedy: str
    count_by: Callable[[Denied], tuple[str, str]]  # beside the API
    write: Callable[[Denial, int], None]  # a log line; the number of those that were suppressed before it


class Decided(Protocol):
    """As `feature.Decided`."""

    @property
    def is_used(self) -> bool: ...
    @property
    def wants_allowed(self) -> bool: ...
    @property
    def report(self) -> Callable[[int, Sequence[tuple[str, str, str]], bool, Client], None]: ...


class Decides(Protocol):
    """As `feature.Site`."""

    @property
    def decided(self) -> Decided: ...


class Denials:
    """All denials of one feature, in one process."""

    def __init__(
        self,
        counts: Counter[tuple[str, str, str]],
        clock: Callable[[], float],
        site: Decides | None = None,
        source: Source | None = None,
    ) -> None:
        self.source = source if source is not None else RULES
        self._site = site
        self._counts = counts  # by API and what the source says, of rules operation and type of resource
        self._recent = Repeated[Denial](clock)
        self.prefix = self._recent.prefix
        self._lines = LogLimiter(LOG_INTERVAL_S, clock)

    def id_of(self, key: int, need: Need, principal: str | None) -> str:
        """The id of a denial, the same whenever it happens. Called in any thread."""
        return self._recent.id_of(APIS[key].name, *_kind(need, principal))

    def record(self, key: int, rejected: Sequence[Rejection], client: Client) -> None:
        """Rejected parts of a request of an API; those that no rule has rejected are none of ours."""
        denied = [one for one in rejected if isinstance(one, Denied)]
        for (one_label, other), times in Counter(map(self.source.count_by, denied)).items():  # there may be very many
            self._counts[APIS[key].name, str(one_label), str(other)] += times
        for one in denied[:MAX_NAMED]:
            self._store(APIS[key].name, one, client)
        if len(denied) > MAX_NAMED:
            self._lines.hold(len(denied) - MAX_NAMED)
        if denied and self._site is not None and self._site.decided.is_used:
            self._site.decided.report(key, [_what(one.need) for one in denied], False, client)

    @property
    def wants_allowed(self) -> bool:
        """Whether `allow` is to be called."""
        return self._site is not None and self._site.decided.wants_allowed

    def allow(self, key: int, needs: Iterable[Need], client: Client) -> None:
        """Parts of a request that are allowed. The needs have names, no ids. Called in any thread."""
        if self._site is not None:
            self._site.decided.report(key, [_what(one) for one in needs], True, client)

    def _store(self, api: str, one: Denied, client: Client) -> None:
        kind = _kind(one.need, client.principal)
        denial = self._recent.store((*kind, api), partial(_made, api, one, kind, client))
        if (suppressed := self._lines.due(("denied", *kind))) is not None:
            self.source.write(denial, suppressed)

    def find(self, denial_id: str) -> Denial | None:
        """The denial with this id, if it is one of the last."""
        return self._recent.find(denial_id)

    def newest(self, number: int = MAX_RECENT) -> Iterable[Denial]:
        """The last ones, newest first."""
        return self._recent.newest(number)

    # As `feature.Rejections`

    def rows(self, number: int) -> Iterable[dict[str, Any]]:
        return map(self._row, self.newest(number))

    def explain(self, rejection_id: str) -> dict[str, Any] | None:
        denial = self.find(rejection_id)
        if denial is None:
            return None
        row = self._row(denial)
        return explanation(row, self.source.remedy, denial=row["denial"])

    def _row(self, denial: Denial) -> dict[str, Any]:
        """With the keys of a rejected batch, and its own."""
        return {
            "id": denial.id,
            "timestamp": timestamp(denial.at),
            "topic": denial.resource if denial.resource_type == "topic" else None,
            "partition": None,
            "mode": denial.mode,
            "policy": self.source.policy,
            "reason": denial.reason,
            "message": denial.message,
            "index": -1,
            "rejected_records": 0,
            "session": denial.session,
            "client_id": denial.client_id,
            "dead_letter_topic": None,
            "denial": {
                "principal": denial.principal,
                "operation": denial.operation,
                "resource_type": denial.resource_type,
                "resource": denial.resource,
                "api": denial.api,
                "times": denial.times,
                "since": timestamp(denial.since),
            },
            "outcome": "denied" if denial.mode == "enforce" else "allowed",
            "client": denial.client,
            "client_software": denial.client_software,
            "principal": denial.principal,
        }


def _made(
    api: str, one: Denied, kind: tuple[str, str, str, str], client: Client, since: float, at: float, times: int
) -> Denial:
    who, operation, resource, name = kind
    return Denial(
        one.id, api, operation, resource, name, who, cut(one.message), since, at, times, one.mode, one.reason,
        client.number, client.host, cut_or_none(client.client_id), cut_or_none(client.client_software),
    )  # fmt: skip


def _kind(need: Need, principal: str | None) -> tuple[str, str, str, str]:
    return cut(principal or ANONYMOUS), str(need.operation), str(need.resource), cut(str(need.name))


def _what(need: Need) -> tuple[str, str, str]:
    return str(need.operation), str(need.resource), str(need.name)


def _log(denial: Denial, suppressed: int) -> None:
    log.warning(
        "denied",
        extra={
            "rejection": denial.id,
            "principal": denial.principal,
            "operation": denial.operation,
            "resource_type": denial.resource_type,
            "resource": denial.resource,
            "api": denial.api,
            "session": denial.session,
            "client": denial.client,
            "client_id": denial.client_id,
            "suppressed": suppressed,
        },
    )


RULES = Source(
    "(rules)",
    "If the client should be allowed this, add a rule to authorization.rules with this principal, operation and name. "
    "If not, look at what the client does: it may use another topic, group or user than it was given.",
    attrgetter("need.operation", "need.resource"),
    _log,
)
