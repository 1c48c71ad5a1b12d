"""What commands print, and how they end: text without control characters, whoever has chosen the names in it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from inspect import cleandoc
from io import StringIO
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from kafka_sidecar.plugins.settings import describe_settings
from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.telemetry.logs import without_controls
from kafka_sidecar.proxy.telemetry.readable import NONE, duration

if TYPE_CHECKING:
    from kafka_sidecar.plugins.registry import Kind

NO_FLAGS: Mapping[str, object] = {}
Configured = tuple[str, str, str | None]  # name, type, class path
MAX_CELL = 249
UNBOUNDED = 1 << 16  # columns of what is no terminal
NARROWEST = 40


def say(*lines: str, err: bool = False) -> None:
    """Print lines. A name in one cannot move the cursor, set a title or look like a line of its own."""
    typer.echo("\n".join(map(without_controls, lines)), err=err)


def say_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2))


def list_plugins(kind: Kind[Any], configured: Iterable[Configured], config: Path | None) -> list[str]:
    """The lines of all plug-ins: origin, summary, settings. A configured one replaces another of the same name."""
    lines = {name: _describe(kind, name, name, _origin(kind, name)) for name in kind.known()}
    for name, type_, class_path in configured:
        lines[name] = _describe(kind, name, type_, f"configured in {config} as {type_}", class_path)
    return [line for name in sorted(lines) for line in lines[name]]


def load_or_exit(config: Path) -> Config:
    """The configuration of a file; exits with code 2 if it is invalid."""
    try:
        return load(config, os.environ, {})
    except ConfigError as error:
        exit_with_error(*error.lines)


def load_valid_or_exit(config: Path, flags: Mapping[str, object] = NO_FLAGS) -> Config:
    """The configuration of a file, its policies and interceptors tried; exits with code 2 if anything is invalid."""
    from kafka_sidecar.proxy.features.compose import find_mistakes

    try:
        settings = load(config, os.environ, flags, find_mistakes)
        if mistakes := list(find_mistakes(settings)):
            raise settings.error(mistakes)
        return settings
    except ConfigError as error:
        exit_with_error(*error.lines)


def exit_with_error(*messages: str) -> NoReturn:
    """Exit with code 2 and a line on stderr for each."""
    for message in messages:
        say(f"kafka-sidecar: {message}", err=True)
    raise typer.Exit(2)


def exit_with_failure(message: str) -> NoReturn:
    """Exit with code 1 and a line on stderr."""
    say(f"kafka-sidecar: {message}", err=True)
    raise typer.Exit(1)


def _describe(kind: Kind[Any], name: str, type_: str, origin: str, class_path: str | None = None) -> list[str]:
    try:
        found = kind.find(type_, class_path)
    except ValueError as error:
        return [f"{name}: {origin}; cannot be used: {error}"]
    summary = " ".join(cleandoc(found.__doc__ or "no description").partition("\n\n")[0].split())
    return [f"{name}: {origin}; {summary}", *(f"    {line}" for line in describe_settings(found))]


def _origin(kind: Kind[Any], name: str) -> str:
    return "built in" if name in kind.built_in else f"entry point {kind.known()[name]}"


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Lines: the titles, then the rows. Columns fold in a narrow terminal; elsewhere a row is one line.

    Cells may have names that clients choose: each is escaped, and cut where it is longer than any topic's name.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0), header_style="")
    for title in titles:
        made.add_column(Text(title), overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell(one)) for one in row))
    written = StringIO()
    Console(file=written, width=width(), color_system=None, legacy_windows=False, _environ={}).print(made)
    return (line.rstrip() for line in written.getvalue().splitlines())


def folded(begin: str, text: str) -> Iterator[str]:
    """A text in as many lines as it takes, below each other."""
    yield from wrap(
        without_controls(text), width(), initial_indent=begin, subsequent_indent=" " * len(begin),
        break_on_hyphens=False,
    ) or [begin]  # fmt: skip


def width() -> int:
    """Columns that a line may have."""
    if not sys.stdout.isatty():
        return UNBOUNDED
    return max(NARROWEST, shutil.get_terminal_size().columns)


def cell(value: object) -> str:
    """One value as text without control characters.

    >>> cell(None), cell("app\\n"), cell("x" * 300)[-3:]
    ('-', 'app\\\\n', 'xx…')
    """
    text = NONE if value is None or value == "" else str(value)
    return without_controls(text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…")


def age(timestamp: str, now: datetime | None = None) -> str:
    """How long ago a timestamp of the admin port is; nothing where it is none."""
    try:
        at = datetime.fromisoformat(timestamp)
    except (ValueError, TypeError):
        return ""
    return duration(max(0.0, ((now or datetime.now(UTC)) - at).total_seconds()))
