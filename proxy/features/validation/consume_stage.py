"""The stages of consumers: policies say of each fetched record whether a client gets it as it is.

A record that they reject is hidden, which leaves a gap as compaction does, or it gets a header. Where they cannot say
anything now, the records are withheld, and the client asks again: what is hidden once is lost for good to a consumer
that commits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import bare
from kafka_sidecar.codec.records import Batch, BatchHeader, Change, Header, Record, Records, edit_records
from kafka_sidecar.plugins.effects import Need
from kafka_sidecar.policies.contract import MAX_REJECTIONS, WHOLE_BATCH, TopicMetadata
from kafka_sidecar.policies.plans import Plan, PolicyFailedError, Rejection, ResolveRequired
from kafka_sidecar.proxy.exchanges.fetch import Sees
from kafka_sidecar.proxy.exchanges.fetched_records import Key, Report, WaitRequired, check_crc
from kafka_sidecar.proxy.exchanges.fetched_stages import FetchedStage, FetchServices, Looks, SharedStage, Show
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_BYTES
from kafka_sidecar.proxy.features.validation.rules import Applied, Consumed, MisconfiguredError, Rules
from kafka_sidecar.proxy.features.validation.stage import Origin, PolicyFetch, TopicConfigsKnown, sender_of
from kafka_sidecar.proxy.relay.exchange import Client

# Clients ask again by themselves, and applications do not get to see it: not all treat other errors of a Fetch so.
WITHHELD = ErrorCode.KAFKA_STORAGE_ERROR
PAUSE_S = 0.5  # as long as a client waits for an empty response: a broker would be read from in a loop otherwise
TOPIC_CONFIGS: Key = ("(configuration)", "topic configs")


@dataclass(frozen=True, slots=True)
class Pause(Need):
    """Let a client wait that can only ask again for what it cannot get now."""

    seconds: float = PAUSE_S


class ConsumeReport(Report, Protocol):
    """Counts and logs what policies say of fetched records."""

    def rejected(self, topic: TopicMetadata, rejections: list[Rejection], action: str, origin: Origin) -> None:
        """They reject some; the action is `shadow` where the client gets them even so."""

    def withheld(self, api: str, topic: TopicMetadata, error: PolicyFailedError | MisconfiguredError | None) -> None:
        """They cannot say anything now, and the client gets nothing. None: the topic's config is not known yet."""

    def passed(self, topic: TopicMetadata, error: PolicyFailedError) -> None:
        """The same, where the client gets the records even so."""


@dataclass(frozen=True, slots=True)
class ConsumeTerms:
    """What holds for all requests that begin under one version of the configuration."""

    rules: Rules
    report: ConsumeReport
    id_of: Callable[[str], bytes]
    are_configs_known: Callable[[], bool]


class CheckStage(FetchedStage):
    """The policies of topics that ask, in Fetch requests."""

    sees = Sees.STORED

    def __init__(self, terms: ConsumeTerms, services: FetchServices) -> None:
        super().__init__(PolicyLooks(terms, services.limit), services)


class ShareCheckStage(SharedStage):
    """The same in ShareFetch requests."""

    sees = Sees.STORED

    def __init__(self, terms: ConsumeTerms, services: FetchServices) -> None:
        super().__init__(PolicyLooks(terms, services.limit), services)


class PolicyLooks(Looks):
    """The policies of each topic that asks."""

    def __init__(self, terms: ConsumeTerms, limit: int) -> None:
        self._terms = terms
        self._limit = limit

    @property
    def fail_closed(self) -> bool:
        return self._terms.rules.hide

    def wants(self, topic: str) -> bool:
        return self._terms.rules.consume_rule(topic) is not None

    def hides(self, topic: str) -> bool:
        rule = self._terms.rules.consume_rule(topic)
        return rule is not None and rule.action == "hide"

    def begin(self, client: Client, version: int, api: str) -> Show:
        def show(topic: str, index: int) -> PolicyLook | None:
            look = PolicyLook(self._terms, self._limit, client, api, topic, index)
            return look if look.is_needed else None

        return show


