"""The policies that apply to a topic, compiled once from its policy string, and the validation of one batch by them.

All invalid records of a batch are found, not just the first (KIP-467), up to `MAX_REJECTIONS`; a record that several
rules reject is reported with the first of them. A policy sees of a record what its hints asked for, and nothing else
(KIP-940).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import attrgetter, or_
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from kafka_sidecar.codec.checkpoint import StoppedError, ThreadRequiredError
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.plugins.calls import Call, calls_plug_in
from kafka_sidecar.plugins.pace import Pace, are_ours
from kafka_sidecar.plugins.values import Histogram
from kafka_sidecar.plugins.violations import ContractError, ContractTypeError, ContractValueError
from kafka_sidecar.policies.contract import (
    ALL,
    MAX_REJECTIONS,
    WHOLE_BATCH,
    Fault,
    Hints,
    InvalidRecordError,
    RecordValidationPolicy,
    TopicMetadata,
    Unresolved,
)

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import BatchHeader, Record, Records

EVERYTHING = Hints(access_headers=True, access_key_bytes=ALL, access_value_bytes=ALL, access_metadata=True)
METADATA = ("index", "timestamp", "key_size", "value_size")


class HintViolationError(ContractError):
    """A policy reads something that its hints do not name. A None in its place would look like a null value."""


class View:
    """A record as the hints of one policy allow to see it; one object is reused for all records of a batch.

    `view_class` creates a class for each combination of hints, so that visible attributes are read without a call in
    Python.
    """

    __slots__ = ("_record",)

    def of(self, record: Record) -> Any:
        """This view, now showing ``record``."""
        self._record = record
        return self


def sees_all(hints: Hints) -> bool:
    """Whether nothing has to be hidden: sizes and timestamp are visible wherever a record is."""
    return hints | Hints(access_metadata=True) == EVERYTHING


@lru_cache(256)
def view_class(hints: Hints) -> type[View]:
    """The view for these hints. What they request as a whole reads as in a `Record`."""
    has_records = hints.access_contents
    members: dict[str, Any] = {
        name: _visible(name) if has_records else _hidden(name, "everything") for name in METADATA
    }
    for part, size in (("key", hints.access_key_bytes), ("value", hints.access_value_bytes)):
        members |= _bytes_members(part, size)
    for name in ("headers", "header"):
        members[name] = _visible(name) if hints.access_headers else _hidden("headers", "access_headers")
    return type("View", (View,), {"__slots__": (), **members})


def _bytes_members(part: str, size: int) -> dict[str, Any]:
    """The members for the key or value, of which ``size`` bytes are visible."""
    prefix, hint = f"{part}_prefix", f"access_{part}_bytes"
    if size == ALL:
        return {part: _visible(part), prefix: _visible(prefix)}
    if size == 0:
        return {part: _hidden(part, hint), prefix: _hidden(part, hint)}
    of_record = attrgetter(f"_record.{prefix}")

    def limited(view: View, wanted: int) -> bytes | None:
        if not 0 <= wanted <= size:
            _raise(f"{part} beyond {size} bytes", hint)
        found: bytes | None = of_record(view)(wanted)
        return found

    return {part: property(lambda view: of_record(view)(size)), prefix: limited}


def _visible(name: str) -> property:
    return property(attrgetter(f"_record.{name}"))


def _hidden(part: str, hint: str) -> property:
    return property(lambda view: _raise(part, hint))


def _raise(part: str, hint: str) -> NoReturn:
    raise HintViolationError(f"the policy reads {part} of the record, but its hints() do not set {hint}")


# A policy that returns False has a bug: it must not silently accept every record.
RETURNED_VALUE = "validate() returned a value: return nothing to accept, raise InvalidRecordError to reject"
MAX_MESSAGE_CHARS = 1000  # a response has room for 32767 bytes
MAX_RESOLVES = 100  # of one batch: a policy could raise Unresolved with another key each time
MAX_CACHED_TOPICS = 1000  # partitions of topics, for each rule
NO_FAILED_KEYS: frozenset[tuple[str, object]] = frozenset()
BatchValidator = Callable[[TopicMetadata, Any], Iterable[Fault]]


@dataclass(slots=True, eq=False)
class Rule:
    """One policy as a topic uses it."""

    name: str  # of the policy: a label value of metrics
    policy: RecordValidationPolicy
    text: str = ""  # the policy's argument: its topic.validation_policy
    fail_open: bool = False  # whether a record that the policy fails on is accepted
    hints: Hints = EVERYTHING  # what policy.hints() returned after configure()
    settings: Mapping[str, Any] = field(default_factory=dict)  # what its configure() was given
    calls: Histogram = field(default_factory=Histogram)  # how long it took for a batch; shared by the policy's rules
    # The methods of the policy, None for a form that it does not have. They may return anything.
    validate_header: BatchValidator | None = field(init=False)
    validate_batch: BatchValidator | None = field(init=False)
    validate_record: Callable[[TopicMetadata, Any], object] = field(init=False)
    _topics: dict[TopicMetadata, TopicMetadata] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.validate_header = getattr(self.policy, "validate_header", None)
        self.validate_batch = getattr(self.policy, "validate_batch", None)
        self.validate_record = self.policy.validate

    def topic_of(self, topic: TopicMetadata) -> TopicMetadata:
        """The topic with this rule's argument. Cached: creating one takes as long as the rest of a fast policy."""
        own = self._topics.get(topic)
        if own is None:
            if len(self._topics) >= MAX_CACHED_TOPICS:  # clients choose the names
                self._topics.clear()
            own = self._topics[topic] = topic._replace(validation_policy=self.text)
        return own

    def validate_without_records(self, topic: TopicMetadata, header: BatchHeader) -> Iterable[Fault]:
        """Call a policy that has no hints once for the batch; it sees no record."""
        try:
            if self.validate_record(topic, view_class(self.hints)()) is not None:
                raise ContractTypeError(RETURNED_VALUE)
        except InvalidRecordError as error:
            return (Fault(WHOLE_BATCH, str(error), error.reason),)
        return ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """One rejected record, or the rejected batch if ``index`` is `WHOLE_BATCH`."""

    index: int
    message: str  # for the client; quotes no contents
    policy: str  # name of the rule
    reason: str  # a label value of metrics


