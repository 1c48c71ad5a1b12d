"""Commands that print a page of a running sidecar: `connections`, `rejections`, `explain`, `topics`, `log-level`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from textwrap import wrap
from typing import Annotated, Any
from urllib.parse import quote

import typer

from kafka_sidecar.proxy.cli.admin_client import (
    AdminPort,
    AdminUrl,
    AsJson,
    Ca,
    Client,
    ClientId,
    Principal,
    TokenFile,
    ask,
    with_query,
)
from kafka_sidecar.proxy.cli.output import say, say_json, table
from kafka_sidecar.proxy.telemetry.readable import NONE, counted, duration, number, size

OPEN_TITLES = (
    "session", "client id", "principal", "software", "client", "listener", "age", "in flight", "oldest", "requests",
    "in", "out", "paused", "removed versions",
)  # fmt: skip
CLOSED_TITLES = ("session", "client id", "principal", "client", "ended", "lived", "cause", "detail")
REJECTION_TITLES = (
    "id", "time", "outcome", "what", "policy", "reason", "client id", "principal", "client", "message",
)  # fmt: skip
INDENT = 14
WIDTH = 120
Row = dict[str, Any]


def show_connections(
    client_id: ClientId = None,
    principal: Principal = None,
    client: Client = None,
    listener: Annotated[str | None, typer.Option(help="Only of this listener: bootstrap, or such as node 1.")] = None,
    old: Annotated[bool, typer.Option("--old", help="Only with versions that Kafka 4 has removed (KIP-896).")] = False,
    paused: Annotated[bool, typer.Option("--paused", help="Only those that are paused.")] = False,
    closed: Annotated[bool, typer.Option("--closed", help="Those that have ended last, and why.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=200, help="As many lines at most.")] = 50,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Print the connections of clients, those that wait first."""
    flags = {"old": old, "paused": paused, "closed": closed}
    query = {
        "client_id": client_id, "principal": principal, "client": client, "listener": listener,
        **{name: "true" for name, is_set in flags.items() if is_set},
    }  # fmt: skip
    found = ask(AdminPort(admin, token_file, ca), with_query("/connections", query))
    rows = sorted(found["connections"], key=itemgetter("ended"), reverse=True) if closed else _by_trouble(found)
    rows = rows[:limit]
    if as_json:
        say_json({**found, "connections": rows})
    elif closed:
        say(*_connection_lines(CLOSED_TITLES, _closed_row, rows))
    else:
        say(
            *_connection_lines(OPEN_TITLES, _open_row, rows),
            f"{len(rows)} shown of {number(found['open'])} open",
        )


def _connection_lines(
    titles: tuple[str, ...], row: Callable[[Row], tuple[object, ...]], found: Sequence[Row]
) -> Iterator[str]:
    if not found:
        yield "no connections"
    elif any("worker" in one for one in found):
        yield from table(("worker", *titles), [(one.get("worker"), *row(one)) for one in found])
    else:
        yield from table(titles, map(row, found))


def _by_trouble(found: Row) -> list[Row]:
    return sorted(found["connections"], key=lambda one: (not one["pauses"], -(one["oldest_s"] or 0.0)))


def _open_row(one: Row) -> tuple[object, ...]:
    return (
        one["session"], one["client_id"], one["principal"], one["client_software"], one["client"], one["listener"],
        duration(one["duration_s"]), one["in_flight"], duration(one["oldest_s"]), number(one["requests"]),
        size(one["bytes_from_client"]), size(one["bytes_from_broker"]), _pauses(one), ", ".join(one["removed_apis"]),
    )  # fmt: skip


def _pauses(one: Row) -> str:
    return ", ".join(f"{pause['side']}: {pause['reason']}, for {duration(pause['for_s'])}" for pause in one["pauses"])


def _closed_row(one: Row) -> tuple[object, ...]:
    return (
        one["session"], one["client_id"], one["principal"], one["client"], one["ended"], duration(one["duration_s"]),
        one["cause"], ": ".join(filter(None, (one["reason"], one["detail"]))),
    )  # fmt: skip


