"""For authors of policies: run a policy on records, in a real batch and with its hints applied, without a proxy.

>>> check("require_header:trace-id", value=b"{}", headers={"trace-id": b"1"})
>>> check("require_header:trace-id", value=b"{}", topic="orders")
'Topic orders requires records to contain a header with key: trace-id'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_sidecar.codec.records import Header, NewRecord, batches, build_batch
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.policies.catalog import PolicyCatalog
from kafka_sidecar.policies.contract import RecordValidationPolicy, TopicMetadata
from kafka_sidecar.policies.plans import Plan, Rejection, Rule

MAX_BATCH_BYTES = 100 << 20
HeaderInput = Mapping[str, bytes | None] | Sequence[tuple[str | bytes, bytes | None]]


@dataclass(frozen=True, slots=True)
class Example:
    """A record as a producer would send it."""

    value: bytes | None = b""
    key: bytes | None = None
    headers: HeaderInput = field(default_factory=dict)  # a mapping, or pairs if a key occurs several times
    timestamp: int = 0  # ms since 1970


def check(
    policy: RecordValidationPolicy | str,
    *,
    value: bytes | None = b"",
    key: bytes | None = None,
    headers: HeaderInput = (),
    timestamp: int = 0,
    topic: str = "topic",
    argument: str = "",
) -> str | None:
    """The message that the client gets if the record is rejected; None if it is accepted.

    Args:
        policy: a configured policy, or a topic's ``record.validation.policy``, such as ``"json"``.
        value: of the record, as ``key``, ``headers`` and ``timestamp`` (ms since 1970) are.
        topic: the name of the topic.
        argument: the policy's argument, if ``policy`` is not a string.

    Raises:
        ValueError: the argument is invalid, or the policy is unknown.
        ResolveRequired: the policy raised `Unresolved`; await its `resolve` and check again.
        PolicyFailedError: the policy raised anything else, or read something that its hints do not name.
    """
    rejections = check_batch(policy, [Example(value, key, headers, timestamp)], topic=topic, argument=argument)
    return rejections[0].message if rejections else None


def check_batch(
    policy: RecordValidationPolicy | str, examples: Iterable[Example], *, topic: str = "topic", argument: str = ""
) -> list[Rejection]:
    """The rejections of these records, sent as one batch. Arguments and errors are those of `check`."""
    plan = PolicyCatalog({}).plan(policy) if isinstance(policy, str) else _plan_of(policy, argument)
    return check_plan(plan, examples, topic)


def check_plan(plan: Plan, examples: Iterable[Example], topic: str) -> list[Rejection]:
    """The rejections of these records, sent as one batch to partition 0 of the topic."""
    records = list(examples)
    base = min((example.timestamp for example in records), default=0)
    (batch,) = batches(build_batch([_record(example, base) for example in records], base_timestamp=base))
    return plan.validate(TopicMetadata(topic, 0, NO_ID, ""), batch, MAX_BATCH_BYTES)


def _plan_of(policy: RecordValidationPolicy, argument: str) -> Plan:
    policy.check(argument)
    return Plan((Rule(type(policy).__name__, policy, argument, hints=policy.hints()),))


def _record(example: Example, base: int) -> NewRecord:
    pairs = example.headers.items() if isinstance(example.headers, Mapping) else example.headers
    headers = [Header(key, value) for key, value in pairs]
    return NewRecord(example.value, example.key, headers, example.timestamp - base)
