"""What needs attention in a snapshot, worst first, as the page in the browser has it.

Rows of a table, and the failures that features report of themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kafka_sidecar.proxy.cli.operate.snapshots import Series, Snapshot, by_worker, each
from kafka_sidecar.proxy.cli.operate.tables import duration, number

WEEKS_S = 14 * 86400.0
LATE_S = 0.1
MAX_OF_RULE = 5
MAX_TROUBLES = 100


@dataclass(frozen=True, slots=True)
class Trouble:
    text: str
    is_bad: bool  # otherwise: to be looked at


@dataclass(frozen=True, slots=True)
class Rule:
    metric: str
    counts: Callable[[Series], bool]
    text: str  # {label}, {rate}, {value}, {p99}
    is_bad: bool = False


def _is_rising(one: Series) -> bool:
    return (one.rate or 0.0) > 0


def _is_there(one: Series) -> bool:
    return one.value > 0


def _is_zero(one: Series) -> bool:
    return one.value == 0


def _in_mode(mode: str) -> Callable[[Series], bool]:
    return lambda one: _is_rising(one) and one.of["mode"] == mode


def _fails(one: Series) -> bool:
    return _is_rising(one) and one.of["result"] != "success"


RULES = (
    Rule("interceptor_disabled", _is_there, "interceptor {interceptor} is disabled after failures", is_bad=True),
    Rule("schema_registry_reachable", _is_zero, "schema registry {registry} does not answer", is_bad=True),
    Rule("audit_events_discarded", _is_rising, "audit events are discarded ({reason}): {rate}/s", is_bad=True),
    Rule("dead_letters_dropped", _is_rising, "dead letters are dropped ({reason}): {rate}/s", is_bad=True),
    Rule("threads_stuck", _is_there, "{value} threads are stuck in work that does not end", is_bad=True),
    Rule("worker_restarts", _is_rising, "worker {worker} was started again", is_bad=True),
    Rule("policy_failures", _is_rising, "policy {policy} fails: {rate}/s", is_bad=True),
    Rule("event_loop_stops", _is_rising, "the event loop has stopped for over a second ({plug_in})", is_bad=True),
    Rule("tls_last_reload_successful", _is_zero, "certificates of {side} could not be loaded again", is_bad=True),
    Rule(
        "tls_certificate_expiry_seconds", lambda one: one.value < WEEKS_S,
        "a certificate expires in {left}: {side}, {setting}", is_bad=True,
    ),
    Rule("rejected_records", _in_mode("enforce"), "{rate} records/s of {topic} rejected by {policy}: {reason}"),
    Rule("denials", _is_rising, "denied: {operation} of a {resource_type} in {api_key}, {rate}/s"),
    Rule("rejected_records", _in_mode("shadow"), "shadow: {rate} records/s of {topic} would be rejected by {policy}"),
    Rule("interceptor_failures", _is_rising, "interceptor {interceptor} fails in {hook}: {rate}/s"),
    Rule("interceptor_over_budget", _is_rising, "interceptor {interceptor} is slow in {hook}"),
    Rule("time_limits", _is_rising, "time limits are reached in {stage}, waiting for {waited_for}"),
    Rule("broker_connect_failures", _is_rising, "connections to brokers fail: {cause}"),
    Rule("client_logins", _fails, "logins of clients fail ({result}): {rate}/s"),
    Rule("broker_logins", _fails, "the sidecar's logins at brokers fail: {result}"),
    Rule("rate_limit_throttled", _is_rising, "clients are over the rate limit {limit}: {rate} requests/s wait"),
    Rule("event_loop_delay_seconds", lambda one: (one.p99_s or 0) > LATE_S, "the event loop is late: {p99} (p99)"),
)  # fmt: skip


def troubles(of: Snapshot) -> list[Trouble]:
    """All of it, bounded."""
    found = [*_of_sidecar(of), *_of_features(of), *_of_metrics(of)]
    return sorted(found[:MAX_TROUBLES], key=lambda one: not one.is_bad)


def _of_sidecar(of: Snapshot) -> Iterator[Trouble]:
    if not of.workers:
        yield Trouble("no worker answers", True)
    for reason in each(of.sidecar.get("reasons", [])):
        yield Trouble(f"not ready: {reason}", True)
    configuration = of.part("configuration")
    if "rejected" in each(configuration.get("last_reload")):
        yield Trouble("the last configuration was rejected, the one before it still applies: see the log", True)
    if isinstance(configuration.get("hash"), Mapping):
        yield Trouble(f"workers do not have the same configuration: {by_worker(configuration['hash'])}", True)
    if settings := [str(one) for one in each(configuration.get("restart_required_by", []))]:
        yield Trouble(f"changed settings need a restart: {', '.join(settings)}", False)
    metadata = of.part("brokers").get("last_metadata")
    if metadata is not None and any(one != "received" for one in each(metadata)):
        yield Trouble(f"metadata request: {by_worker(metadata)}", False)
    if waiting := of.part("memory").get("waiting"):
        yield Trouble(f"{number(waiting)} connections wait for memory (connections.max_buffered)", False)


def _of_features(of: Snapshot) -> Iterator[Trouble]:
    for name, state in of.features.items():
        yield from _failures(name.replace("_", " "), state)


def _failures(name: str, state: Any) -> Iterator[Trouble]:
    if not isinstance(state, Mapping):
        return
    for key in ("failure", "spool_failure"):
        if failure := state.get(key):
            called = f"{name} {state['name']}" if state.get("name") else name
            yield Trouble(f"{called}: {failure if isinstance(failure, str) else json.dumps(failure)}", True)
    if isinstance(topics := state.get("unusable_topics"), Mapping):
        for topic, why in islice(topics.items(), MAX_OF_RULE):
            yield Trouble(f"{name}: {topic}: {why}", True)
    for rows in state.values():
        for row in rows if isinstance(rows, list) else ():
            yield from _failures(name, row)


def _of_metrics(of: Snapshot) -> Iterator[Trouble]:
    for rule in RULES:
        for one in islice(filter(rule.counts, of.series(rule.metric)), MAX_OF_RULE):
            figures = {
                "rate": number(one.rate), "value": number(one.value), "p99": duration(one.p99_s),
                "left": duration(one.value),
            }  # fmt: skip
            yield Trouble(rule.text.format_map({**figures, **one.of}), rule.is_bad)
