"""What needs attention in a snapshot, worst first: the page shows it, and `kafka-sidecar status`.

Rows of a table, and the failures that features report of themselves. What a feature says with its reason has no row:
each thing is one trouble.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from kafka_sidecar.proxy.server.admin.live.reading import Row, Series, Snapshot, by_worker, each
from kafka_sidecar.proxy.telemetry.readable import duration, number, rate

WEEKS_S = 14 * 86400.0
LATE_S = 0.1
WAITS_S = 60.0
MAX_OF_RULE = 5
MAX_TROUBLES = 100
BAD, WARN = "bad", "warn"
VIEWS = {"auditing": "audit", "dead_letters": "dead-letters"}  # of the features with one of their own


@dataclass(frozen=True, slots=True)
class Trouble:
    """One of them. ``severity``: `BAD`, or `WARN`: to be looked at."""

    severity: str
    text: str
    view: str  # of the page, which shows more of it


@dataclass(frozen=True, slots=True)
class Rule:
    """The series of a metric that are troubles."""

    metric: str
    counts: Callable[[Row], bool]
    severity: str
    view: str
    text: str  # {label}, {rate}, {value}, {duration}, {p99}
    has: Callable[[Series], bool] = lambda one: True  # what its labels have to be


def _is_rising(row: Row) -> bool:
    return (row["rate"] or 0.0) > 0


def _is_there(row: Row) -> bool:
    return bool(row["value"] > 0)


def _is_zero(row: Row) -> bool:
    return bool(row["value"] == 0)


def _in_mode(mode: str) -> Callable[[Series], bool]:
    return lambda one: one.of["mode"] == mode


def _is_no_success(one: Series) -> bool:
    return one.of["result"] != "success"


ENFORCE, SHADOW = _in_mode("enforce"), _in_mode("shadow")
RULES = (
    Rule("interceptor_disabled", _is_there, BAD, "plug-ins", "interceptor {interceptor} is disabled after failures"),
    Rule("audit_events_discarded", _is_rising, BAD, "audit", "audit events are discarded ({reason}): {rate}/s"),
    Rule("dead_letters_dropped", _is_rising, BAD, "dead-letters",
         "rejected records are not kept as dead letters ({reason}): {rate}/s",
         lambda one: one.of["reason"] != "replayed"),
    Rule("threads_stuck", _is_there, BAD, "metrics", "{value} threads are stuck in work that does not end"),
    Rule("worker_restarts", _is_rising, BAD, "now", "worker {worker} was started again"),
    Rule("policy_failures", _is_rising, BAD, "plug-ins", "policy {policy} fails: {rate}/s"),
    Rule("event_loop_stops", _is_rising, BAD, "plug-ins",
         "the event loop has stopped for over a second (plug-in: {plug_in})"),
    Rule("tls_last_reload_successful", _is_zero, BAD, "now", "certificates of {side} could not be loaded again"),
    Rule("tls_certificate_expiry_seconds", lambda row: row["value"] < WEEKS_S, BAD, "now",
         "a certificate expires in {duration}: {side}, {setting}"),
    Rule("rejected_records", _is_rising, WARN, "rejections",
         "{rate} records/s of {topic} rejected by {policy}: {reason}", ENFORCE),
    Rule("denials", _is_rising, WARN, "rejections", "denied: {operation} of a {resource_type} in {api_key}, {rate}/s"),
    Rule("rejected_records", _is_rising, WARN, "rejections",
         "shadow: {rate} records/s of {topic} would be rejected by {policy}: {reason}", SHADOW),
    Rule("rejected_fetched_records", _is_rising, WARN, "topics",
         "{rate} fetched records/s of {topic} rejected by {policy} ({action}): {reason}"),
    Rule("producer_violations", _is_rising, WARN, "rejections",
         "{rate} batches/s to {topic} are not sent as required: {habit}", ENFORCE),
    Rule("producer_violations", _is_rising, WARN, "rejections",
         "shadow: {rate} batches/s to {topic} are not sent as required: {habit}", SHADOW),
    Rule("topic_guard_violations", _is_rising, WARN, "rejections", "a guard refuses {api_key} ({rule})", ENFORCE),
    Rule("topic_guard_violations", _is_rising, WARN, "rejections",
         "shadow: a guard would refuse {api_key} ({rule})", SHADOW),
    Rule("interceptor_failures", _is_rising, WARN, "plug-ins", "interceptor {interceptor} fails in {hook}: {rate}/s"),
    Rule("interceptor_over_budget", _is_rising, WARN, "plug-ins", "interceptor {interceptor} is slow in {hook}"),
    Rule("time_limits", _is_rising, WARN, "metrics", "time limits are reached in {stage}, waiting for {waited_for}"),
    Rule("broker_connect_failures", _is_rising, WARN, "now", "connections to brokers fail: {cause}"),
    Rule("client_logins", _is_rising, WARN, "connections", "logins of clients fail ({result}): {rate}/s",
         _is_no_success),
    Rule("broker_logins", _is_rising, WARN, "now", "the sidecar's logins at brokers fail: {result}", _is_no_success),
    Rule("rate_limit_rejected_batches", _is_rising, WARN, "now", "rate limit {limit} rejects {rate} batches/s"),
    Rule("rate_limit_throttled", _is_rising, WARN, "connections",
         "clients are over the rate limit {limit}: {rate} requests/s wait"),
    Rule("dead_letters_held_partitions", _is_there, WARN, "dead-letters",
         "{value} partitions of dead letter topics take nothing; their letters wait"),
    Rule("dead_letters_oldest_seconds", lambda row: row["value"] > WAITS_S, WARN, "dead-letters",
         "a dead letter waits for {duration}"),
    Rule("event_loop_delay_seconds", lambda row: (row["p99_s"] or 0.0) > LATE_S, WARN, "now",
         "the event loop is late: {p99} (p99)"),
)  # fmt: skip


def troubles(snapshot: Mapping[str, Any]) -> list[dict[str, str]]:
    """All of it, bounded, each as a `Trouble`."""
    of = Snapshot(snapshot)
    found = [*_of_sidecar(of), *_of_features(of), *_of_metrics(of)]
    found.sort(key=lambda one: one.severity != BAD)
    return list(map(asdict, found[:MAX_TROUBLES]))


def _of_sidecar(of: Snapshot) -> Iterator[Trouble]:
    if not of.workers:
        yield Trouble(BAD, "no worker answers", "now")
    for reason in each(of.sidecar.get("reasons", [])):
        yield Trouble(BAD, f"not ready: {reason}", "now")
    configuration = of.part("configuration")
    if "rejected" in each(configuration.get("last_reload")):
        text = "the last configuration was rejected, the one before it still applies: see the log"
        yield Trouble(BAD, text, "now")
    if isinstance(configuration.get("hash"), Mapping):
        yield Trouble(BAD, f"workers do not have the same configuration: {by_worker(configuration['hash'])}", "now")
    if settings := [str(one) for one in each(configuration.get("restart_required_by", []))]:
        yield Trouble(WARN, f"changed settings need a restart: {', '.join(settings)}", "now")
    metadata = of.part("brokers").get("last_metadata")
    if metadata is not None and any(one != "received" for one in each(metadata)):
        yield Trouble(WARN, f"metadata request: {by_worker(metadata)}", "now")
    if waiting := of.part("memory").get("waiting"):
        text = f"{number(waiting)} connections wait for memory (connections.max_buffered)"
        yield Trouble(WARN, text, "connections")


def _of_features(of: Snapshot) -> Iterator[Trouble]:
    for name, state in of.features.items():
        yield from _failures(name.replace("_", " "), state, VIEWS.get(name, "plug-ins"))


def _failures(name: str, state: Any, view: str) -> Iterator[Trouble]:
    if not isinstance(state, Mapping):
        return
    for key in ("failure", "spool_failure"):
        if failure := state.get(key):
            called = f"{name} {state['name']}" if state.get("name") else name
            text = failure if isinstance(failure, str) else json.dumps(failure)
            yield Trouble(BAD, f"{called}: {text}", view)
    if isinstance(topics := state.get("unusable_topics"), Mapping):
        for topic, why in islice(topics.items(), MAX_OF_RULE):
            yield Trouble(BAD, f"{name}: {topic}: {why}", view)
        if (more := len(topics) - MAX_OF_RULE) > 0:
            yield Trouble(BAD, f"{name}: {number(more)} more topics cannot be used", view)
    for rows in state.values():
        for row in rows if isinstance(rows, list) else ():
            yield from _failures(name, row, view)


def _of_metrics(of: Snapshot) -> Iterator[Trouble]:
    for rule in RULES:
        for one in islice(filter(rule.has, of.series(rule.metric, rule.counts)), MAX_OF_RULE):
            figures = {
                "rate": rate(one.rate), "value": number(one.value), "duration": duration(one.value),
                "p99": duration(one.p99_s),
            }  # fmt: skip
            yield Trouble(rule.severity, rule.text.format_map({**figures, **one.of}), rule.view)