class ResolveRequired(Exception):  # noqa: N818 - not an error: validate again after the policy has resolved the key
    """``rule.policy.resolve(key)`` has to be awaited; then the batch is validated again."""

    def __init__(self, rule: Rule, key: object) -> None:
        super().__init__(rule.name, key)
        self.rule, self.key = rule, key


class PolicyFailedError(Exception):
    """A policy raised something other than `InvalidRecordError` and `Unresolved`. The cause is chained."""

    def __init__(self, policy: str, error: BaseException) -> None:
        super().__init__(f"policy {policy} failed: {type(error).__name__}")
        self.policy, self.error = policy, error


NOT_FAILURES = (
    CodecError,
    StoppedError,
    ThreadRequiredError,
    ResolveRequired,
    PolicyFailedError,
    KeyboardInterrupt,
)  # of the policy that is called
OnFailure = Callable[[str, BaseException], None]  # name of the policy that failed open, and its error


def ignore_failure(policy: str, error: BaseException) -> None:
    """Report nothing."""


class BatchOnce(Protocol):
    """A `Batch`, or an object that keeps the records of one after decompression."""

    @property
    def header(self) -> BatchHeader: ...

    def records(self, limit: int) -> Records:
        """As `Batch.records`."""
        ...


class Plan:
    """The rules of a topic, in order, and how long they take. All else is immutable."""

    __slots__ = (
        "_header_rules", "_max_records_at_once", "_record_rules", "bytes_at_once", "hints", "needs_records", "pace",
        "report", "rules",
    )  # fmt: skip

    def __init__(self, rules: tuple[Rule, ...], report: OnFailure = ignore_failure) -> None:
        self.rules = rules
        self.report = report
        self.hints = reduce(or_, (rule.hints for rule in rules), Hints())
        self._header_rules = tuple(rule for rule in rules if rule.validate_header or not rule.hints.access_contents)
        self._record_rules = tuple(rule for rule in rules if rule.hints.access_contents)
        self.needs_records = bool(self._record_rules)  # whether a batch has to be decompressed
        # A batch of more records, or more bytes when it is decompressed, is validated in a thread.
        self.bytes_at_once = min((rule.policy.bytes_at_once for rule in self._record_rules), default=sys.maxsize)
        self._max_records_at_once = min(
            (rule.policy.records_at_once for rule in self._record_rules), default=sys.maxsize
        )
        self.pace = Pace(are_ours(rule.policy for rule in rules))

    @property
    def records_at_once(self) -> int:
        """How many records a batch may have to be validated while all other connections wait."""
        most, paced = self._max_records_at_once, self.pace.records_at_once
        return most if most < paced else paced

    def validate(
        self,
        topic: TopicMetadata,
        batch: BatchOnce,
        limit: int,
        failed_keys: Collection[tuple[str, object]] = NO_FAILED_KEYS,
    ) -> list[Rejection]:
        """The rejected records, by index; empty: the batch is accepted.

        Args:
            topic: where the batch is produced to; each rule sees it with its own argument.
            batch: as the client sent it. Its header is validated first; it is decompressed only if a rule needs that.
            limit: bytes of the batch when decompressed.
            failed_keys: (name of the rule, key) for which ``resolve`` has failed, or has not helped: a policy that
                raises `Unresolved` for such a key has failed.

        Raises:
            ResolveRequired: a policy raised `Unresolved`.
            PolicyFailedError: a policy failed, and fails closed.
            ThreadRequiredError: a policy must not be called by the event loop for these records.
            CodecError: the batch is corrupt, or larger than the limit.
        """
        rejections: dict[int, Rejection] = {}
        header = batch.header
        count = header.count
        if self._header_rules:
            began = ended = time.perf_counter()
            try:
                for rule in self._header_rules:
                    validate = rule.validate_header or rule.validate_without_records
                    ended = self._collect(rejections, rule, validate, topic, header, count, failed_keys, ended)
            except BaseException:
                ended = time.perf_counter()
                raise
            finally:
                self.pace.add(0, ended - began)
        if self.needs_records and WHOLE_BATCH not in rejections:
            records = batch.records(limit)
            began = ended = time.perf_counter()
            try:
                for rule in self._record_rules:
                    validate = rule.validate_batch or self._validate_each(rule, rejections, failed_keys)
                    ended = self._collect(rejections, rule, validate, topic, records, count, failed_keys, ended)
            except BaseException:
                ended = time.perf_counter()
                raise
            finally:
                self.pace.add(count, ended - began)
        return [rejections[index] for index in sorted(rejections)] if rejections else []

    @calls_plug_in(
        lambda of: Call("policy", of["rule"].name, getattr(of["validate"], "__name__", "validate"), of["topic"].topic)
    )
    def _collect(
        self,
        rejections: dict[int, Rejection],
        rule: Rule,
        validate: BatchValidator,
        topic: TopicMetadata,
        subject: BatchHeader | Records,
        count: int,
        failed_keys: Collection[tuple[str, object]],
        began: float,
    ) -> float:
        """Add what a rule rejects of a batch of ``count`` records. An accepted batch costs no more than the call.

        It begins at ``began``; returns when it has ended. The clock is looked at once for each rule.
        """
        try:
            for fault in validate(rule.topic_of(topic), subject):
                if fault.index != WHOLE_BATCH and not 0 <= fault.index < count:
                    raise ContractValueError(f"rejected record {fault.index} of a batch of {count}")
                message, reason = truncate_message(fault.message), truncate_message(fault.reason)
                rejections.setdefault(fault.index, Rejection(fault.index, message, rule.name, reason))
                if len(rejections) >= MAX_REJECTIONS:
                    break
        except NOT_FAILURES:
            raise
        except BaseException as error:  # noqa: BLE001 - _failed raises it, unless the operator chose otherwise
            self._failed(rule, error, failed_keys)
        finally:
            ended = time.perf_counter()
            us, calls = int((ended - began) * 1e6), rule.calls
            calls.counts[us.bit_length()] += 1  # as `Histogram.add`: each batch would pay for the call
            calls.total_us += us
        return ended

    def _validate_each(
        self, rule: Rule, rejected: dict[int, Rejection], failed_keys: Collection[tuple[str, object]]
    ) -> Callable[[TopicMetadata, Records], Iterable[Fault]]:
        """A function that calls a policy for each record that is not rejected yet."""

        def validate(topic: TopicMetadata, records: Records) -> Iterator[Fault]:
            validate_one = rule.validate_record
            view = None if sees_all(rule.hints) else view_class(rule.hints)()
            for record in records:
                if rejected and record.index in rejected:
                    continue
                try:
                    if validate_one(topic, record if view is None else view.of(record)) is not None:
                        raise ContractTypeError(RETURNED_VALUE)
                except InvalidRecordError as error:
                    yield Fault(record.index, str(error), error.reason)
                except NOT_FAILURES:
                    raise
                except BaseException as error:  # noqa: BLE001 - _failed raises it, unless the operator chose otherwise
                    self._failed(rule, error, failed_keys)

        return validate

    def _failed(self, rule: Rule, error: BaseException, failed_keys: Collection[tuple[str, object]]) -> None:
        """Raise what ends the validation; returning means that the rule fails open.

        SystemExit and the panic of a library in Rust are failures too: they must not end the process, and the client
        must get its response.
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
    """A message that fits any response: not too long, and valid UTF-8."""
    return message[:MAX_MESSAGE_CHARS].encode("utf-8", "replace").decode()
