"""What the command line lists of plug-ins, of either kind, and how it refuses."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import typer

from kafka_sidecar.plugins.registry import Kind
from kafka_sidecar.plugins.settings import describe_settings
from kafka_sidecar.proxy.config.loading import Config, ConfigError, load

Configured = tuple[str, str, str | None]  # name, type, class path


def listed(kind: Kind[Any], configured: Iterable[Configured], config: Path | None) -> list[str]:
    """The plug-ins that can be named, where each comes from, its summary and settings; those of a file over others."""
    lines = {name: _about(kind, name, name, _origin(kind, name)) for name in kind.known()}
    for name, type_, class_path in configured:
        lines[name] = _about(kind, name, type_, f"configured in {config} as {type_}", class_path)
    return [line for name in sorted(lines) for line in lines[name]]


def loaded(config: Path) -> Config:
    """The configuration of a file; ends the program where it is wrong."""
    try:
        return load(config, os.environ, {})
    except ConfigError as error:
        refuse(str(error))


def refuse(message: str) -> NoReturn:
    """End the program with exit code 2 and one line that says why."""
    typer.echo(f"kafka-sidecar: {message}", err=True)
    raise typer.Exit(2)


def _about(kind: Kind[Any], name: str, type_: str, origin: str, class_path: str | None = None) -> list[str]:
    try:
        found = kind.find(type_, class_path)
    except ValueError as error:
        return [f"{name}: {origin}; cannot be used: {error}"]
    summary = (found.__doc__ or "nothing is said about it").strip().partition("\n")[0]
    return [f"{name}: {origin}; {summary}", *(f"    {line}" for line in describe_settings(found))]


def _origin(kind: Kind[Any], name: str) -> str:
    return "built in" if name in kind.built_in else f"entry point {kind.known()[name]}"
