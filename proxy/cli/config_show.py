"""The command `config show`: each setting with its value and where that is from, of a file or of a running sidecar.

The output is a configuration file: where no secret is in it, it loads again and means the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from kafka_sidecar.proxy.cli.admin_client import AdminPort, AdminUrl, Ca, TokenFile, ask
from kafka_sidecar.proxy.cli.output import exit_with_error, say, say_json
from kafka_sidecar.proxy.cli.run import BootstrapServers, ConfigFile
from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.config.mistakes import ConfigError

DEFAULT = "default"
COMMENT_AT = 48
TLS = "tls"  # a section that may not be written where it is not used: its defaults become comments
TOPIC_CONFIG = "the topic's config"


def show_config(
    section: Annotated[str | None, typer.Argument(help="One section of the file; none: all.")] = None,
    config: ConfigFile = None,
    bootstrap_servers: BootstrapServers = None,
    running: Annotated[
        bool, typer.Option("--running", help="What is in force in a running sidecar, asked by its admin port.")
    ] = False,
    given: Annotated[bool, typer.Option("--given", help="Only what is not the default.")] = False,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with values and sources.")] = False,
) -> None:
    """Print the effective configuration, with the source of each value."""
    if running:
        if config is not None or bootstrap_servers is not None:
            exit_with_error("--running: asks a sidecar what it has loaded: leave --config and --bootstrap-servers away")
        port = AdminPort(admin, token_file, ca)
        found = ask(port, "/configuration")
        head, found = _of_workers(found)
        head += _of_topics(ask(port, "/topics"))
    else:
        head, found = [], _read(config, bootstrap_servers)
    values, sources = found["values"], found["sources"]
    if section is not None:
        if section not in values:
            exit_with_error(f"{section}: is no section; known here: {', '.join(values)}")
        values, sources = {section: values[section]}, {section: sources[section]}
    if given:
        values, sources = _without_defaults(values, sources) or ({}, {})
    if as_json:
        say_json({**found, "values": values, "sources": sources})
    else:
        say(*(f"# {line}" for line in head), *(lines_of(values, sources) if values else ["{}"]))


def _read(config: Path | None, bootstrap_servers: str | None) -> dict[str, Any]:
    from kafka_sidecar.proxy.server.admin.effective import effective

    try:
        loaded = load(config, os.environ, {"bootstrap_servers": bootstrap_servers})
    except ConfigError as error:
        exit_with_error(*error.lines)
    found: dict[str, Any] = json.loads(json.dumps(effective(loaded)))
    return found


def _of_workers(found: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """What is in force, and lines on it; of several workers that differ the first one's."""
    by_worker: Mapping[str, dict[str, Any]] = found.get("workers", {})
    first = next(iter(by_worker.values()), found)
    lines = [f"{_in_short(first)}"]
    for number, one in by_worker.items():
        if one["values"] != first["values"]:
            lines.append(f"worker {number} has another configuration: {_in_short(one)}")
    lines += [f"{setting}: {count} more entries are not shown" for setting, count in first["not_shown"].items()]
    return lines, first


def _in_short(one: Mapping[str, Any]) -> str:
    restart = ", ".join(one["restart_required_by"])
    pending = f"; changed in the file, and need a restart: {restart}" if restart else ""
    return f"generation {one['generation']}, last reload {one['last_reload']}{pending}"


def _of_topics(found: Mapping[str, Any]) -> list[str]:
    """Topics whose own configs override what the file says."""
    pages = found.get("workers", {"": found}).values()
    own = {
        topic["topic"]: topic["validation"]
        for page in pages
        for topic in page["topics"]
        if TOPIC_CONFIG in topic["validation"].get("source", "")
    }
    return [
        f"topic {name}: record.validation.policy {one['record.validation.policy']}, from {one['source']}"
        for name, one in own.items()
    ]


def _without_defaults(value: Any, source: Any) -> tuple[Any, Any] | None:
    """What is given; None: nothing in it."""
    if isinstance(source, dict):
        kept = {key: _without_defaults(value[key], source[key]) for key in source}
        found = {key: one for key, one in kept.items() if one is not None}
        values, sources = ({key: one[at] for key, one in found.items()} for at in (0, 1))
        return (values, sources) if found else None
    if isinstance(source, list):
        entries = [_without_defaults(*one) or ({}, {}) for one in zip(value, source, strict=True)]
        return [one[0] for one in entries], [one[1] for one in entries]
    return None if source == DEFAULT else (value, source)


def lines_of(values: Any, sources: Any, indent: str = "", begin: str = "") -> Iterator[str]:
    """YAML in block style, with the source of each value as a comment. ``begin``: of an entry of a list."""
    for key, source in sources.items():
        value, name = values[key], f"{begin or indent}{scalar(key)}:"
        begin = ""
        if isinstance(source, str):
            yield f"{f'{name} {scalar(value)}':{COMMENT_AT}} # {source}"
        elif isinstance(source, dict):
            yield name if source else f"{name} {{}}"
            inside = lines_of(value, source, indent + "  ")
            yield from map(_commented, inside) if key == TLS and _is_default(source) else inside
        else:
            yield name if source else f"{name} []"
            for entry, of in zip(value, source, strict=True):
                if not of:
                    yield f"{indent}  - {{}}"
                yield from lines_of(entry, of, indent + "    ", f"{indent}  - ")


def _is_default(source: Any) -> bool:
    return all(one == DEFAULT for one in source.values())


def _commented(line: str) -> str:
    text = line.lstrip(" ")
    return f"{' ' * (len(line) - len(text))}# {text}"


def scalar(value: Any) -> str:
    """A value in one line of YAML, ASCII.

    >>> scalar("a: b"), scalar(["x", 1]), scalar(None), scalar("off"), scalar("a\\nb")
    ("'a: b'", '[x, 1]', 'null', "'off'", '"a\\\\nb"')
    """
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), sort_keys=False)
    lines = text.removesuffix("...\n").splitlines()
    return lines[0] if len(lines) == 1 else json.dumps(value)
