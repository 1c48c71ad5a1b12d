"""What a plan makes of a batch: who is asked for what, in which order, and what becomes of failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

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


def test_the_first_rule_that_refuses_a_record_names_it(batch: Batches, orders: TopicMetadata) -> None:
    first = rule(AskedByBatch([Fault(2, "by batch", "a")]), "first")
    second = rule(Asked(refuse("by record", "b")), "second")
    found = Plan((first, second)).validate(orders, batch({}, {}, {}), LIMIT)
    assert [(one.index, one.policy) for one in found] == [(0, "second"), (1, "second"), (2, "first")]


def test_a_record_that_is_refused_is_not_shown_to_the_next_rules(batch: Batches, orders: TopicMetadata) -> None:
    second = Asked()
    Plan((rule(AskedByBatch([Fault(0, "no")])), rule(second))).validate(orders, batch({}, {}), LIMIT)
    assert len(second.topics) == 1


def test_each_rule_gets_the_topic_with_its_own_argument(batch: Batches, orders: TopicMetadata) -> None:
    one, other = Asked(), AskedByBatch()
    Plan((rule(one, text="x"), rule(other, text="y"))).validate(orders, batch({}), LIMIT)
    assert one.topics == [TopicMetadata("orders", 3, bytes(16), "x")]
    assert other.topics == [TopicMetadata("orders", 3, bytes(16), "y")]


def test_nothing_is_inflated_for_rules_that_need_nothing_of_the_records(batch: Batches, orders: TopicMetadata) -> None:
    contents = batch({}, {})
    header_only = rule(AskedByHeader([], Hints()))
    closed = rule(Asked(hints=Hints()))
    assert Plan((header_only, closed)).validate(orders, contents, LIMIT) == []
    assert contents.inflated == 0


def test_contents_are_inflated_once_for_all_rules(batch: Batches, orders: TopicMetadata) -> None:
    contents = batch({})
    Plan((rule(Asked()), rule(AskedByBatch()), rule(Asked()))).validate(orders, contents, LIMIT)
    assert contents.inflated == 1


def test_a_policy_without_hints_validates_the_batch_once(batch: Batches, orders: TopicMetadata) -> None:
    found = Plan((rule(Asked(refuse("closed"), Hints()), "closed"),)).validate(orders, batch({}, {}), LIMIT)
    assert found == [Rejection(WHOLE_BATCH, "closed", "closed", "rejected")]


def test_a_batch_that_its_header_condemns_is_not_inflated(batch: Batches, orders: TopicMetadata) -> None:
    contents = batch({}, {})
    by_header = rule(AskedByHeader([Fault(WHOLE_BATCH, "too many")], Hints(access_value_bytes=ALL)))
    found = Plan((rule(Asked(refuse("never asked"))), by_header)).validate(orders, contents, LIMIT)
    assert [one.message for one in found] == ["too many"]
    assert contents.inflated == 0


def test_what_cannot_be_said_yet_names_rule_and_key(batch: Batches, orders: TopicMetadata) -> None:
    asking = rule(Asked(fail(Unresolved(7))), "schema")
    with pytest.raises(ResolveRequired) as waiting:
        Plan((asking,)).validate(orders, batch({}), LIMIT)
    assert (waiting.value.rule, waiting.value.key) == (asking, 7)


def test_what_could_not_be_resolved_is_a_failure(batch: Batches, orders: TopicMetadata) -> None:
    given_up = {("schema", 7)}
    closed = Plan((rule(Asked(fail(Unresolved(7))), "schema"),))
    with pytest.raises(PolicyFailedError):
        closed.validate(orders, batch({}), LIMIT, given_up)
    opened = Plan((rule(Asked(fail(Unresolved(7))), "schema", fail_open=True),))
    assert opened.validate(orders, batch({}), LIMIT, given_up) == []
    with pytest.raises(ResolveRequired):
        opened.validate(orders, batch({}), LIMIT, {("schema", 8)})


@pytest.mark.parametrize("policy", [Asked(fail(KeyError("x"))), AskedByBatch(error=KeyError("x"))])
def test_a_failure_ends_the_judging_with_the_name_of_the_policy(
    policy: RecordValidationPolicy, batch: Batches, orders: TopicMetadata
) -> None:
    with pytest.raises(PolicyFailedError) as failed:
        Plan((rule(policy, "buggy"),)).validate(orders, batch({}), LIMIT)
    assert failed.value.policy == "buggy"
    assert isinstance(failed.value.error, KeyError)


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()])
@pytest.mark.parametrize("kind", ["record", "batch"])
def test_what_would_end_the_process_or_its_task_is_a_failure_like_any_other(
    error: BaseException, kind: str, batch: Batches, orders: TopicMetadata
) -> None:
    policy = Asked(fail(error)) if kind == "record" else AskedByBatch(error=error)
    with pytest.raises(PolicyFailedError) as failed:
        Plan((rule(policy),)).validate(orders, batch({}), LIMIT)
    assert failed.value.error is error


def test_an_interrupt_of_the_person_at_the_keyboard_is_none(batch: Batches, orders: TopicMetadata) -> None:
    with pytest.raises(KeyboardInterrupt):
        Plan((rule(Asked(fail(KeyboardInterrupt())), fail_open=True),)).validate(orders, batch({}), LIMIT)


ODD_FAULTS = [Fault(2, "of two"), Fault(-2, "negative"), Fault(0, None), Fault(0, "no", None), Fault("1", "no")]  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", [*ODD_FAULTS, None], ids=str)
def test_a_fault_that_no_answer_can_tell_is_the_policys_failure(
    odd: Fault | None, batch: Batches, orders: TopicMetadata
) -> None:
    policy = AskedByBatch([Fault(0, "bad"), odd])  # type: ignore[list-item]
    with pytest.raises(PolicyFailedError):
        Plan((rule(policy),)).validate(orders, batch({}, {}), LIMIT)


def test_a_policy_that_always_waits_for_something_else_has_failed(batch: Batches, orders: TopicMetadata) -> None:
    given_up = {("p", number) for number in range(MAX_RESOLVES)}
    with pytest.raises(PolicyFailedError):
        Plan((rule(Asked(fail(Unresolved("new")))),)).validate(orders, batch({}), LIMIT, given_up)


def test_a_policy_that_waits_for_what_is_not_hashable_has_failed(batch: Batches, orders: TopicMetadata) -> None:
    def asks(record: Any) -> None:
        raise Unresolved([7])

    with pytest.raises(PolicyFailedError):
        Plan((rule(Asked(asks)),)).validate(orders, batch({}), LIMIT)


@pytest.mark.parametrize(("policy", "times"), [(Asked(fail(KeyError("x"))), 2), (AskedByBatch(error=KeyError("x")), 1)])
def test_a_failure_that_is_to_be_open_is_reported_and_the_other_rules_go_on(
    policy: RecordValidationPolicy, times: int, batch: Batches, orders: TopicMetadata
) -> None:
    reported: list[tuple[str, BaseException]] = []
    rules = (rule(policy, "buggy", fail_open=True), rule(Asked(odd_values), "parity"))
    plan = Plan(rules, report=lambda name, error: reported.append((name, error)))
    found = plan.validate(orders, batch({"value": b"1"}, {"value": b"2"}), LIMIT)
    assert [(one.index, one.policy) for one in found] == [(0, "parity")]
    assert [name for name, _ in reported] == ["buggy"] * times


def test_bytes_that_are_no_batch_are_no_failure_of_a_policy(batch: Batches, orders: TopicMetadata) -> None:
    for policy in (Asked(fail(CodecError("varint"))), AskedByBatch(error=CodecError("varint"))):
        with pytest.raises(CodecError):
            Plan((rule(policy, fail_open=True),)).validate(orders, batch({}), LIMIT)


def test_what_two_rules_need_is_what_the_plan_needs() -> None:
    one, other = Hints(access_key_bytes=5), Hints(access_headers=True, access_key_bytes=ALL)
    assert Plan((rule(Asked(hints=one)), rule(Asked(hints=other)))).hints == other
    assert not Plan(()).hints.access_contents


@pytest.mark.parametrize("hints", [None, Hints()], ids=["records", "header"])
def test_a_policy_that_gives_back_false_has_failed_and_refused_nothing(
    hints: Hints | None, batch: Batches, orders: TopicMetadata
) -> None:
    class SaysFalse(Asked):
        def validate(self, topic: TopicMetadata, record: Any) -> Any:
            return False

    with pytest.raises(PolicyFailedError) as failed:
        Plan((rule(SaysFalse(hints=hints)),)).validate(orders, batch({}), LIMIT)
    assert "raise InvalidRecordError" in str(failed.value.error)


def test_a_message_fits_any_answer(batch: Batches, orders: TopicMetadata) -> None:
    (found,) = Plan((rule(Asked(refuse("\udcff" + "ü" * 40_000))),)).validate(orders, batch({}), LIMIT)
    assert found.message == "?" + "ü" * 999


def test_a_reason_can_be_a_label(batch: Batches, orders: TopicMetadata) -> None:
    (found,) = Plan((rule(Asked(refuse("no", "\udcff" + "x" * 40_000))),)).validate(orders, batch({}), LIMIT)
    assert found.reason == "?" + "x" * 999
