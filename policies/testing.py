"""For authors of policies: run one on records, in a real batch and behind its hints, without a proxy.

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

LIMIT = 100 << 20  # bytes
HeaderInput = Mapping[str, bytes | None] | Sequence[tuple[str | bytes, bytes | None]]


@dataclass(frozen=True, slots=True)
class Example:
    """A record as a producer would send it."""

    value: bytes | None = b""
    key: bytes | None = None
    headers: HeaderInput = field(default_factory=dict)  # pairs where one key is there several times
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
    """What the client is told of this record, None where it may pass.

    Args:
        policy: configured and ready, or what a topic's ``record.validation.policy`` would say, such as ``"json"``.
        value: of the record, as are the others; ``timestamp`` in ms since 1970.
        topic: the name of the topic.
        argument: what the topic gives the policy; for a policy, not for a text.

    Raises:
        ValueError: the policy cannot mean anything by its argument, or there is none of that name.
        ResolveRequired: the policy raised `Unresolved`; await its `resolve` and check again.
        PolicyFailedError: it raised anything else, or looked at what its hints do not name.
    """
    refusals = check_batch(policy, [Example(value, key, headers, timestamp)], topic=topic, argument=argument)
    return refusals[0].message if refusals else None


def check_batch(
    policy: RecordValidationPolicy | str, examples: Iterable[Example], *, topic: str = "topic", argument: str = ""
) -> list[Rejection]:
    """What is refused of these records, sent as one batch. Arguments and errors are those of `check`."""
    plan = PolicyCatalog({}).plan(policy) if isinstance(policy, str) else _alone(policy, argument)
    return check_plan(plan, examples, topic)


def check_plan(plan: Plan, examples: Iterable[Example], topic: str) -> list[Rejection]:
    """What a plan refuses of these records, sent as one batch to the topic's partition 0."""
    given = list(examples)
    base = min((example.timestamp for example in given), default=0)
    (batch,) = batches(build_batch([_record(example, base) for example in given], base_timestamp=base))
    return plan.validate(TopicMetadata(topic, 0, NO_ID, ""), batch, LIMIT)


def _alone(policy: RecordValidationPolicy, argument: str) -> Plan:
    policy.check(argument)
    return Plan((Rule(type(policy).__name__, policy, argument, hints=policy.hints()),))


def _record(example: Example, base: int) -> NewRecord:
    pairs = example.headers.items() if isinstance(example.headers, Mapping) else example.headers
    headers = [Header(key, value) for key, value in pairs]
    return NewRecord(example.value, example.key, headers, example.timestamp - base)
