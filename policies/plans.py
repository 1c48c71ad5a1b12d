"""What applies to a topic, compiled once from its policy string, and how one batch is judged by it.

All bad records of a batch are found, not just the first (KIP-467), up to a thousand or so; the first rule that refuses
a record names it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Protocol

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.policies.contract import (
    MAX_REJECTIONS,
    WHOLE_BATCH,
    Fault,
    Hints,
    InvalidRecordError,
    RecordValidationPolicy,
    TopicMetadata,
    Unresolved,
)
from kafka_sidecar.policies.views import EVERYTHING, sees_all, view_class

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import BatchHeader, Records

# A policy that means False by "refused" must not let everything pass, nor one that is written as a coroutine.
RETURNED = "validate() gave something back: it refuses by raising InvalidRecordError, and lets pass by giving nothing"
MAX_MESSAGE_CHARS = 1000  # characters: an answer has room for 32767 bytes of each
MAX_RESOLVES = 100  # for one batch: a policy that always asks for something else would ask for ever
MAX_CACHED_TOPICS = 1000  # partitions of topics, for each rule
NO_FAILED_KEYS: frozenset[tuple[str, object]] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """One policy as a topic uses it."""

    name: str  # of the policy: a label value of metrics
    policy: RecordValidationPolicy
    text: str = ""  # what the policy gets as the topic's validation_policy
    fail_open: bool = False  # a failure of the policy lets the record pass
    hints: Hints = EVERYTHING  # what policy.hints() said after configure()
    # The forms in which the policy judges, None where it has not that one; a class of others may give back what it
    # must not.
    judges_header: Callable[[TopicMetadata, Any], Iterable[Fault]] | None = field(init=False, compare=False)
    judges_batch: Callable[[TopicMetadata, Any], Iterable[Fault]] | None = field(init=False, compare=False)
    judges_record: Callable[[TopicMetadata, Any], object] = field(init=False, compare=False)
    _topics: dict[TopicMetadata, TopicMetadata] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "judges_header", getattr(self.policy, "validate_header", None))
        object.__setattr__(self, "judges_batch", getattr(self.policy, "validate_batch", None))
        object.__setattr__(self, "judges_record", self.policy.validate)

    def own(self, topic: TopicMetadata) -> TopicMetadata:
        """The topic as this policy is told of it. Kept, because making one takes as long as the rest of a fast rule."""
        own = self._topics.get(topic)
        if own is None:
            if len(self._topics) >= MAX_CACHED_TOPICS:  # clients choose the names
                self._topics.clear()
            own = self._topics[topic] = topic._replace(validation_policy=self.text)
        return own

    def judge_without_records(self, topic: TopicMetadata, header: BatchHeader) -> Iterable[Fault]:
        """What a policy says of a batch if it has no hints, and so sees no record."""
        try:
            if self.judges_record(topic, view_class(self.hints)()) is not None:
                raise TypeError(RETURNED)
        except InvalidRecordError as refused:
            return (Fault(WHOLE_BATCH, str(refused), refused.reason),)
        return ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """One record that is refused, or the batch where ``index`` is `WHOLE_BATCH`."""

    index: int
    message: str  # for the client; quotes no contents
    policy: str  # name of the rule
    reason: str  # one of few words


class ResolveRequired(Exception):  # noqa: N818 - not an error: judge again when the policy has what it needs
    """``rule.policy.resolve(key)`` has to be awaited; then the batch is judged again."""

    def __init__(self, rule: Rule, key: object) -> None:
        super().__init__(rule.name, key)
        self.rule, self.key = rule, key


class PolicyFailedError(Exception):
    """A policy raised what is neither a refusal nor `Unresolved`. The cause is chained."""

    def __init__(self, policy: str, error: BaseException) -> None:
        super().__init__(f"policy {policy} failed: {type(error).__name__}")
        self.policy, self.error = policy, error


NO_FAILURES = (CodecError, ResolveRequired, PolicyFailedError, KeyboardInterrupt)  # of the policy that is asked
OnFailure = Callable[[str, BaseException], None]  # name of the policy that failed open, and its error


def ignore_failure(policy: str, error: BaseException) -> None:
    """Nobody wants to know."""


class BatchOnce(Protocol):
    """A `Batch`, or what keeps its records once they are inflated."""

    @property
    def header(self) -> BatchHeader: ...

    def records(self, limit: int) -> Records:
        """As `Batch.records`."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The rules of a topic, in their order."""

    rules: tuple[Rule, ...]
    report: OnFailure = ignore_failure
    hints: Hints = field(init=False)
    needs_records: bool = field(init=False)  # whether a batch has to be decompressed
    records_at_once: int = field(init=False)  # of how many records a batch may be judged while others wait
    _of_header: tuple[Rule, ...] = field(init=False)  # those that judge before that
    _of_records: tuple[Rule, ...] = field(init=False)

    def __post_init__(self) -> None:
        inside = tuple(rule for rule in self.rules if rule.hints.access_contents)
        by_header = tuple(rule for rule in self.rules if rule.judges_header or not rule.hints.access_contents)
        object.__setattr__(self, "hints", reduce(or_, (rule.hints for rule in self.rules), Hints()))
        object.__setattr__(self, "needs_records", bool(inside))
        at_once = min((rule.policy.records_at_once for rule in inside), default=sys.maxsize)
        object.__setattr__(self, "records_at_once", at_once)
        object.__setattr__(self, "_of_header", by_header)
        object.__setattr__(self, "_of_records", inside)

    def validate(
        self,
        topic: TopicMetadata,
        batch: BatchOnce,
        limit: int,
        failed_keys: Collection[tuple[str, object]] = NO_FAILED_KEYS,
    ) -> list[Rejection]:
        """The records that some rule refuses, by index; empty: the batch may pass.

        Args:
            topic: where the batch goes; each rule sees it with its own text.
            batch: as the client sent it. Its header is asked first; it is decompressed only if a rule needs that.
            limit: bytes that it may have when decompressed.
            failed_keys: (name of the rule, key) of what could not be resolved: counts as a failure of that policy.

        Raises:
            ResolveRequired: a policy cannot say yet.
            PolicyFailedError: a policy failed, and is not to fail open.
            CodecError: the batch is corrupt, or larger than the limit.
        """
        refusals: dict[int, Rejection] = {}
        header = batch.header
        for rule in self._of_header:
            judge = rule.judges_header or rule.judge_without_records
            self._collect(refusals, rule, judge, topic, header, header.count, failed_keys)
        if self.needs_records and WHOLE_BATCH not in refusals:
            records = batch.records(limit)
            for rule in self._of_records:
                judge = rule.judges_batch or self._one_by_one(rule, refusals, failed_keys)
                self._collect(refusals, rule, judge, topic, records, header.count, failed_keys)
        return [refusals[index] for index in sorted(refusals)] if refusals else []

    def _collect(
        self,
        refusals: dict[int, Rejection],
        rule: Rule,
        judge: Callable[[TopicMetadata, Any], Iterable[Fault]],
        topic: TopicMetadata,
        subject: BatchHeader | Records,
        count: int,
        failed_keys: Collection[tuple[str, object]],
    ) -> None:
        """Add what a rule refuses of a batch of ``count`` records. Costs nothing but the call where that is nothing."""
        try:
            for fault in judge(rule.own(topic), subject):
                if fault.index != WHOLE_BATCH and not 0 <= fault.index < count:
                    raise IndexError(f"record {fault.index} is refused, of {count}")
                refusal = Rejection(
                    fault.index, truncate_message(fault.message), rule.name, truncate_message(fault.reason)
                )
                refusals.setdefault(fault.index, refusal)
                if len(refusals) >= MAX_REJECTIONS:
                    return
        except NO_FAILURES:
            raise
        except BaseException as error:  # noqa: BLE001 - _failed raises it, unless the operator chose otherwise
            self._failed(rule, error, failed_keys)

    def _one_by_one(
        self, rule: Rule, refused: dict[int, Rejection], failed_keys: Collection[tuple[str, object]]
    ) -> Callable[[TopicMetadata, Records], Iterable[Fault]]:
        """What a policy that judges by the record says of a batch."""

        def judge(topic: TopicMetadata, records: Records) -> Iterator[Fault]:
            validate = rule.judges_record
            view = None if sees_all(rule.hints) else view_class(rule.hints)()
            for record in records:
                if refused and record.index in refused:
                    continue
                try:
                    if validate(topic, record if view is None else view.of(record)) is not None:
                        raise TypeError(RETURNED)
                except InvalidRecordError as refusal:
                    yield Fault(record.index, str(refusal), refusal.reason)
                except NO_FAILURES:
                    raise
                except BaseException as error:  # noqa: BLE001 - the same
                    self._failed(rule, error, failed_keys)

        return judge

    def _failed(self, rule: Rule, error: BaseException, failed_keys: Collection[tuple[str, object]]) -> None:
        """Raise what ends the judging; returning means that the rule lets pass.

        A SystemExit, or the panic of a library in Rust, is a failure like any other: it must not end the process, nor
        leave a client waiting.
        """
        if (
            isinstance(error, Unresolved)
            and len(failed_keys) < MAX_RESOLVES
            and (rule.name, error.key) not in failed_keys
        ):
            raise ResolveRequired(rule, error.key) from error
        if not rule.fail_open:
            raise PolicyFailedError(rule.name, error) from error
        self.report(rule.name, error)


def truncate_message(message: str) -> str:
    """A message that any answer can carry."""
    return message[:MAX_MESSAGE_CHARS].encode("utf-8", "replace").decode()
