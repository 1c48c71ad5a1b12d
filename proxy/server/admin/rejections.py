"""Rejected batches, and what rules deny, as JSON: the list, and all that is known of one (design D12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kafka_sidecar.proxy.exchanges.repeated import describe_batch
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.logs import timestamp

if TYPE_CHECKING:
    from kafka_sidecar.proxy.features.validation.rejections import RecentRejections, RejectedBatch
    from kafka_sidecar.proxy.features.validation.rules import Applied

MAX_LISTED = 100
MAX_STORED = 1000  # of each kind, as each stores
FILTERS = ("topic", "policy", "reason", "principal", "client_id", "client")
NO_QUERY: Mapping[str, str] = {}
BY_POLICY = (
    "Correct what the application sends: `records` has index and violation of the first rejected records, and "
    "`kafka-sidecar policy test` validates records without a cluster. If the policy is wrong, change it at its "
    "`source`; with mode shadow records are allowed and still counted."
)
OUTCOMES = {"enforce": "rejected", "hide": "hidden from the consumer", "mark": "marked for the consumer"}
REMEDIES = {
    "unreadable": "The data is not a valid record batch: look at the client's library, and at what is between the "
    "client and the sidecar. A broker would have rejected it too, or stored what no consumer can read.",
    "misconfigured": "This sidecar does not accept the topic's record.validation.policy: configure the policy under "
    "policies:, or set the topic's config again.",
    "timed_out": "Producers retry. If it happens again and again: the policy is slow, or the CPU limit is low; raise "
    "validation.timeout or threads.count.",
    "policy_failed": "The policy itself has failed: the log line `policy failed` has the traceback. Until it is fixed: "
    "on_error: open for the policy, or mode: shadow for the topic.",
}


def list_rejections(server: Server, query: Mapping[str, str] = NO_QUERY) -> dict[str, Any]:
    """The last rejected batches and denials that have the values of a query, newest first."""
    wanted = {name: query[name] for name in FILTERS if name in query}
    number = MAX_STORED if wanted else MAX_LISTED
    found = (row for row in _newest(server, number) if all(row[name] == value for name, value in wanted.items()))
    return {"rejections": list(islice(found, MAX_LISTED))}


def latest(server: Server) -> list[dict[str, Any]]:
    """The last ones of all."""
    return list(islice(_newest(server, MAX_LISTED), MAX_LISTED))


def _newest(server: Server, number: int) -> Iterator[dict[str, Any]]:
    """With whose they are."""
    recent = _recent(server)
    batches = recent.newest(number) if recent is not None else ()
    others = (one.rows(number) for one in server.features.rejections)
    return merge(map(_row, batches), *others, key=itemgetter("timestamp"), reverse=True)


def explain_rejection(server: Server, rejection_id: str) -> dict[str, Any] | None:
    """All that is known of one rejected batch or denial; None if it is not known."""
    others = (one.explain(rejection_id) for one in server.features.rejections)
    if (found := next(filter(None, others), None)) is not None:
        return found
    recent = _recent(server)
    batch = recent.find(rejection_id) if recent is not None else None
    if batch is None:
        return None
    summary, origin = _summary(batch), batch.origin
    return {
        **{name: summary[name] for name in ("id", "timestamp", "topic", "partition", "mode")},
        "outcome": OUTCOMES.get(batch.mode, "allowed"),
        **{name: summary[name] for name in ("policy", "reason", "message", "rejected_records")},
        "dead_letter_topic": summary["dead_letter_topic"],
        "records": [asdict(error) for error in batch.errors],
        "client": asdict(origin.sender),
        "batch": describe_batch(origin.header),
        "configuration": _describe_configuration(origin.applied),
        "remedy": REMEDIES.get(batch.reason if not batch.errors else "", BY_POLICY),
    }


def why_unknown(server: Server, rejection_id: str) -> str:
    """Why nothing is known of an id."""
    from kafka_sidecar.proxy.features.validation.rejections import MAX_RECENT

    recent = _recent(server)
    prefixes = [f"{one.prefix}-" for one in (recent, *server.features.rejections) if one is not None]
    if not prefixes:
        return "this sidecar validates nothing and denies nothing"
    if rejection_id.startswith(tuple(prefixes)):
        return f"only the last {MAX_RECENT} rejections of each kind are stored, and this one is older"
    own = " or ".join(prefixes)
    return f"it is not from this process, whose ids begin with {own}: another sidecar's, or before a restart"


def _recent(server: Server) -> RecentRejections | None:
    validator = server.features.validator
    return validator.stats.recent if validator is not None else None


def _summary(batch: RejectedBatch) -> dict[str, Any]:
    return {
        "id": batch.id,
        "timestamp": timestamp(batch.at),
        "topic": batch.topic,
        "partition": batch.partition,
        "mode": batch.mode,
        "policy": batch.policy,
        "reason": batch.reason,
        "message": batch.message,
        "index": batch.index,
        "rejected_records": batch.rejected_records,
        "session": batch.origin.sender.session,
        "client_id": batch.origin.sender.client_id,
        "dead_letter_topic": batch.origin.letter_topic,
    }


def _row(batch: RejectedBatch) -> dict[str, Any]:
    sender = batch.origin.sender
    return {
        **_summary(batch),
        "outcome": OUTCOMES.get(batch.mode, "allowed"),
        "client": sender.client,
        "client_software": sender.client_software,
        "principal": sender.principal,
    }


def _describe_configuration(applied: Applied | None) -> dict[str, Any] | None:
    """As it was when the batch was validated."""
    from kafka_sidecar.proxy.features.validation.rules import describe_applied

    return describe_applied(applied) if applied is not None else None
