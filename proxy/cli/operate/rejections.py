"""The command `rejections`: what was rejected and denied last, one line each; the id leads to `explain`."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from kafka_sidecar.proxy.cli.admin_client import AdminPort, AdminUrl, AsJson, Ca, TokenFile, ask
from kafka_sidecar.proxy.cli.operate.options import Client, ClientId, Principal
from kafka_sidecar.proxy.cli.operate.tables import table
from kafka_sidecar.proxy.cli.output import say
from kafka_sidecar.proxy.telemetry.readable import NONE

TITLES = ("id", "time", "outcome", "what", "policy", "reason", "client id", "principal", "client", "message")


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
    query = urlencode({name: value for name, value in wanted.items() if value is not None})
    found = ask(AdminPort(admin, token_file, ca), f"/rejections?{query}")
    rows = found["rejections"][:limit]
    if as_json:
        typer.echo(json.dumps({**found, "rejections": rows}, indent=2))
    elif not rows:
        say("nothing was rejected or denied" + (" with these values" if query else ""))
    else:
        say(*table(TITLES, map(_row, rows)), "", f"All that is known of one: kafka-sidecar explain {rows[0]['id']}")


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    return (
        one["id"], one["timestamp"], one.get("outcome"), _what(one), one["policy"], one["reason"], one["client_id"],
        one.get("principal"), one.get("client"), one["message"],
    )  # fmt: skip


def _what(one: dict[str, Any]) -> str:
    if (denial := one.get("denial")) is not None:
        return f"{denial['operation']} of {denial['resource_type']} {denial['resource']}, {denial['times']} times"
    place = f"{one['topic'] or NONE}-{one['partition']}"
    return f"{place}, {one['rejected_records']} records" if one["rejected_records"] else place
