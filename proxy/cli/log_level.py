"""The command `log-level`: shows and changes the log level of a running sidecar."""

from __future__ import annotations

import json
from typing import Annotated
from urllib.parse import urlencode

import typer

from kafka_sidecar.proxy.cli.admin_client import AdminUrl, AsJson, ask


def change_log_level(
    level: Annotated[str | None, typer.Argument(help="debug, info, warning, error or default; none: show it.")] = None,
    logger: Annotated[str, typer.Option(help="A logger, as log lines name it.")] = "root",
    for_: Annotated[str, typer.Option("--for", help="For how long, up to 24h.")] = "10m",
    admin: AdminUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show or change the log level of a running sidecar."""
    if level is None:
        found = ask(admin, "/log-level")
    else:
        found = ask(admin, "/log-level?" + urlencode({"level": level, "logger": logger, "for": for_}), "PUT")
    if as_json or "loggers" not in found:
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(f"root: {found['level']}")
    for name, one in found["loggers"].items():
        typer.echo(f"{name}: {one['level']} until {one['until']}, then {one['then']}")
