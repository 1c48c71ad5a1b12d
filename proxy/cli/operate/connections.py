"""The command `connections`: who is connected, who waits and why, who uses versions that Kafka 4 has removed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from kafka_sidecar.proxy.cli.admin_client import AdminPort, AdminUrl, AsJson, Ca, TokenFile, ask
from kafka_sidecar.proxy.cli.operate.options import Client, ClientId, Principal
from kafka_sidecar.proxy.cli.operate.tables import table
from kafka_sidecar.proxy.cli.output import say
from kafka_sidecar.proxy.telemetry.readable import duration, number, size

TITLES = (
    "session", "client id", "principal", "software", "client", "listener", "age", "in flight", "oldest", "requests",
    "in", "out", "paused", "removed versions",
)  # fmt: skip
Titles = tuple[str, ...]
Row = dict[str, Any]
CLOSED_TITLES = ("session", "client id", "principal", "client", "ended", "lived", "cause", "detail")


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
    wanted = {
        "client_id": client_id, "principal": principal, "client": client, "listener": listener,
        "old": "true" if old else None, "paused": "true" if paused else None,
    }  # fmt: skip
    query = {name: value for name, value in wanted.items() if value is not None}
    if closed:
        query["closed"] = "true"
    found = ask(AdminPort(admin, token_file, ca), f"/connections?{urlencode(query)}")
    rows = sorted(found["connections"], key=itemgetter("ended"), reverse=True) if closed else _by_trouble(found)
    rows = rows[:limit]
    if as_json:
        typer.echo(json.dumps({**found, "connections": rows}, indent=2))
    elif closed:
        say(*_lines(CLOSED_TITLES, _closed_row, rows))
    else:
        say(*_lines(TITLES, _row, rows), f"{len(rows)} shown of {number(found['open'])} that are open")


def _lines(titles: Titles, row: Callable[[Row], tuple[object, ...]], found: Sequence[Row]) -> Iterator[str]:
    if not found:
        yield "no connections"
    elif any("worker" in one for one in found):
        yield from table(("worker", *titles), [(one.get("worker"), *row(one)) for one in found])
    else:
        yield from table(titles, map(row, found))


def _by_trouble(found: Row) -> list[Row]:
    return sorted(found["connections"], key=lambda one: (not one["pauses"], -(one["oldest_s"] or 0.0)))


def _row(one: Row) -> tuple[object, ...]:
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
