"""The first stage of a Produce: policies decide of each batch whether it may be written (KIP-940, KIP-467)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.checkpoint import ThreadRequiredError
from kafka_sidecar.codec.envelope import OpenRequest
from kafka_sidecar.codec.errors import CodecError, bare
from kafka_sidecar.codec.records import Batch, BatchHeader, BatchTooLargeError
from kafka_sidecar.codec.records.log_validator import InvalidBatch, explain_unreadable, find_fault
from kafka_sidecar.codec.scan import ProduceSpans, TopicSpan
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.effects import Need, Steps, TimeLeft, TimeLimit, Work
from kafka_sidecar.policies.contract import WHOLE_BATCH, TopicMetadata, UnavailableError
from kafka_sidecar.policies.plans import (
    NO_FAILED_KEYS,
    PolicyFailedError,
    Rejection,
    ResolveRequired,
    Rule,
    truncate_message,
)
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_BYTES, MAX_LIGHT_INFLATED, is_light, takes_long
from kafka_sidecar.proxy.exchanges.produce import PartitionRecords, Stage, StageRun, TopicRun
from kafka_sidecar.proxy.exchanges.produce_response import (
    UNKNOWN_TOPIC,
    PartitionRejection,
    summarize,
    without_errors,
)
from kafka_sidecar.proxy.features.refused import Letters, RefusedBatch
from kafka_sidecar.proxy.features.validation.rules import Applied, MisconfiguredError, Rules
from kafka_sidecar.proxy.relay.exchange import Client

# Retriable, and the records have gone nowhere: producers try again until their own limit.
TIMED_OUT = PartitionRejection(ErrorCode.REQUEST_TIMED_OUT, "the validation took longer than validation.timeout")

# InvalidBatch: the records cannot be read. TimeoutError: the policies have not decided in time.
Verdict = list[Rejection] | PolicyFailedError | InvalidBatch | TimeoutError
ACCEPTED: Verdict = []
MAX_INLINE_LETTERS = 200  # records that are copied while others wait
MAX_INLINE_LETTER_BYTES = 256 << 10
MAX_CLIENT_CHARS = 249  # of what clients call themselves
GivenUp = frozenset[tuple[str, object]]


@dataclass(frozen=True, slots=True)
class PolicyFetch(Need):
    """Call ``rule.policy.resolve(key)``, once for all that ask for the same. Answered with nothing: ask it again."""

    rule: Rule
    key: object
    limit: TimeLeft | None = None


@dataclass(frozen=True, slots=True)
class TopicConfigsKnown(Need):
    """Wait until the configs of topics are known. Answered with why they are not, if it takes too long, or None."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Whose request has brought a batch."""

    session: int | None = None  # number of the connection
    client: str | None = None  # its address
    client_id: str | None = None
    client_software: str | None = None
    principal: str | None = None
    correlation_id: int | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a batch is from, and what applied to it."""

    sender: Sender = Sender()
    header: BatchHeader | None = None  # None: the data is not a batch
    applied: Applied | None = None
    letter_topic: str | None = None  # the dead letter topic to which its records go


UNKNOWN = Origin()


class Report(Protocol):
    """Counts and logs what policies decide."""

    batches: Counter[str]  # that they have looked at: from the "header" alone, or with "contents"
    records: int  # of these

    # The next ones return the id of the rejection, for the client.

    def rejected(self, topic: TopicMetadata, rejections: list[Rejection], enforced: bool, origin: Origin) -> str: ...

    def unreadable(self, topic: TopicMetadata, message: str, enforced: bool, origin: Origin) -> str: ...

    def misconfigured(
        self, topic: str, partitions: Sequence[int], message: str, enforced: bool, origin: Origin
    ) -> str: ...

    def failed(self, topic: TopicMetadata, error: PolicyFailedError, enforced: bool, origin: Origin) -> str: ...

    def timed_out(self, topic: TopicMetadata, message: str, enforced: bool, origin: Origin) -> str: ...

    def omitted(self, record_errors: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for all requests that begin under one version of the configuration."""

    rules: Rules
    report: Report
    limit: int  # bytes that a batch may have when it is inflated
    id_of: Callable[[str], bytes]
    time_limit: TimeLimit  # of one request
    max_record_errors: int  # of one response
    letters: Letters | None = None


