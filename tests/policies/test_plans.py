"""Validation of a batch by a plan: order of the rules, decompression, rejections and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kafka_sidecar.codec.checkpoint import StoppedError
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.policies.catalog import PolicyCatalog
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
from kafka_sidecar.policies.plans import (
    MAX_RESOLVES,
    Plan,
    PolicyFailedError,
    Rejection,
    ResolveRequired,
    Rule,
)

LIMIT = 1 << 20
Batches = Callable[..., Any]


class Asked(RecordValidationPolicy):
    """Validates each record as the test asks, and records the topics that it got."""

    def __init__(self, validate: Callable[[Any], None] = lambda record: None, hints: Hints | None = None) -> None:
        self.wanted, self.validate_one = hints, validate
        self.topics: list[TopicMetadata] = []

    def hints(self) -> Hints:
        return self.wanted or super().hints()

    def validate(self, topic: TopicMetadata, record: Any) -> None:
        self.topics.append(topic)
        self.validate_one(record)


class AskedByBatch(Asked):
    def __init__(self, faults: Sequence[Fault] = (), error: BaseException | None = None) -> None:
        super().__init__()
        self.faults, self.error = faults, error

    def validate_batch(self, topic: TopicMetadata, records: Any) -> Sequence[Fault]:
        self.topics.append(topic)
        if self.error:
            raise self.error
        return self.faults


class AskedByHeader(Asked):
    def __init__(self, faults: Sequence[Fault], hints: Hints) -> None:
        super().__init__(hints=hints)
        self.faults = faults

    def validate_header(self, topic: TopicMetadata, header: Any) -> Sequence[Fault]:
        return self.faults


def refuse(message: str, reason: str = "rejected") -> Callable[[Any], None]:
    def validate(record: Any) -> None:
        raise InvalidRecordError(message, reason)

    return validate


def fail(error: BaseException) -> Callable[[Any], None]:
    def validate(record: Any) -> None:
        raise error

    return validate


def odd_values(record: Any) -> None:
    if int(record.value) % 2:
        raise InvalidRecordError("odd", "parity")


def rule(policy: RecordValidationPolicy, name: str = "p", text: str = "", *, fail_open: bool = False) -> Rule:
    return Rule(name, policy, text, fail_open, policy.hints())


def test_a_batch_that_every_rule_accepts_has_no_rejections(batch: Batches, orders: TopicMetadata) -> None:
    plan = Plan((rule(Asked()), rule(AskedByBatch())))
    assert plan.validate(orders, batch({}, {}), LIMIT) == []


def test_all_invalid_records_are_reported_by_index(batch: Batches, orders: TopicMetadata) -> None:
    found = Plan((rule(Asked(odd_values)),)).validate(orders, batch(*({"value": b"%d" % n} for n in range(5))), LIMIT)
    assert found == [Rejection(1, "odd", "p", "parity"), Rejection(3, "odd", "p", "parity")]


@pytest.mark.parametrize("text", ["require_header:h", "key", "json", "custom"])
def test_at_most_a_thousand_invalid_records_of_a_batch_are_reported(
    text: str, batch: Batches, orders: TopicMetadata
) -> None:
    plan = Plan((rule(Asked(refuse("no"))),)) if text == "custom" else PolicyCatalog({}).plan(text)
    found = plan.validate(orders, batch(*[{"value": b"no JSON"}] * (MAX_REJECTIONS + 1)), LIMIT)
    assert [one.index for one in found] == list(range(MAX_REJECTIONS))


def test_a_rejection_has_the_name_of_the_first_rule_that_rejects(batch: Batches, orders: TopicMetadata) -> None:
    first = rule(AskedByBatch([Fault(2, "by batch", "a")]), "first")
    second = rule(Asked(refuse("by record", "b")), "second")
    found = Plan((first, second)).validate(orders, batch({}, {}, {}), LIMIT)
    assert [(one.index, one.policy) for one in found] == [(0, "second"), (1, "second"), (2, "first")]


def test_a_rejected_record_is_not_passed_to_the_next_rules(batch: Batches, orders: TopicMetadata) -> None:
    second = Asked()
    Plan((rule(AskedByBatch([Fault(0, "no")])), rule(second))).validate(orders, batch({}, {}), LIMIT)
    assert len(second.topics) == 1


def test_each_rule_gets_the_topic_with_its_own_argument(batch: Batches, orders: TopicMetadata) -> None:
    one, other = Asked(), AskedByBatch()
    Plan((rule(one, text="x"), rule(other, text="y"))).validate(orders, batch({}), LIMIT)
    assert one.topics == [TopicMetadata("orders", 3, bytes(16), "x")]
    assert other.topics == [TopicMetadata("orders", 3, bytes(16), "y")]


def test_a_batch_is_not_decompressed_for_rules_that_need_no_records(batch: Batches, orders: TopicMetadata) -> None:
    contents = batch({}, {})
    header_only = rule(AskedByHeader([], Hints()))
    closed = rule(Asked(hints=Hints()))
    assert Plan((header_only, closed)).validate(orders, contents, LIMIT) == []
    assert contents.inflated == 0


def test_a_batch_is_decompressed_once_for_all_rules(batch: Batches, orders: TopicMetadata) -> None:
    contents = batch({})
    Plan((rule(Asked()), rule(AskedByBatch()), rule(Asked()))).validate(orders, contents, LIMIT)
    assert contents.inflated == 1


def test_a_policy_without_hints_validates_the_batch_once(batch: Batches, orders: TopicMetadata) -> None:
    found = Plan((rule(Asked(refuse("closed"), Hints()), "closed"),)).validate(orders, batch({}, {}), LIMIT)
    assert found == [Rejection(WHOLE_BATCH, "closed", "closed", "rejected")]


def test_a_batch_rejected_by_its_header_is_not_decompressed(batch: Batches, orders: TopicMetadata) -> None:
    contents = batch({}, {})
    by_header = rule(AskedByHeader([Fault(WHOLE_BATCH, "too many")], Hints(access_value_bytes=ALL)))
    found = Plan((rule(Asked(refuse("never asked"))), by_header)).validate(orders, contents, LIMIT)
    assert [one.message for one in found] == ["too many"]
    assert contents.inflated == 0


def test_an_unresolved_value_is_reported_with_rule_and_key(batch: Batches, orders: TopicMetadata) -> None:
    asking = rule(Asked(fail(Unresolved(7))), "schema")
    with pytest.raises(ResolveRequired) as waiting:
        Plan((asking,)).validate(orders, batch({}), LIMIT)
    assert (waiting.value.rule, waiting.value.key) == (asking, 7)


def test_a_value_that_cannot_be_resolved_is_a_failure(batch: Batches, orders: TopicMetadata) -> None:
    given_up = {("schema", 7)}
    closed = Plan((rule(Asked(fail(Unresolved(7))), "schema"),))
    with pytest.raises(PolicyFailedError):
        closed.validate(orders, batch({}), LIMIT, given_up)
    opened = Plan((rule(Asked(fail(Unresolved(7))), "schema", fail_open=True),))
    assert opened.validate(orders, batch({}), LIMIT, given_up) == []
    with pytest.raises(ResolveRequired):
        opened.validate(orders, batch({}), LIMIT, {("schema", 8)})


@pytest.mark.parametrize("policy", [Asked(fail(KeyError("x"))), AskedByBatch(error=KeyError("x"))])
def test_an_exception_in_a_policy_ends_validation_with_its_name(
    policy: RecordValidationPolicy, batch: Batches, orders: TopicMetadata
) -> None:
    with pytest.raises(PolicyFailedError) as failed:
        Plan((rule(policy, "buggy"),)).validate(orders, batch({}), LIMIT)
    assert failed.value.policy == "buggy"
    assert isinstance(failed.value.error, KeyError)


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()])
@pytest.mark.parametrize("kind", ["record", "batch"])
def test_system_exit_and_cancellation_are_failures_like_other_exceptions(
    error: BaseException, kind: str, batch: Batches, orders: TopicMetadata
) -> None:
    policy = Asked(fail(error)) if kind == "record" else AskedByBatch(error=error)
    with pytest.raises(PolicyFailedError) as failed:
        Plan((rule(policy),)).validate(orders, batch({}), LIMIT)
    assert failed.value.error is error


def test_a_keyboard_interrupt_is_not_caught(batch: Batches, orders: TopicMetadata) -> None:
    with pytest.raises(KeyboardInterrupt):
        Plan((rule(Asked(fail(KeyboardInterrupt())), fail_open=True),)).validate(orders, batch({}), LIMIT)


ODD_FAULTS = [Fault(2, "of two"), Fault(-2, "negative"), Fault(0, None), Fault(0, "no", None), Fault("1", "no")]  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", [*ODD_FAULTS, None], ids=str)
def test_a_fault_that_is_invalid_is_a_failure_of_the_policy(
    odd: Fault | None, batch: Batches, orders: TopicMetadata
) -> None:
    policy = AskedByBatch([Fault(0, "bad"), odd])  # type: ignore[list-item]
    with pytest.raises(PolicyFailedError):
        Plan((rule(policy),)).validate(orders, batch({}, {}), LIMIT)


def test_a_policy_that_never_stops_asking_for_new_values_has_failed(batch: Batches, orders: TopicMetadata) -> None:
    given_up = {("p", number) for number in range(MAX_RESOLVES)}
    with pytest.raises(PolicyFailedError):
        Plan((rule(Asked(fail(Unresolved("new")))),)).validate(orders, batch({}), LIMIT, given_up)


def test_an_unresolved_key_that_is_not_hashable_is_a_failure(batch: Batches, orders: TopicMetadata) -> None:
    def asks(record: Any) -> None:
        raise Unresolved([7])

    with pytest.raises(PolicyFailedError):
        Plan((rule(Asked(asks)),)).validate(orders, batch({}), LIMIT)


@pytest.mark.parametrize(("policy", "times"), [(Asked(fail(KeyError("x"))), 2), (AskedByBatch(error=KeyError("x")), 1)])
def test_with_fail_open_a_failure_is_reported_and_the_other_rules_run(
    policy: RecordValidationPolicy, times: int, batch: Batches, orders: TopicMetadata
) -> None:
    reported: list[tuple[str, BaseException]] = []
    rules = (rule(policy, "buggy", fail_open=True), rule(Asked(odd_values), "parity"))
    plan = Plan(rules, report=lambda name, error: reported.append((name, error)))
    found = plan.validate(orders, batch({"value": b"1"}, {"value": b"2"}), LIMIT)
    assert [(one.index, one.policy) for one in found] == [(0, "parity")]
    assert [name for name, _ in reported] == ["buggy"] * times


def test_a_codec_error_is_not_a_failure_of_the_policy(batch: Batches, orders: TopicMetadata) -> None:
    for policy in (Asked(fail(CodecError("varint"))), AskedByBatch(error=CodecError("varint"))):
        with pytest.raises(CodecError):
            Plan((rule(policy, fail_open=True),)).validate(orders, batch({}), LIMIT)


def test_a_validation_that_is_stopped_is_not_a_failure_of_the_policy(batch: Batches, orders: TopicMetadata) -> None:
    for policy in (Asked(fail(StoppedError())), AskedByBatch(error=StoppedError())):
        with pytest.raises(StoppedError):
            Plan((rule(policy, fail_open=True),)).validate(orders, batch({}), LIMIT)


def test_the_hints_of_a_plan_combine_those_of_its_rules() -> None:
    one, other = Hints(access_key_bytes=5), Hints(access_headers=True, access_key_bytes=ALL)
    assert Plan((rule(Asked(hints=one)), rule(Asked(hints=other)))).hints == other
    assert not Plan(()).hints.access_contents


@pytest.mark.parametrize("hints", [None, Hints()], ids=["records", "header"])
def test_returning_false_is_a_failure_and_not_a_rejection(
    hints: Hints | None, batch: Batches, orders: TopicMetadata
) -> None:
    class SaysFalse(Asked):
        def validate(self, topic: TopicMetadata, record: Any) -> Any:
            return False

    with pytest.raises(PolicyFailedError) as failed:
        Plan((rule(SaysFalse(hints=hints)),)).validate(orders, batch({}), LIMIT)
    assert "raise InvalidRecordError" in str(failed.value.error)


def test_a_rejection_message_is_valid_utf_8_of_limited_length(batch: Batches, orders: TopicMetadata) -> None:
    (found,) = Plan((rule(Asked(refuse("\udcff" + "ü" * 40_000))),)).validate(orders, batch({}), LIMIT)
    assert found.message == "?" + "ü" * 999


def test_a_rejection_reason_is_a_valid_metric_label(batch: Batches, orders: TopicMetadata) -> None:
    (found,) = Plan((rule(Asked(refuse("no", "\udcff" + "x" * 40_000))),)).validate(orders, batch({}), LIMIT)
    assert found.reason == "?" + "x" * 999


class Looking(RecordValidationPolicy):
    """Accesses a field of every record."""

    def __init__(self, look: Callable[[Any], object], hints: Hints) -> None:
        self.look, self.wanted = look, hints

    def hints(self) -> Hints:
        return self.wanted

    def validate(self, topic: TopicMetadata, record: Any) -> None:
        self.look(record)


def looking(look: Callable[[Any], object], hints: Hints) -> Rule:
    return Rule("looking", Looking(look, hints), hints=hints)


SIGHTS: dict[str, tuple[Callable[[Any], object], object]] = {
    "access_key_bytes": (lambda record: record.key, b"some key"),
    "access_value_bytes": (lambda record: record.value, b"some value"),
    "access_headers": (lambda record: [(one.key, one.value) for one in record.headers], [("h", b"v")]),
}


@pytest.mark.parametrize("part", SIGHTS)
@pytest.mark.parametrize("asked", SIGHTS)
def test_a_policy_sees_only_the_fields_in_its_hints(
    part: str, asked: str, batch: Batches, orders: TopicMetadata
) -> None:
    look, expected = SIGHTS[part]
    seen: list[object] = []
    values: dict[str, Any] = {asked: True if asked == "access_headers" else ALL}
    plan = Plan((looking(lambda record: seen.append(look(record)), Hints(**values)),))
    contents = batch({"key": b"some key", "value": b"some value", "headers": [("h", b"v")]})
    if part == asked:
        plan.validate(orders, contents, LIMIT)
        assert seen == [expected]
    else:
        with pytest.raises(PolicyFailedError) as failed:
            plan.validate(orders, contents, LIMIT)
        assert part in str(failed.value.error)


def test_hints_of_another_policy_show_no_more_fields(batch: Batches, orders: TopicMetadata) -> None:
    curious = looking(lambda record: record.value, Hints(access_headers=True))
    entitled = looking(lambda record: record.value, Hints(access_value_bytes=ALL))
    with pytest.raises(PolicyFailedError):
        Plan((entitled, curious)).validate(orders, batch({}), LIMIT)


def test_a_hint_of_some_bytes_shows_only_the_first_bytes(batch: Batches, orders: TopicMetadata) -> None:
    seen: list[object] = []

    def look(record: Any) -> None:
        seen.extend([record.value, record.value_prefix(2), record.key, record.key_prefix(1)])

    hints = Hints(access_key_bytes=2, access_value_bytes=4)
    Plan((looking(look, hints),)).validate(orders, batch({"key": b"abc", "value": b"012345"}), LIMIT)
    assert seen == [b"0123", b"01", b"ab", b"a"]
    for size in (5, ALL):
        too_far = looking(lambda record, size=size: record.value_prefix(size), hints)  # type: ignore[misc]
        with pytest.raises(PolicyFailedError):
            Plan((too_far,)).validate(orders, batch({"value": b"012345"}), LIMIT)


def test_with_access_metadata_sizes_and_timestamps_are_visible(batch: Batches, orders: TopicMetadata) -> None:
    seen: list[object] = []

    def look(record: Any) -> None:
        seen.extend([record.timestamp, record.key_size, record.value_size, record.index])

    contents = batch({"key": b"abc", "value": b"012345", "timestamp": 17})
    Plan((looking(look, Hints(access_metadata=True)),)).validate(orders, contents, LIMIT)
    assert seen == [17, 3, 6, 0]
