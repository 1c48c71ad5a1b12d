"""The commands of the pipeline. Spark is imported once a command runs: `--help` works without it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from kafka_sidecar.pipeline.dead_letters.app import dead_letters_app
from kafka_sidecar.pipeline.jars import JarError, fetch_jars
from kafka_sidecar.pipeline.settings import EXTRA, load_config
from kafka_sidecar.plugins.units import seconds
from kafka_sidecar.proxy.cli.output import exit_with_error
from kafka_sidecar.proxy.config.loading import PLACEHOLDER

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
app.add_typer(dead_letters_app, name="dead-letters")

AUDIT_TOPIC = "kafka-sidecar-audit"
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="The sidecar's YAML file.")]
BootstrapServers = Annotated[str | None, typer.Option(help="The brokers: host:port, separated by commas.")]


class Format(Enum):
    JSON = "json"
    PARQUET = "parquet"


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


@app.command()
def reconcile(
    config: ConfigFile = None,
    bootstrap_servers: BootstrapServers = None,
    topic: Annotated[str | None, typer.Option(help="The audit topic. Default: that of the file.")] = None,
    files: Annotated[
        str | None, typer.Option("--input", help="Folder of events in files, in place of a topic.")
    ] = None,
    file_format: Annotated[Format, typer.Option("--input-format", help="Of these files.")] = Format.JSON,
    path: Annotated[str | None, typer.Option(help="Folder of the tables.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on until it is interrupted.")] = False,
    interval: Annotated[float, typer.Option(min=0, help="With --watch: seconds between batches.")] = 60,
    now: Annotated[datetime | None, typer.Option(help="UTC, in place of the clock.")] = None,
    dead_letters: Annotated[
        list[str] | None, typer.Option(help="Dead letter topic, to find what was rejected; may be repeated.")
    ] = None,
) -> None:
    """Compare what was sent with what was read."""
    if dead_letters and watch:
        exit_with_error("--dead-letters: reads these topics whole: give it without --watch")
    flags: dict[str, object] = {"bootstrap_servers": bootstrap_servers, "pipeline.reconcile.path": path}
    if files is not None and config is None and bootstrap_servers is None and not dead_letters:
        flags |= PLACEHOLDER
    settings = load_config(config, flags)
    from kafka_sidecar.pipeline.brokers import UnreachableError
    from kafka_sidecar.pipeline.failures import FAILURES, explain
    from kafka_sidecar.pipeline.reconcile import command
    from kafka_sidecar.pipeline.records.kafka_log import LogError

    source = command.Source(topic or settings.audit.topic or AUDIT_TOPIC, files, file_format.value)
    at = round(now.replace(tzinfo=UTC).timestamp() * 1000) if now else None
    try:
        command.reconcile(settings, source, interval if watch else None, at, typer.echo, dead_letters or ())
    except (JarError, LogError, UnreachableError, ValueError) as error:
        exit_with_error(str(error))
    except FAILURES as error:
        exit_with_error(explain(error))


@app.command("replay-policy")
def replay_policy(
    topic: Annotated[list[str], typer.Option(help="Topic to read; may be repeated.")],
    config: ConfigFile = None,
    bootstrap_servers: BootstrapServers = None,
    policy: Annotated[
        str | None, typer.Option(help="In place of that of the topics: record.validation.policy.")
    ] = None,
    first: Annotated[str | None, typer.Option("--from", help="Offset, UTC time or duration before now.")] = None,
    until: Annotated[str | None, typer.Option(help="Likewise; not included.")] = None,
    segments: Annotated[
        Path | None, typer.Option(help="Folder of a broker's segment files, in place of brokers.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Group rejected records by key or header:NAME.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Show these as they are, not hashed.")] = False,
    top: Annotated[int, typer.Option(min=0, help="How many groups are shown.")] = 10,
    samples: Annotated[int, typer.Option(min=0, help="How many rejected records of each reason are shown.")] = 3,
    path: Annotated[str, typer.Option(help="Folder of the table and the report.")] = "kafka-sidecar-replay",
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Show what a policy would reject of a topic."""
    flags: dict[str, object] = {"bootstrap_servers": bootstrap_servers}
    if segments is not None and config is None and bootstrap_servers is None:
        flags |= PLACEHOLDER
    settings = load_config(config, flags)
    from kafka_sidecar.pipeline.failures import explain
    from kafka_sidecar.pipeline.replay import command
    from kafka_sidecar.pipeline.replay.command import Request, parse_bound

    now = round(time.time() * 1000)
    try:
        ends = parse_bound(first, now), parse_bound(until, now)
        command.main(settings, Request(tuple(topic), policy, *ends, segments, by, plain, top, samples, path), as_json)
    except ValueError as error:
        exit_with_error(str(error))
    except command.FAILURES as error:
        exit_with_error(explain(error))


