"""The command `status`: a running sidecar on one screen, troubles first.

Exit codes: 0 ready, 1 no sidecar answers, 2 a flag is invalid, 3 not ready.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from kafka_sidecar.proxy.cli.admin_client import AdminPort, AdminUrl, AsJson, Ca, TokenFile, ask
from kafka_sidecar.proxy.cli.output import age, cell, folded, say, say_json, table
from kafka_sidecar.proxy.server.admin.live.reading import Series, Snapshot, by_worker, each
from kafka_sidecar.proxy.telemetry.readable import NONE, counted, duration, number, rate, size

NOT_READY = 3
INDENT = 15
MAX_SHOWN = 12  # troubles, APIs and ports; --json has all
REACHABLE = {True: "yes", False: "no", None: "not tried"}  # a broker, at the last attempt
REQUESTS, LATENCY = "client_to_proxy_request", "request_latency_seconds"


def show_status(admin: AdminUrl = None, token_file: TokenFile = None, ca: Ca = None, as_json: AsJson = False) -> None:
    """Print how a running sidecar is, troubles first."""
    found = Snapshot(ask(AdminPort(admin, token_file, ca), "/snapshot"))
    if as_json:
        say_json({"ready": found.is_ready, **found.values})
    else:
        say(*_head(found), *_facts(found), *_apis(found), *_nodes(found))
    if not found.is_ready:
        raise typer.Exit(NOT_READY)


def _head(of: Snapshot) -> Iterator[str]:
    workers = of.workers
    versions = sorted({f"{one['version']} ({one['build']})" for one in workers})
    ups = [one["uptime_s"] for one in workers if one.get("uptime_s") is not None]
    up = f", up {duration(min(ups))}" if ups else ""
    many = f", {len(workers)} workers" if len(workers) > 1 else ""
    word = "draining" if any(each(of.sidecar.get("draining", False))) else "ready" if of.is_ready else "NOT READY"
    yield f"{word}: kafka-sidecar {', '.join(versions) or NONE}{up}{many}"
    found = of.values.get("troubles", [])
    for one in found[:MAX_SHOWN]:
        yield from folded("  !! " if one["severity"] == "bad" else "  !  ", one["text"])
    if len(found) > MAX_SHOWN:
        yield f"     and {len(found) - MAX_SHOWN} more: see --json"
    if not found:
        yield "  nothing needs attention"


def _facts(of: Snapshot) -> Iterator[str]:
    for name, text in _named_facts(of):
        yield from folded(f"{name:{INDENT}}", text)


def _named_facts(of: Snapshot) -> Iterator[tuple[str, str]]:
    yield "configuration", _configuration(of.part("configuration"))
    listeners = [one for one in of.sidecar.get("listeners", ()) if one["listener"] == "bootstrap"]
    yield "listens at", ", ".join(sorted({one["addresses"] for one in listeners})) or "no port: it drains"
    brokers = of.part("brokers")
    servers = ", ".join(map(str, each(brokers.get("bootstrap_servers", []))))
    yield "brokers", f"{servers}; metadata {by_worker(brokers.get('last_metadata'))}; login {_login(brokers)}"
    yield "traffic", _traffic(of)
    yield "connections", _connections(of)
    yield "latency", _latency(of)
    yield "memory", _memory(of)
    yield from _processes(of)
    yield from _certificates(of)
    yield from _features(of)


def _configuration(of: Mapping[str, Any]) -> str:
    applied = [str(one) for one in each(of.get("applied_at")) if one is not None]
    since = f", applied {max(applied)} ({age(max(applied))} ago)" if applied else ""
    return f"generation {of.get('generation', NONE)}, hash {by_worker(of.get('hash', NONE))}{since}"


def _login(brokers: Mapping[str, Any]) -> str:
    login = brokers.get("login", NONE)
    return "none, as brokers.sasl has no mechanism" if login == "disabled" else by_worker(login)


def _traffic(of: Snapshot) -> str:
    over = of.values.get("interval_s")
    parts = [
        f"{rate(of.rate(REQUESTS))} requests/s",
        f"{size(of.rate('client_to_proxy_request_size_bytes'))}/s from clients",
        f"{size(of.rate('proxy_to_client_response_size_bytes'))}/s to clients",
    ]
    if of.has("validated_records"):
        parts.append(f"{rate(of.rate('validated_records'))} records/s checked by policies")
    if rejected := of.rate("rejected_records"):
        parts.append(f"{rate(rejected)} records/s rejected, or would be")
    return f"{', '.join(parts)} (over {duration(over)})"


def _connections(of: Snapshot) -> str:
    state = of.part("connections")
    opened, topics = number(of.total("connections")), counted(state.get("topics_known"), "topic")
    return f"{number(state.get('open'))} open, {opened} since the start; {topics} known"


def _latency(of: Snapshot) -> str:
    delay = next(of.series("event_loop_delay_seconds"), None)
    loop = f"event loop late by {duration(delay.p50_s)} (p50), {duration(delay.p99_s)} (p99)" if delay else NONE
    spent = of.rate("buffered_request_seconds", "buffered_response_seconds")
    held = of.rate("buffered_requests", "buffered_responses")
    own = f"; looked into {rate(held)} frames/s, {duration(spent / held)} each" if held else ""
    return f"{loop}{own}"


def _memory(of: Snapshot) -> str:
    memory = of.part("memory")
    waiting = memory.get("waiting") or 0
    who = memory.get("waiting_connections", [])
    wait = f"; {number(waiting)} waiting: connections {', '.join(map(str, who))}" if waiting else "; none waits"
    return f"{size(memory.get('buffered_bytes'))} of {size(memory.get('limit_bytes'))} buffered{wait}"


def _processes(of: Snapshot) -> Iterator[tuple[str, str]]:
    for one in of.workers:
        many = one["worker"] is not None
        parts = [
            f"pid {one['pid']}", f"{(one['cpu'] or 0) * 100:.0f} % of a CPU", size(one["memory_bytes"]),
            counted(one['connections'], 'connection'),
            *([f"event loop late by {duration(one['event_loop_delay_p99_s'])} (p99)"] if many else []),
        ]  # fmt: skip
        yield f"worker {one['worker']}" if many else "process", ", ".join(["NOT READY"] * (not one["ready"]) + parts)


def _certificates(of: Snapshot) -> Iterator[tuple[str, str]]:
    found = sorted(of.series("tls_certificate_expiry_seconds"), key=lambda one: one.value)
    if found:
        left = ", ".join(f"{one.of['side']} {one.of['setting']} {duration(one.value)}" for one in found[:MAX_SHOWN])
        yield "certificates", f"expire: {left}"


def _features(of: Snapshot) -> Iterator[tuple[str, str]]:
    letters, audit = of.features.get("dead_letters"), of.features.get("auditing")
    if letters is not None:
        yield "dead letters", _dead_letters(of, letters)
    if audit is not None:
        waiting, sent = audit.get("buffered_events"), audit.get("sent_events")
        since = f" (the oldest for {duration(oldest)})" if (oldest := audit.get("oldest_seconds")) else ""
        lost = number(audit.get("discarded_events"))
        waits = f"{counted(waiting, 'event')} waiting{since}"
        rest = f", {waits}, {number(sent)} sent, {lost} lost" if sent is not None else ""
        yield "audit", f"{by_worker(audit.get('auditor'))}: {counted(audit.get('intervals'), 'interval')}{rest}"
    if limits := sorted(of.series("rate_limit_throttled"), key=lambda one: -(one.rate or 0)):
        yield "rate limits", ", ".join(map(_limit, limits[:MAX_SHOWN]))
    if guards := list(of.series("interceptor_disabled")):
        disabled = [one.of["interceptor"] for one in guards if one.value]
        yield "interceptors", f"{len(guards)}, disabled: {', '.join(disabled[:MAX_SHOWN]) or 'none'}"
    if registries := list(of.series("schema_registry_reachable")):
        yield "registries", ", ".join(_registry(one) for one in registries[:MAX_SHOWN])


def _dead_letters(of: Snapshot, state: Mapping[str, Any]) -> str:
    spooled, buffered = state.get("spooled_bytes"), size(state.get("buffered_bytes"))
    on_disk = f", {size(spooled)} on disk" if spooled is not None else ""
    waiting, sent = number(state.get("waiting_letters")), number(state.get("sent"))
    dropped = number(of.total("dead_letters_dropped", lambda one: 0.0 if one.of["reason"] == "replayed" else one.value))
    return f"{waiting} wait ({buffered} in memory{on_disk}), {sent} sent, {dropped} dropped"


def _limit(one: Series) -> str:
    return f"{one.of['limit']} throttled {rate(one.rate)}/s ({number(one.value)} in all)"


def _registry(one: Series) -> str:
    return f"{one.of['registry']} {'answers' if one.value else 'does not answer'}"


def _apis(of: Snapshot) -> Iterator[str]:
    """The APIs that are used most now."""
    latencies = {one.of["api_key"]: one for one in of.series(LATENCY)}
    rows = sorted(of.series(REQUESTS), key=lambda one: (-(one.rate or 0), -one.value))[:MAX_SHOWN]
    if rows:
        yield ""
        yield from table(
            ("API", "requests/s", "p50", "p99", "since the start"),
            [
                (one.of["api_key"], rate(one.rate), *_quantiles(latencies.get(one.of["api_key"])), number(one.value))
                for one in rows
            ],
        )


def _quantiles(one: Series | None) -> tuple[str, str]:
    return (duration(one.p50_s), duration(one.p99_s)) if one is not None else (NONE, NONE)


def _nodes(of: Snapshot) -> Iterator[str]:
    nodes = of.sidecar.get("nodes", [])
    yield ""
    if not nodes:
        yield "no broker is known yet"
        return
    has_workers = any("worker" in one for one in nodes)
    titles = (
        "broker", "address", "port here", *(["worker"] if has_workers else []), "connections", "reachable",
        "last failure",
    )  # fmt: skip
    rows = [
        (
            one["node"], one["broker"], one["port"], *([one.get("worker")] if has_workers else []),
            one.get("connections"), REACHABLE[one.get("reachable")], _last_failure(one),
        )
        for one in nodes[:MAX_SHOWN]
    ]  # fmt: skip
    yield from table(titles, rows)
    if len(nodes) > MAX_SHOWN:
        yield cell(f"and {len(nodes) - MAX_SHOWN} more: see --json")


def _last_failure(node: Mapping[str, Any]) -> str | None:
    if node.get("last_failure") is None:
        return None
    return f"{age(node['failed_at'])} ago: {node['last_failure']}"
