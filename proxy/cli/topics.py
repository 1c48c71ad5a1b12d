"""The command `topics`: what applies to the topics of a running sidecar."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import quote

import typer

from kafka_sidecar.proxy.cli.admin_client import AdminUrl, AsJson, ask


def show_topics(
    topic: Annotated[str | None, typer.Argument(help="A topic; none: all that are known.")] = None,
    admin: AdminUrl = None,
    as_json: AsJson = False,
) -> None:
    """Print what applies to topics in a running sidecar."""
    found = ask(admin, "/topics" if topic is None else f"/topics/{quote(topic, safe='')}")
    if as_json or "workers" in found:
        typer.echo(json.dumps(found, indent=2))
        return
    for one in found["topics"] if topic is None else [found]:
        typer.echo("\n".join(_lines(one)))


def _lines(topic: dict[str, Any]) -> Iterator[str]:
    yield f"{topic['topic']}: {_policy(topic['validation'])}"
    for number, policy in enumerate(topic["validation"].get("policies", ()), 1):
        argument = f" with {policy['argument']!r}" if policy["argument"] else ""
        about = f"reads {policy['reads']}; fails {policy['on_error']}"
        yield f"  policy {number}. {policy['name']}{argument}: {policy['class']}; {about}{_settings(policy)}"
    for number, one in enumerate(topic["interceptors"], 1):
        if isinstance(one, str):
            yield f"  interceptor {number}. {one}"
        else:
            hooks = ", ".join(one["hooks"]) or "no hooks"
            disabled = "; disabled for now" if one["disabled"] else ""
            source = f"from {one['source']}"
            yield f"  interceptor {number}. {one['name']}: {one['class']} ({source}); {hooks}{disabled}{_settings(one)}"


def _policy(validation: dict[str, Any]) -> str:
    if "why" in validation:
        return f"not validated: {validation['why']}"
    share = f" for {validation['percent']} % of the batches" if validation.get("percent", 100) < 100 else ""
    place = f"from {validation['source']}, mode {validation['mode']}{share}, hash {validation['hash']}"
    return f"{validation['record.validation.policy']} ({place})"


def _settings(one: dict[str, Any]) -> str:
    return f"; settings {json.dumps(one['settings'])}" if one["settings"] else ""