@app.command("suggest-policy")
def suggest_policy(
    topic: Annotated[str, typer.Argument(help="Topic to read.")],
    config: ConfigFile = None,
    bootstrap_servers: BootstrapServers = None,
    first: Annotated[str | None, typer.Option("--from", help="Offset, UTC time or duration before now.")] = None,
    until: Annotated[str | None, typer.Option(help="Likewise; not included.")] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only so many offsets at the end of each partition.")] = None,
    sample: Annotated[float, typer.Option(min=0.000001, max=1, help="The share of batches to look at.")] = 1,
    segments: Annotated[
        Path | None, typer.Option(help="Folder of a broker's segment files, in place of brokers.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, max=0.5, help="The share of records that may be otherwise: 0.001.")
    ] = 0,
    closed: Annotated[bool, typer.Option("--closed", help="Forbid fields and headers that were never there.")] = False,
    no_ranges: Annotated[bool, typer.Option("--no-ranges", help="Say nothing about ranges and sizes.")] = False,
    samples: Annotated[int, typer.Option(min=0, help="How many rejected records of each reason are shown.")] = 3,
    path: Annotated[str, typer.Option(help="Folder of the files.")] = "kafka-sidecar-suggestion",
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Find what holds for a topic, as policies."""
    flags: dict[str, object] = {"bootstrap_servers": bootstrap_servers}
    if segments is not None and config is None and bootstrap_servers is None:
        flags |= PLACEHOLDER
    settings = load_config(config, flags, (*EXTRA, "jsonschema_rs"))
    from kafka_sidecar.pipeline.failures import explain
    from kafka_sidecar.pipeline.replay.command import parse_bound
    from kafka_sidecar.pipeline.suggest import command
    from kafka_sidecar.pipeline.suggest.json_schema import Options

    now = round(time.time() * 1000)
    try:
        ends = parse_bound(first, now), parse_bound(until, now)
        options = Options(tolerance, closed, not no_ranges)
        request = command.Request(topic, *ends, last, sample, segments, options, samples, path)
        command.main(settings, request, as_json)
    except (ValueError, OSError) as error:
        exit_with_error(str(error))
    except command.FAILURES as error:
        exit_with_error(explain(error))


@app.command()
def report(
    config: ConfigFile = None,
    path: Annotated[str | None, typer.Option(help="Folder of the tables of reconcile.")] = None,
    output: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("kafka-sidecar-report"),
    last: Annotated[str | None, typer.Option(help="Only the last 24h, 7d, ...")] = None,
    replay: Annotated[str | None, typer.Option(help="report.json of replay-policy, to show beside.")] = None,
) -> None:
    """Write a page about what reconcile has found."""
    # No broker is needed, so the file need not name one.
    settings = load_config(config, {"pipeline.reconcile.path": path, **PLACEHOLDER})
    try:
        last_s = None if last is None else seconds(last)
    except ValueError as error:
        exit_with_error(f"--last: {error}")
    from kafka_sidecar.pipeline.report import command

    typer.echo(command.report(settings, output, last_s, replay))


def main() -> None:
    app(prog_name="kafka-sidecar pipeline")