def show_rejections(
    topic: Annotated[str | None, typer.Option(help="Only of this topic.")] = None,
    policy: Annotated[str | None, typer.Option(help="Only by this policy, as the list names it.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only with this reason.")] = None,
    principal: Principal = None,
    client_id: ClientId = None,
    client: Client = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="As many lines at most.")] = 20,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Print what was rejected or denied last, newest first."""
    wanted = {
        "topic": topic, "policy": policy, "reason": reason, "principal": principal, "client_id": client_id,
        "client": client,
    }  # fmt: skip
    found = ask(AdminPort(admin, token_file, ca), with_query("/rejections", wanted))
    rows = found["rejections"][:limit]
    if as_json:
        say_json({**found, "rejections": rows})
    elif not rows:
        say("nothing was rejected or denied" + (" with these values" if any(wanted.values()) else ""))
    else:
        say(
            *table(REJECTION_TITLES, map(_rejection_row, rows)),
            "",
            f"All that is known of one: kafka-sidecar explain {rows[0]['id']}",
        )


def _rejection_row(one: Row) -> tuple[object, ...]:
    return (
        one["id"], one["timestamp"], one.get("outcome"), _what(one), one["policy"], one["reason"], one["client_id"],
        one.get("principal"), one.get("client"), one["message"],
    )  # fmt: skip


def _what(one: Row) -> str:
    if (denial := one.get("denial")) is not None:
        what = f"{denial['operation']} of {denial['resource_type']} {denial['resource']}"
        return f"{what}, {counted(denial['times'], 'time')}"
    place = f"{one['topic'] or NONE}-{one['partition']}"
    return f"{place}, {counted(one['rejected_records'], 'record')}" if one["rejected_records"] else place


def explain(
    rejection_id: Annotated[str, typer.Argument(metavar="ID", help="From an error message or a log line.")],
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Print why something was rejected or denied."""
    found = ask(AdminPort(admin, token_file, ca), f"/rejections/{quote(rejection_id, safe='')}")
    if as_json:
        say_json(found)
        return
    place = f"{found['topic']}-{found['partition']}" if "denial" not in found else _denial(found["denial"])
    if "producer" in found:
        place = _producer(found)
    say(f"{place}: {found['outcome']} at {found['timestamp']} by {found['policy']} ({found['reason']})")
    for name, text in _explanation(found):
        say(*wrap(text, WIDTH, initial_indent=f"  {name:{INDENT - 2}}", subsequent_indent=" " * INDENT))


def _explanation(found: Row) -> Iterator[tuple[str, str]]:
    """A name and a text for each line."""
    yield "message", found["message"]
    if found["records"]:
        of = f" of {found['batch']['records']}" if found["batch"] else ""
        yield "records", f"{found['rejected_records']}{of} rejected; index in the batch, policy and violation:"
    for record in found["records"]:
        index = "the batch" if record["index"] < 0 else str(record["index"])
        yield "", f"{index}: {record['policy']} ({record['reason']}): {record['message']}"
    yield "client", _named(found["client"])
    if found["batch"]:
        yield "batch", _named(found["batch"])
    if "producer" in found:
        yield "required", f"by {found['producer']['source']}, mode {found['mode']}:"
        yield from (("", fault) for fault in found["producer"]["faults"])
    if found["configuration"]:
        yield from _configuration(found["configuration"])
    yield "what to do", found["remedy"]


def _configuration(applied: Row) -> Iterator[tuple[str, str]]:
    share = f", enforced for {applied['percent']} % of the batches" if applied["percent"] < 100 else ""
    yield "policies", f"{applied['record.validation.policy']} (from {applied['source']}, mode {applied['mode']}{share})"
    for policy in applied["policies"]:
        argument = f" with {policy['argument']!r}" if policy["argument"] else ""
        about = f"{policy['class']}; reads {policy['reads']}; fails {policy['on_error']}"
        settings = f"; settings {json.dumps(policy['settings'])}" if policy["settings"] else ""
        yield "", f"{policy['name']}{argument}: {about}{settings}"