class TopicConfigs(Protocol):
    """The policies that are set on topics with Kafka's own tools."""

    @property
    def ready(self) -> bool:
        """Whether they are known here."""


class ValidationStage(Stage):
    """The policies that are current."""

    __slots__ = ("_configs", "_terms", "is_stable")

    def __init__(self, terms: Terms, configs: TopicConfigs | None) -> None:
        self._terms = terms
        self._configs = configs
        self.is_stable: bool = configs is None  # otherwise a topic's policy may be set at any time

    def configs_are_known(self) -> bool:
        return self._configs is None or self._configs.ready

    def applies(self, topics: Sequence[tuple[str | None, bytes]]) -> bool:
        """A request for topics without a policy need not be collected: its bytes are relayed as they come (D1)."""
        if not self.configs_are_known():
            return True
        if self._terms.rules.are_empty:
            return False
        return not topics or any(name is None or self._has_policy(name, topic_id) for name, topic_id in topics)

    def _has_policy(self, topic: str, topic_id: bytes) -> bool:
        try:
            return self._terms.rules.of(topic, topic_id) is not None
        except MisconfiguredError:
            return True

    def start(self, client: Client, version: int) -> ValidationRun:
        return ValidationRun(self._terms, client, not self.configs_are_known())


class ValidationRun(StageRun):
    """The policies that apply to one request."""

    __slots__ = ("_client", "_room", "_time_left", "_waits_for_configs", "request", "terms")

    wants_response = False

    def __init__(self, terms: Terms, client: Client, waits_for_configs: bool) -> None:
        self.terms = terms  # those that are current now, whatever is reloaded meanwhile
        self._client = client
        self.request: OpenRequest | None = None
        self._waits_for_configs = waits_for_configs
        self._time_left: TimeLeft | None = None
        self._room = terms.max_record_errors  # that the response may still have

    def open(self, request: OpenRequest, spans: ProduceSpans) -> Steps[PartitionRejection | None] | None:
        self.request = request
        return self._wait_for_configs() if self._waits_for_configs else None

    def _wait_for_configs(self) -> Steps[PartitionRejection | None]:
        why = yield TopicConfigsKnown()
        return PartitionRejection(ErrorCode.REQUEST_TIMED_OUT, why) if why is not None else None

    def admit(self, topic: str | None, topic_id: bytes, span: TopicSpan) -> TopicValidation | PartitionRejection | None:
        if topic is None:
            return UNKNOWN_TOPIC
        try:
            applied = self.terms.rules.of(topic, topic_id)
        except MisconfiguredError as error:
            partitions = [partition.index for partition in span.partitions]
            found = self.terms.report.misconfigured(topic, partitions, str(error), error.enforces, self.origin())
            why = truncate_message(f"record.validation.policy of {topic}: {error}")
            rejection = PartitionRejection(ErrorCode.UNKNOWN_SERVER_ERROR, why)
            return with_id(rejection, found) if error.enforces else None
        if applied is None:
            return None
        shown_id = self.terms.id_of(topic) if topic_id == NO_ID else topic_id  # rules hold for what the client named
        return TopicValidation(self, topic, shown_id, applied)

    def origin(
        self, header: BatchHeader | None = None, applied: Applied | None = None, letter_topic: str | None = None
    ) -> Origin:
        """Where a batch of this request is from."""
        return Origin(sender_of(self._client, self.request), header, applied, letter_topic)

    def time_left(self) -> TimeLeft:
        """For this request; few need it."""
        if self._time_left is None:
            self._time_left = self.terms.time_limit.start()
        return self._time_left

    def explain(self, rejections: list[Rejection]) -> PartitionRejection:
        """For the client: all record errors of the batch, or the first one if the response has no room for all."""
        rejection = _of_policies(rejections)
        errors = len(rejection.record_errors)
        if errors > max(self._room, 1):
            self.terms.report.omitted(errors - 1)
            rejection, errors = without_errors(rejection), 1
        self._room -= errors
        return rejection

    def sent(self) -> None:
        self.request = None  # it keeps the whole frame, and the broker may take its time


