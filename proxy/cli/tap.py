"""The command `tap`: what passes a running sidecar, line by line, as its admin port streams it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from kafka_sidecar.codec.apis import error_name
from kafka_sidecar.proxy.cli.admin_client import AdminPort, AdminUrl, Ca, TokenFile, opened, with_query
from kafka_sidecar.proxy.cli.output import say
from kafka_sidecar.proxy.telemetry.readable import counted

tap_app = typer.Typer(no_args_is_help=True, help="Show what passes a running sidecar, live.")

Patterns = list[str]
Topics = Annotated[Patterns | None, typer.Option("--topic", help="Only these topics, also with * and ?.")]
ClientIds = Annotated[Patterns | None, typer.Option("--client-id", help="Only these client ids, also with * and ?.")]
Principals = Annotated[
    Patterns | None,
    typer.Option("--principal", help="Only these principals, also with * and ?; without a login: User:ANONYMOUS."),
]
AsLines = Annotated[bool, typer.Option("--json", help="Print each line as JSON.")]
Count = Annotated[int | None, typer.Option(min=1, help="End after so many lines.")]
Seconds = Annotated[float | None, typer.Option(min=0.01, help="End after so many seconds.")]

Row = Mapping[str, Any]
ENDS_WELL = ("count", "seconds")
WIDE, API, NARROW = 32, 28, 12  # columns


@tap_app.command()
def records(
    topic: Topics = None,
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Only these partitions.")] = None,
    direction: Annotated[str | None, typer.Option(help="Only those that are produced, or fetched.")] = None,
    client_id: ClientIds = None,
    principal: Principals = None,
    show_keys: Annotated[bool, typer.Option("--show-keys", help="Show keys, where tap.allow_keys lets it.")] = False,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show values and those of headers, where tap.allow_values lets it.")
    ] = False,
    as_json: AsLines = False,
    count: Count = None,
    seconds: Seconds = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Show records that are produced and fetched: sizes, headers and hashes of keys."""
    _follow(
        AdminPort(admin, token_file, ca), as_json, kind="records", topic=topic, partition=partition,
        direction=direction, client_id=client_id, principal=principal, count=count, seconds=seconds,
        show=[*(["keys"] if show_keys else []), *(["values"] if show_values else [])],
    )  # fmt: skip


