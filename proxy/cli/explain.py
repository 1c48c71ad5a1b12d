"""The command `explain`: why a batch was rejected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from textwrap import fill
from typing import Annotated, Any
from urllib.parse import quote

import typer

from kafka_sidecar.proxy.cli.admin_client import AdminUrl, AsJson, ask

INDENT = 14
WIDTH = 120


def explain(
    rejection_id: Annotated[str, typer.Argument(metavar="ID", help="From an error message or a log line.")],
    admin: AdminUrl = None,
    as_json: AsJson = False,
) -> None:
    """Print why a batch was rejected, by its id."""
    found = ask(admin, f"/rejections/{quote(rejection_id, safe='')}")
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    place = f"{found['topic']}-{found['partition']}"
    typer.echo(f"{place}: {found['outcome']} at {found['timestamp']} by {found['policy']} ({found['reason']})")
    for name, text in _lines(found):
        typer.echo(fill(text, WIDTH, initial_indent=f"  {name:{INDENT - 2}}", subsequent_indent=" " * INDENT))


def _lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
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
    if found["configuration"]:
        yield from _configuration(found["configuration"])
    yield "what to do", found["remedy"]


def _configuration(applied: dict[str, Any]) -> Iterator[tuple[str, str]]:
    share = f", enforced for {applied['percent']} % of the batches" if applied["percent"] < 100 else ""
    yield "policies", f"{applied['record.validation.policy']} (from {applied['source']}, mode {applied['mode']}{share})"
    for policy in applied["policies"]:
        argument = f" with {policy['argument']!r}" if policy["argument"] else ""
        about = f"{policy['class']}; reads {policy['reads']}; fails {policy['on_error']}"
        settings = f"; settings {json.dumps(policy['settings'])}" if policy["settings"] else ""
        yield "", f"{policy['name']}{argument}: {about}{settings}"


def _named(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items() if value is not None)