class TopicValidation(TopicRun):
    """The policies of one topic of a request."""

    __slots__ = ("_applied", "_inline_limit", "_plan", "_run", "_topic", "_topic_id", "needs_records", "validates")

    def __init__(self, run: ValidationRun, topic: str, topic_id: bytes, applied: Applied) -> None:
        self._run = run
        self._topic = topic
        self._topic_id = topic_id
        self._applied = applied
        self._plan = plan = applied.plan
        self._inline_limit = min(run.terms.limit, MAX_INLINE_BYTES, plan.bytes_at_once)
        self.needs_records: bool = plan.needs_records
        self.validates = applied.rejects_values

    def expect(self, partitions: Sequence[PartitionRecords]) -> None:
        return

    def batch(self, partition: PartitionRecords) -> Steps[None] | None:
        if partition.rejection is not None:
            return None
        topic = self._applied.metadata(self._topic, partition.index, self._topic_id)
        batch = partition.batch
        if isinstance(batch, InvalidBatch):
            self._reject_invalid(partition, topic, batch)
            return None
        verdict: Verdict | ResolveRequired | None = None
        plan = self._plan
        if not (takes_long(batch, plan.records_at_once) if self.needs_records else plan.pace.needs_thread):
            verdict = self._ask(partition, topic, self._inline_limit)
            if verdict == ACCEPTED:
                self._count(batch)
                return None
        if verdict is None or isinstance(verdict, ResolveRequired):
            return self._ask_on(partition, topic, verdict)
        return self._settle(partition, topic, verdict)

    def _ask_on(
        self, partition: PartitionRecords, topic: TopicMetadata, verdict: Verdict | ResolveRequired | None
    ) -> Steps[None]:
        """Ask the policies again once they have what they need, or in a thread, until they decide."""
        try:
            verdict = yield from self._decide(partition, topic, verdict)
        except TimeoutError as error:
            verdict = error
        if (steps := self._settle(partition, topic, verdict)) is not None:
            yield from steps

    def _decide(
        self, partition: PartitionRecords, topic: TopicMetadata, verdict: Verdict | ResolveRequired | None
    ) -> Steps[Verdict]:
        given_up: GivenUp = NO_FAILED_KEYS
        in_thread, time_left, most = verdict is None, self._run.time_left(), self._run.terms.limit
        light = is_light(partition.valid_batch, self._plan.pace.records_per_turn)
        while verdict is None or isinstance(verdict, ResolveRequired):
            if isinstance(verdict, ResolveRequired):
                if partition.size > MAX_INLINE_BYTES:
                    partition.release()  # rather inflated again than kept as long as a policy may wait
                yield PolicyFetch(verdict.rule, verdict.key, time_left)
                given_up |= {(verdict.rule.name, verdict.key)}  # a policy that asks for it again would ask for ever
            limit = self._inline_limit if not in_thread else min(most, MAX_LIGHT_INFLATED) if light else most
            ask = partial(self._ask_in_thread if in_thread else self._ask, partition, topic, limit, given_up)
            verdict = (yield Work(ask, is_light=light, limit=time_left)) if in_thread else ask()
            if verdict is None:
                light, in_thread = light and not in_thread, True
        return verdict

    def _ask_in_thread(
        self, partition: PartitionRecords, topic: TopicMetadata, limit: int, given_up: GivenUp
    ) -> Verdict | ResolveRequired | None:
        """As `_ask`. What is large is rather inflated again than kept: a stage that follows waits for a thread, while
        this one inflates for others."""
        try:
            return self._ask(partition, topic, limit, given_up)
        finally:
            if partition.size > MAX_LIGHT_INFLATED:
                partition.release()

    def _ask(
        self, partition: PartitionRecords, topic: TopicMetadata, limit: int, given_up: GivenUp = NO_FAILED_KEYS
    ) -> Verdict | ResolveRequired | None:
        """What the policies say; None where they have to be asked in a thread: a batch holds more than ``limit`` bytes
        and may hold more, or a policy says so."""
        try:
            return self._plan.validate(topic, partition, limit, given_up)
        except PolicyFailedError as error:
            return error
        except ResolveRequired as error:
            return bare(error)
        except ThreadRequiredError:
            return None
        except CodecError as error:
            too_large = isinstance(bare(error), BatchTooLargeError)
            if too_large and limit != self._run.terms.limit:
                return None
            batch = partition.valid_batch
            return find_fault(batch) or explain_unreadable(batch, error)

    def _count(self, batch: Batch) -> None:
        """The policies have looked at a batch, and inside it or not."""
        report = self._run.terms.report
        report.batches["contents" if self.needs_records else "header"] += 1
        report.records += max(batch.header.count, 0)  # what a header says, if its batch was not inflated

    def _settle(self, partition: PartitionRecords, topic: TopicMetadata, verdict: Verdict) -> Steps[None] | None:
        """Count what the policies say, and reject the batch if they are enforced."""
        batch, run = partition.valid_batch, self._run
        if verdict.__class__ is not InvalidBatch and verdict.__class__ is not TimeoutError:
            self._count(batch)
        if not verdict:
            return None
        report = run.terms.report
        enforced = self._applied.enforces(batch.header.crc)
        refused: Sequence[Rejection] = ()  # of what may become dead letters: what a client sends again is none
        if isinstance(verdict, InvalidBatch):
            rejection = _of_structure(verdict)
            found = report.unreadable(topic, verdict.message, enforced, run.origin(batch.header, self._applied))
            self._miss(topic, batch.header.count, enforced)
        elif isinstance(verdict, TimeoutError):
            rejection = TIMED_OUT
            found = report.timed_out(topic, rejection.message, enforced, run.origin(batch.header, self._applied))
        elif isinstance(verdict, PolicyFailedError):
            rejection = _of_failure(verdict)
            is_final = enforced and rejection.error_code != ErrorCode.REQUEST_TIMED_OUT
            letter_topic = self._letter_topic(topic, enforced) if is_final else None
            origin = run.origin(batch.header, self._applied, letter_topic)
            found = report.failed(topic, verdict, enforced, origin)
            bare(bare(verdict).error)
            if letter_topic is not None:
                refused = (Rejection(WHOLE_BATCH, rejection.message, verdict.policy, "policy_failed"),)
        else:
            letter_topic = self._letter_topic(topic, enforced)
            fault = find_fault(batch) if enforced or letter_topic is not None else None
            if fault is not None and letter_topic is not None:
                self._miss(topic, batch.header.count, enforced)
                letter_topic = None
            origin = run.origin(batch.header, self._applied, letter_topic)
            found = report.rejected(topic, verdict, enforced, origin)
            if letter_topic is not None:
                refused = verdict
            rejection = (
                _of_structure(fault) if fault is not None else run.explain(verdict) if enforced
                else _of_policies(verdict)
            )  # fmt: skip
        if enforced:
            partition.rejection = with_id(rejection, found)
        return self._keep(partition, topic, refused, rejection.message, found, enforced) if refused else None

    def _letter_topic(self, topic: TopicMetadata, enforced: bool) -> str | None:
        letters = self._run.terms.letters
        return letters.topic_of(topic.topic, enforced) if letters is not None else None

    def _miss(self, topic: TopicMetadata, records: int, enforced: bool) -> None:
        """Count records that cannot become dead letters, because they cannot be read."""
        letters = self._run.terms.letters
        if letters is not None and letters.topic_of(topic.topic, enforced) is not None:
            letters.missed(topic.topic, max(records, 0), "unreadable")

    def _keep(
        self, partition: PartitionRecords, topic: TopicMetadata, refused: Sequence[Rejection], message: str, found: str,
        enforced: bool,
    ) -> Steps[None] | None:  # fmt: skip
        """Keep rejected records as dead letters: at once if there are few, or in a thread."""
        run, letters, batch = self._run, self._run.terms.letters, partition.valid_batch
        assert letters is not None  # there is a topic for them
        sender = run.origin().sender
        records = partial(partition.records, run.terms.limit)
        kept = RefusedBatch(
            topic.topic, partition.index, batch.header, records, refused, message, found, enforced, sender.client_id,
            sender.principal,
        )  # fmt: skip
        if letters.turns_away(kept):
            return None
        is_small = batch.header.count <= MAX_INLINE_LETTERS and partition.size <= MAX_INLINE_LETTER_BYTES
        if is_small and not takes_long(batch, MAX_INLINE_LETTERS) and partition.size:
            letters.keep(kept)
            return None
        light = is_light(batch, MAX_INLINE_LETTERS) and 0 < partition.size <= MAX_LIGHT_INFLATED
        return self._keep_in_thread(letters, kept, light)

    def _keep_in_thread(self, letters: Letters, kept: RefusedBatch, light: bool) -> Steps[None]:
        try:
            yield Work(partial(letters.keep, kept), is_light=light, limit=self._run.time_left())
        except TimeoutError:
            if not kept.is_kept:  # else it counts what it has not done
                letters.missed(kept.topic, max(kept.header.count, 0), "timed_out")

    def _reject_invalid(self, partition: PartitionRecords, topic: TopicMetadata, why: InvalidBatch) -> None:
        enforced = self._applied.enforces(0)  # there is no checksum by which a share could be chosen
        origin = self._run.origin(applied=self._applied)
        found = self._run.terms.report.unreadable(topic, why.message, enforced, origin)
        self._miss(topic, 1, enforced)
        if enforced:
            partition.rejection = with_id(_of_structure(why), found)


