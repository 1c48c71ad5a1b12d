"""What applies to a topic, compiled once from its policy string, and how one batch is judged by it.

All bad records of a batch are found, not just the first (KIP-467); the first rule that refuses a record names it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.policies.contract import (
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
    from kafka_sidecar.codec.records import Batch, Records

# A policy that means False by "refused" must not let everything pass, nor one that is written as a coroutine.
RETURNED = "validate() gave something back: it refuses by raising InvalidRecordError, and lets pass by giving nothing"
LONGEST_MESSAGE = 1000  # characters: an answer has room for 32767 bytes of each
NOTHING_GIVEN_UP: frozenset[tuple[str, object]] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """One policy as a topic uses it."""

    name: str  # of the policy: a label value of metrics
    policy: RecordValidationPolicy
    text: str = ""  # what the policy gets as the topic's validation_policy
    fail_open: bool = False  # a failure of the policy lets the record pass
    hints: Hints = EVERYTHING  # what policy.hints() said after configure()

    @property
    def judges(self) -> Callable[[TopicMetadata, Any], object]:
        """``policy.validate``; a class of others may give back what it must not."""
        return self.policy.validate

    def own(self, topic: TopicMetadata) -> TopicMetadata:
        """The topic as this policy is told of it."""
        return TopicMetadata(topic.topic, topic.partition, topic.topic_id, self.text)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One record that is refused, or the batch where ``index`` is `WHOLE_BATCH`."""

    index: int
    message: str  # for the client; quotes no contents
    policy: str  # name of the rule
    reason: str  # one of few words


class Waiting(Exception):  # noqa: N818 - not an error: judge again when the policy has what it needs
    """``rule.policy.resolve(key)`` has to be awaited; then the batch is judged again."""

    def __init__(self, rule: Rule, key: object) -> None:
        super().__init__(rule.name, key)
        self.rule, self.key = rule, key


class PolicyFailedError(Exception):
    """A policy raised what is neither a refusal nor `Unresolved`. The cause is chained."""

    def __init__(self, policy: str, error: Exception) -> None:
        super().__init__(f"policy {policy} failed: {type(error).__name__}")
        self.policy, self.error = policy, error


Report = Callable[[str, Exception], None]  # name of the policy that failed open, and its error


def unreported(policy: str, error: Exception) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The rules of a topic, in their order."""

    rules: tuple[Rule, ...]
    report: Report = unreported
    hints: Hints = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hints", reduce(or_, (rule.hints for rule in self.rules), Hints()))

    def judge(
        self,
        topic: TopicMetadata,
        batch: Batch,
        limit: int,
        given_up: Collection[tuple[str, object]] = NOTHING_GIVEN_UP,
    ) -> list[Refusal]:
        """Every record that some rule refuses, by index; empty: the batch may pass.

        Args:
            topic: where the batch goes; each rule sees it with its own text.
            batch: as the client sent it. Its header is asked first; it is decompressed only if a rule needs that.
            limit: bytes that it may have when decompressed.
            given_up: (name of the rule, key) of what could not be resolved: counts as a failure of that policy.

        Raises:
            Waiting: a policy cannot say yet.
            PolicyFailedError: a policy failed, and is not to fail open.
            CodecError: the batch is corrupt, or larger than the limit.
        """
        told = [(rule, rule.own(topic)) for rule in self.rules]
        refusals: dict[int, Refusal] = {}
        for rule, own in told:
            self._collect(refusals, rule, self._of_header(rule, own, batch), given_up)
        if self.hints.access_contents and WHOLE_BATCH not in refusals:
            records = batch.records(limit)
            for rule, own in told:
                if rule.hints.access_contents:
                    self._collect(refusals, rule, self._of_records(rule, own, records, refusals, given_up), given_up)
        return [refusals[index] for index in sorted(refusals)]

    def _collect(
        self,
        refusals: dict[int, Refusal],
        rule: Rule,
        faults: Iterator[Fault],
        given_up: Collection[tuple[str, object]],
    ) -> None:
        try:
            for fault in faults:
                refusals.setdefault(fault.index, Refusal(fault.index, _told(fault.message), rule.name, fault.reason))
        except Exception as error:  # noqa: BLE001 - _failed raises it, unless the operator chose otherwise
            self._failed(rule, error, given_up)

    def _of_header(self, rule: Rule, topic: TopicMetadata, batch: Batch) -> Iterator[Fault]:
        validate_header = getattr(rule.policy, "validate_header", None)
        if validate_header is not None:
            yield from validate_header(topic, batch.header)
        elif not rule.hints.access_contents:
            try:
                if rule.judges(topic, view_class(rule.hints)()) is not None:
                    raise TypeError(RETURNED)
            except InvalidRecordError as refused:
                yield Fault(WHOLE_BATCH, str(refused), refused.reason)

    def _of_records(
        self,
        rule: Rule,
        topic: TopicMetadata,
        records: Records,
        refused: dict[int, Refusal],
        given_up: Collection[tuple[str, object]],
    ) -> Iterator[Fault]:
        validate_batch = getattr(rule.policy, "validate_batch", None)
        if validate_batch is not None:
            found: Sequence[Fault] = validate_batch(topic, records)
            yield from found
            return
        validate = rule.judges
        view = None if sees_all(rule.hints) else view_class(rule.hints)()
        for record in records:
            if refused and record.index in refused:
                continue
            try:
                if validate(topic, record if view is None else view.of(record)) is not None:
                    raise TypeError(RETURNED)
            except InvalidRecordError as refusal:
                yield Fault(record.index, str(refusal), refusal.reason)
            except Exception as error:  # noqa: BLE001 - the same
                self._failed(rule, error, given_up)

    def _failed(self, rule: Rule, error: Exception, given_up: Collection[tuple[str, object]]) -> None:
        """Raise what ends the judging; returning means that the rule lets pass."""
        if isinstance(error, CodecError | Waiting | PolicyFailedError):
            raise error
        if isinstance(error, Unresolved) and (rule.name, error.key) not in given_up:
            raise Waiting(rule, error.key) from error
        if not rule.fail_open:
            raise PolicyFailedError(rule.name, error) from error
        self.report(rule.name, error)


def _told(message: str) -> str:
    """A message that any answer can carry."""
    return message[:LONGEST_MESSAGE].encode("utf-8", "replace").decode()