@tap_app.command()
def requests(
    api: Annotated[Patterns | None, typer.Option("--api", help="Only these APIs, such as Metadata.")] = None,
    topic: Topics = None,
    client_id: ClientIds = None,
    principal: Principals = None,
    as_json: AsLines = False,
    count: Count = None,
    seconds: Seconds = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Show requests with their responses: topics, sizes, errors, and how long broker and sidecar have taken."""
    _follow(
        AdminPort(admin, token_file, ca), as_json, kind="requests", api=api, topic=topic, client_id=client_id,
        principal=principal, count=count, seconds=seconds,
    )  # fmt: skip


@tap_app.command()
def rejections(
    topic: Topics = None,
    policy: Annotated[Patterns | None, typer.Option("--policy", help="Only by these policies, also with *.")] = None,
    reason: Annotated[Patterns | None, typer.Option("--reason", help="Only for these reasons, also with *.")] = None,
    client_id: ClientIds = None,
    principal: Principals = None,
    as_json: AsLines = False,
    count: Count = None,
    seconds: Seconds = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Show what is rejected and denied, with the id for `explain`."""
    _follow(
        AdminPort(admin, token_file, ca), as_json, kind="rejections", topic=topic, policy=policy, reason=reason,
        client_id=client_id, principal=principal, count=count, seconds=seconds,
    )  # fmt: skip


@tap_app.command()
def connections(
    client_id: ClientIds = None,
    principal: Principals = None,
    as_json: AsLines = False,
    count: Count = None,
    seconds: Seconds = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Show connections that are opened and closed, with the reason."""
    _follow(
        AdminPort(admin, token_file, ca), as_json, kind="connections", client_id=client_id, principal=principal,
        count=count, seconds=seconds,
    )  # fmt: skip


def _follow(admin: AdminPort, as_json: bool, **wanted: object) -> None:
    """Print lines until the tap of what is wanted ends. Exits with 1 where the sidecar has ended it."""
    why: str | None = None
    try:
        with opened(admin, with_query("/tap", wanted)) as stream:
            for line in _lines(stream):
                if (kind := line["kind"]) == "end":
                    why = line["why"]
                elif kind == "tap":
                    say(f"tapping {line['of']}, at most {line['max_rate']:,} lines a second; Ctrl-C ends it", err=True)
                elif kind == "lost":
                    say(f"lost {counted(line['lines'], 'line')} ({_reasons(line)})", err=True)
                elif not as_json:
                    say(_PRINTED[kind](line))
                if as_json and kind not in ("tap", "end"):
                    typer.echo(json.dumps(line))
    except KeyboardInterrupt:
        return
    if why not in ENDS_WELL:
        say(f"kafka-sidecar: the sidecar has ended the tap: {why or 'it has stopped'}", err=True)
        raise typer.Exit(1)


def _lines(stream: Any) -> Iterator[dict[str, Any]]:
    """Each line of JSON; an empty one says that the sidecar is there."""
    from http.client import HTTPException

    try:
        while text := stream.readline():
            if text.strip():
                yield json.loads(text)
    except (HTTPException, ConnectionError):
        return  # the connection has ended in the middle


_REASONS = {"rate": "over the rate", "slow_reader": "not read in time"}


def _reasons(line: Row) -> str:
    return ", ".join(f"{line[name]:,} {text}" for name, text in _REASONS.items() if name in line)


def _time(line: Row) -> str:
    return datetime.fromtimestamp(line["at_ms"] / 1000).astimezone().strftime("%H:%M:%S.%f")[:-3]


def _who(line: Row) -> str:
    named = [str(line[name]) for name in ("client_id", "principal") if line[name] is not None]
    return f"{' '.join(named) or '-'} {line['client']} #{line['session']}"


def _columns(line: Row, *columns: tuple[object, int]) -> str:
    return " ".join([_time(line), *(f"{text!s:{width}}" for text, width in columns)]).rstrip()


def _record(line: Row) -> str:
    topic = line["topic"] if line["topic"] is not None else f"id {line.get('topic_id')}"
    at = f"@{line['offset']}" if line.get("offset") is not None else ""
    place = (line["direction"], 8), (f"{topic}-{line['partition']}{at}", WIDE)
    if "unreadable" in line:
        return _columns(line, *place, (f"not readable: {line['unreadable']}", WIDE), (_who(line), 0))
    error = f" {error_name(line['error_code'])}" if line["error_code"] else ""
    headers = " ".join(map(_header, line["headers"]))
    if "headers_left" in line:
        headers += f" and {line['headers_left']} more"
    packed = "" if line["compression"] == "none" else f" {line['compression']}"
    transaction = " transactional" if line["transactional"] else ""
    text = f"key {_key(line)} value {_value(line)}{packed}{transaction}{error} [{headers}]"
    return _columns(line, *place, (text, WIDE), (_who(line), 0))


def _key(line: Row) -> str:
    if line["key_bytes"] < 0:
        return "null"
    shown = _quoted(line, "key") if "key" in line else f"#{line['key_hash']}"
    return f"{shown} ({line['key_bytes']} B)"


def _value(line: Row) -> str:
    if line["value_bytes"] < 0:
        return "null"
    return f"{_quoted(line, 'value')} ({line['value_bytes']} B)" if "value" in line else f"{line['value_bytes']} B"


def _header(header: Row) -> str:
    value = "null" if header["value_bytes"] < 0 else f"{header['value_bytes']} B"
    return f"{header['name']}={_quoted(header, 'value')}" if "value" in header else f"{header['name']}({value})"


def _quoted(line: Row, name: str) -> str:
    return json.dumps(line[name], ensure_ascii=False) + ("..." if line.get(f"{name}_is_cut") else "")


def _request(line: Row) -> str:
    topics = ",".join(line["topics"]) + (f" and {line['topics_left']} more" if "topics_left" in line else "")
    if line["latency_ms"] is None:
        took = {"none": "no response expected", "lost": "the connection has ended"}[line["answered_by"]]
    else:
        by = "by the sidecar" if line["answered_by"] == "sidecar" else f"broker {line['broker_ms']:.2f} ms"
        took = f"{line['latency_ms']:.2f} ms ({by}, sidecar {line['sidecar_ms']:.2f} ms)"
    error = f" {error_name(line['error_code'])}" if line["error_code"] else ""
    sizes = f"{line['request_bytes']} B > {line['response_bytes'] if line['response_bytes'] is not None else '-'} B"
    return _columns(
        line, (f"{line['api']} v{line['version']}", API), (topics or "-", WIDE), (sizes, 2 * NARROW),
        (took + error, WIDE), (_who(line), 0),
    )  # fmt: skip


def _rejection(line: Row) -> str:
    place = line["topic"] or (line["denial"]["resource"] if "denial" in line else "-")
    if line["partition"] is not None and line["partition"] >= 0:
        place = f"{place}-{line['partition']}"
    times = f" {line['times']} times" if line["times"] > 1 else ""
    why = f"by {line['policy']} ({line['reason']}): {line['message']}{times}"
    who = " ".join(str(line[name]) for name in ("client_id", "principal") if line.get(name) is not None)
    return _columns(
        line, (line["outcome"], 8), (place, WIDE), (why, 0), (who or "-", 0), (f"#{line['session']}", 0),
        (f"explain {line['id']}", 0),
    )  # fmt: skip


def _connection(line: Row) -> str:
    columns: Sequence[tuple[object, int]] = ((line["event"], 6), (line["listener"], NARROW), (line["client"], 21))
    if line["event"] == "opened":
        return _columns(line, *columns, (f"#{line['session']}", 0))
    software = f" ({line['client_software']})" if line["client_software"] else ""
    passed = f"{counted(line['requests'], 'request')} in {line['duration_s']:.1f} s"
    names = f"{line['client_id'] or '-'}{software} {line['principal'] or ''}".rstrip()
    return _columns(
        line, *columns, (f"#{line['session']}", 0), (names, WIDE), (passed, 2 * NARROW),
        (f"{line['cause']}: {line['detail']}", 0),
    )  # fmt: skip


_PRINTED: Mapping[str, Callable[[Row], str]] = {
    "record": _record, "request": _request, "rejection": _rejection, "connection": _connection,
}  # fmt: skip