def sender_of(client: Client, request: OpenRequest | None) -> Sender:
    """The sender of a request, as far as it has introduced itself."""
    return Sender(
        client.number, client.host, _cut(request.client_id if request is not None else client.client_id),
        _cut(client.client_software), _cut(client.principal), request.correlation_id if request is not None else None,
    )  # fmt: skip


def with_id(rejection: PartitionRejection, rejection_id: str) -> PartitionRejection:
    """For the client: each message says how an operator finds out more."""
    hint = f" (kafka-sidecar explain {rejection_id})"
    errors = tuple((index, message + hint) for index, message in rejection.record_errors)
    return PartitionRejection(rejection.error_code, rejection.message + hint, errors)


def _cut(text: str | None) -> str | None:
    return text[:MAX_CLIENT_CHARS] if text is not None else None


def _of_failure(failure: PolicyFailedError) -> PartitionRejection:
    if isinstance(failure.error, UnavailableError):  # retriable, as `TIMED_OUT` is
        why = f"the policy {failure.policy} cannot decide now: {failure.error}"
        return PartitionRejection(ErrorCode.REQUEST_TIMED_OUT, truncate_message(why))
    return PartitionRejection(ErrorCode.UNKNOWN_SERVER_ERROR, f"the policy {failure.policy} failed")


def _of_structure(why: InvalidBatch) -> PartitionRejection:
    return PartitionRejection(why.error_code, why.message)


def _of_policies(rejections: list[Rejection]) -> PartitionRejection:
    messages = [f"{rejection.policy}: {rejection.message}" for rejection in rejections]
    records = tuple((rejection.index, rejection.message) for rejection in rejections if rejection.index != WHOLE_BATCH)
    return PartitionRejection(ErrorCode.INVALID_RECORD, summarize(messages), records)
