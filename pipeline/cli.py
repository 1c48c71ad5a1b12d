"""The commands of the pipeline. Spark is imported once a command runs: `--help` works without it."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from kafka_sidecar.pipeline.jars import JarError, fetch_jars
from kafka_sidecar.proxy.cli.plugin_list import exit_with_error
from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.config.mistakes import ConfigError

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)

EXTRA = ("pyspark", "pyarrow", "pandas", "numpy", "matplotlib")
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="The sidecar's YAML file.")]
BootstrapServers = Annotated[str | None, typer.Option(help="The brokers: host:port, separated by commas.")]


@app.callback()
def options() -> None:
    """Spark jobs over what the sidecars have audited, and over the history of topics."""


@app.command()
def jars(
    folder: Annotated[Path | None, typer.Argument(help="Default: where the commands look for them.")] = None,
) -> None:
    """Fetch Spark's Kafka connector with Maven, and verify it."""
    try:
        typer.echo(f"verified: {fetch_jars(folder)}")
    except JarError as error:
        exit_with_error(str(error))


def load_config(path: Path | None, flags: dict[str, object]) -> Config:
    """The configuration; exits with code 2 and the remedy if it is invalid, or if the extra is not installed."""
    if missing := [name for name in EXTRA if find_spec(name) is None]:
        exit_with_error(f"pipeline: {', '.join(missing)} not installed; pip install 'kafka-sidecar[pipeline]'")
    try:
        return load(path, os.environ, flags)
    except ConfigError as error:
        exit_with_error(*error.lines)


def main() -> None:
    app(prog_name="kafka-sidecar pipeline")