class PolicyLook:
    """The policies of one partition's consumers."""

    __slots__ = ("_api", "_client", "_found", "_index", "_is_known", "_limit", "_terms", "_topic", "_topic_id")

    def __init__(self, terms: ConsumeTerms, limit: int, client: Client, api: str, topic: str, index: int) -> None:
        self._terms = terms
        self._limit = limit
        self._client = client
        self._api = api
        self._topic = topic
        self._topic_id = terms.id_of(topic)
        self._index = index
        self._found: Consumed | None = None  # what holds for the topic, as far as it is known
        self._is_known = False  # whether nothing else can hold for the partition

    @property
    def is_needed(self) -> bool:
        """Whether a policy holds for the topic, as far as that is known."""
        try:
            return self._find() is not None or not self._is_known
        except MisconfiguredError:
            return True

    @property
    def hides(self) -> bool:
        consumed = self._found if self._is_known else self._guess()
        return consumed is not None and consumed.hides

    @property
    def withholds(self) -> bool:
        consumed = self._found if self._is_known else self._guess()
        return consumed is not None and consumed.acts

    @property
    def records_at_once(self) -> int:
        consumed = self._found if self._is_known else self._guess()
        if consumed is None:
            return 0  # a thread is where a wait is
        return consumed.applied.plan.records_at_once

    @property
    def bytes_at_once(self) -> int:
        consumed = self._found if self._is_known else self._guess()
        return min(MAX_INLINE_BYTES, consumed.applied.plan.bytes_at_once) if consumed is not None else 0

    @property
    def records_per_turn(self) -> int:
        consumed = self._found if self._is_known else self._guess()
        return consumed.applied.plan.pace.records_per_turn if consumed is not None else 1

    def left_of(self, batch: Batch, records: Records, asked: Collection[Key]) -> Records | None:
        terms, header = self._terms, batch.header
        if not self._is_known and not terms.are_configs_known():
            if TOPIC_CONFIGS not in asked:
                raise WaitRequired(TOPIC_CONFIGS, lambda limit: TopicConfigsKnown())
            self._withhold(None)
            return None
        try:
            consumed = self._found if self._is_known else self._find()
        except MisconfiguredError as error:
            if not error.enforces:
                return records
            self._withhold(error)
            return None
        if consumed is None:
            return records
        applied = consumed.applied
        topic = applied.metadata(self._topic, self._index, self._topic_id)
        try:
            rejections = find_all(applied.plan, topic, header, records, self._limit, asked)
        except ResolveRequired as error:
            need = partial(PolicyFetch, error.rule, error.key)
            raise WaitRequired((error.rule.name, error.key), need) from None
        except PolicyFailedError as error:
            return self._without_verdict(batch, records, topic, applied, bare(error))
        if not rejections:
            return records  # as the broker sent them: the client checks them
        check_crc(batch)
        acts = applied.enforces(header.crc)
        action = consumed.action if acts else "shadow"
        terms.report.rejected(topic, rejections, action, Origin(sender_of(self._client, None), header, applied))
        return edit_records(records, _changes(records, rejections, consumed)) if acts else records

    def _without_verdict(
        self, batch: Batch, records: Records, topic: TopicMetadata, applied: Applied, error: PolicyFailedError
    ) -> Records | None:
        """What the client gets where a policy has failed."""
        check_crc(batch)  # it may have failed for what is damaged
        if not applied.enforces(batch.header.crc):
            self._terms.report.passed(topic, error)
            return records
        self._withhold(error)
        return None

    def _withhold(self, why: PolicyFailedError | MisconfiguredError | None) -> None:
        topic = TopicMetadata(self._topic, self._index, self._topic_id, "")
        self._terms.report.withheld(self._api, topic, why)

    def _guess(self) -> Consumed | None:
        """What holds, as far as it is known."""
        try:
            return self._find()
        except MisconfiguredError:
            return None

    def _find(self) -> Consumed | None:
        """What holds for the topic, the same for all of the partition. Raises MisconfiguredError."""
        if not self._is_known:
            is_known = self._terms.are_configs_known()  # otherwise another policy may be set on the topic
            self._found = self._terms.rules.consumed(self._topic, self._topic_id)
            self._is_known = is_known
        return self._found


@dataclass(slots=True)  # a frozen one takes three times as long to create, and each batch has one
class Inflated:
    """A batch whose records are at hand, as plans ask for it."""

    header: BatchHeader
    inflated: Records

    def records(self, limit: int) -> Records:
        return self.inflated


def find_all(
    plan: Plan, topic: TopicMetadata, header: BatchHeader, records: Records, limit: int, asked: Collection[Key]
) -> list[Rejection]:
    """All rejected records of a batch. A plan stops at its limit for what a response to a producer may name: then it is
    asked for so few records at a time that it cannot reach it."""
    found = plan.validate(topic, Inflated(header, records), limit, asked)
    if len(found) < MAX_REJECTIONS or len(records) <= MAX_REJECTIONS:
        return found
    found = []
    for first, some in _parts(records, MAX_REJECTIONS):
        for one in plan.validate(topic, Inflated(header, some), limit, asked):
            if one.index == WHOLE_BATCH:
                return [one]
            found.append(Rejection(first + one.index, one.message, one.policy, one.reason))
    return found


def _parts(records: Records, size: int) -> Iterator[tuple[int, Records]]:
    """So many records at a time, each time with the index of the first."""
    payload, first, began = records.payload, 0, 0
    for record in records:
        following = record.index + 1
        if following - first == size or following == len(records):
            end = record.edges()[-1]
            yield first, records.with_payload(payload[began:end], following - first)
            first, began = following, end


def _changes(
    records: Records, rejections: Sequence[Rejection], consumed: Consumed
) -> Iterator[tuple[Record, Change | None]]:
    """What becomes of the rejected records."""
    whole = rejections[0] if rejections[0].index == WHOLE_BATCH else None
    by_index = {} if whole is not None else {one.index: one for one in rejections}
    for record in records:
        why = whole or by_index.get(record.index)
        if why is None:
            continue
        if consumed.action == "hide":
            yield record, None
        else:
            mark = Header(consumed.header, f"{why.policy}/{why.reason}".encode("utf-8", "replace"))
            yield record, Change(headers=[*record.headers, mark])
