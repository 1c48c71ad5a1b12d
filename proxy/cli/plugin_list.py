"""The lists of plug-ins, of either kind, and the exit of a command whose input is invalid."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from kafka_sidecar.plugins.settings import describe_settings
from kafka_sidecar.proxy.cli.output import say
from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.config.mistakes import ConfigError

if TYPE_CHECKING:
    from kafka_sidecar.plugins.registry import Kind

NO_FLAGS: Mapping[str, object] = {}
Configured = tuple[str, str, str | None]  # name, type, class path


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


def _describe(kind: Kind[Any], name: str, type_: str, origin: str, class_path: str | None = None) -> list[str]:
    try:
        found = kind.find(type_, class_path)
    except ValueError as error:
        return [f"{name}: {origin}; cannot be used: {error}"]
    summary = " ".join(cleandoc(found.__doc__ or "no description").partition("\n\n")[0].split())
    return [f"{name}: {origin}; {summary}", *(f"    {line}" for line in describe_settings(found))]


def _origin(kind: Kind[Any], name: str) -> str:
    return "built in" if name in kind.built_in else f"entry point {kind.known()[name]}"