def _denial(denial: Row) -> str:
    what = f"{denial['principal']}, {denial['operation']} of {denial['resource_type']} {denial['resource']}"
    return f"{what} ({denial['api']}, {counted(denial['times'], 'time')} since {denial['since']})"


def _producer(found: Row) -> str:
    producer = found["producer"]
    times = counted(producer["times"], "time")
    return f"{producer['principal']}, produce to {found['topic']} ({times} since {producer['since']})"


def _named(values: Row) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items() if value is not None)


def change_log_level(
    level: Annotated[str | None, typer.Argument(help="debug, info, warning, error or default; none: show it.")] = None,
    logger: Annotated[str, typer.Option(help="A logger, as log lines name it.")] = "root",
    for_: Annotated[str, typer.Option("--for", help="For how long, up to 24h.")] = "10m",
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Show or change the log level of a running sidecar."""
    port = AdminPort(admin, token_file, ca)
    if level is None:
        found = ask(port, "/log-level")
    else:
        found = ask(port, with_query("/log-level", {"level": level, "logger": logger, "for": for_}), "PUT")
    if as_json or "loggers" not in found:
        say_json(found)
        return
    say(f"root: {found['level']}")
    for name, one in found["loggers"].items():
        say(f"{name}: {one['level']} until {one['until']}, then {one['then']}")


def show_topics(
    topic: Annotated[str | None, typer.Argument(help="A topic; none: all that are known.")] = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Print what applies to topics in a running sidecar."""
    found = ask(AdminPort(admin, token_file, ca), "/topics" if topic is None else f"/topics/{quote(topic, safe='')}")
    if as_json or "workers" in found:
        say_json(found)
        return
    for one in found["topics"] if topic is None else [found]:
        say(*_topic_lines(one))


def _topic_lines(topic: Row) -> Iterator[str]:
    yield f"{topic['topic']}: {_policy(topic['validation'])}"
    for at, policy in enumerate(topic["validation"].get("policies", ()), 1):
        argument = f" with {policy['argument']!r}" if policy["argument"] else ""
        about = f"reads {policy['reads']}; fails {policy['on_error']}"
        yield f"  policy {at}. {policy['name']}{argument}: {policy['class']}; {about}{_settings(policy)}"
    for at, one in enumerate(topic["interceptors"], 1):
        if isinstance(one, str):
            yield f"  interceptor {at}. {one}"
        else:
            hooks = ", ".join(one["hooks"]) or "no hooks"
            disabled = "; disabled for now" if one["disabled"] else ""
            source = f"from {one['source']}"
            yield f"  interceptor {at}. {one['name']}: {one['class']} ({source}); {hooks}{disabled}{_settings(one)}"
    for one in topic.get("producers", ()):
        yield f"  {_required(one)}"
    for state in topic.get("features", {}).values():
        for name, value in state.items():
            if value is not False and name != "habits":  # which are those of producers, with more
                yield f"  {name}: {_said(value)}"


def _said(value: object) -> str:
    """What a feature says of a topic."""
    return "; ".join(map(str, value)) if isinstance(value, list) else "yes" if value is True else str(value)


def _required(producers: Row) -> str:
    """What is required of producers."""
    wanted = ", ".join(f"{name} {_shown(value)}" for name, value in producers["required"].items())
    share = f" for {producers['percent']} % of the batches" if producers["percent"] < 100 else ""
    whose = f" of {', '.join(producers['principals'])}" if producers["principals"] else ""
    nothing = "not looked at" if producers["mode"] == "off" else "only listed"
    return f"producers{whose}: {wanted or nothing} (from {producers['source']}, mode {producers['mode']}{share})"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return " or ".join(value) if isinstance(value, list) else str(value)


def _policy(validation: Row) -> str:
    if "why" in validation:
        return f"not validated: {validation['why']}"
    share = f" for {validation['percent']} % of the batches" if validation.get("percent", 100) < 100 else ""
    place = f"from {validation['source']}, mode {validation['mode']}{share}, hash {validation['hash']}"
    return f"{validation['record.validation.policy']} ({place})"


def _settings(one: Row) -> str:
    return f"; settings {json.dumps(one['settings'])}" if one["settings"] else ""
