"""The commands `dead-letters report` and `dead-letters replay` of the pipeline. Spark is imported once one runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_sidecar.pipeline.settings import load_config
from kafka_sidecar.proxy.cli.dead_letters import options
from kafka_sidecar.proxy.cli.output import exit_with_error, say
from kafka_sidecar.proxy.config.loading import PLACEHOLDER

if TYPE_CHECKING:
    from kafka_sidecar.pipeline.dead_letters.replay import ReplayJob
    from kafka_sidecar.proxy.cli.dead_letters.replay import Order
    from kafka_sidecar.proxy.config.loading import Config

dead_letters_app = typer.Typer(no_args_is_help=True, help="Dead letters of topics with many.")

Topics = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Dead letter topics.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="The sidecar's YAML file.")]
Brokers = Annotated[str | None, typer.Option("--bootstrap-servers", help="The brokers: host:port, ...")]


@dead_letters_app.command("report")
def report(
    topics: Topics,
    config: ConfigFile = None,
    bootstrap_servers: Brokers = None,
    topic: options.OriginalTopic = None,
    policy: options.Policy = None,
    reason: options.Reason = None,
    rejection_id: options.RejectionId = None,
    since: options.Since = None,
    until: options.Until = None,
    path: Annotated[str, typer.Option(help="Folder of the tables.")] = "kafka-sidecar-dead-letters",
    as_json: options.AsJson = False,
) -> None:
    """Count the letters of whole topics, read from the brokers."""
    choice = options.choice(topic, policy, reason, rejection_id, since, until)
    settings = load_config(config, {"bootstrap_servers": bootstrap_servers})
    from kafka_sidecar.pipeline.dead_letters import command
    from kafka_sidecar.pipeline.failures import explain

    try:
        found = command.report(settings, topics, choice, path)
    except (*command.FAILURES, ValueError) as error:
        exit_with_error(explain(error))
    if as_json:
        typer.echo(command.report_json(found))
    else:
        say(*command.report_lines(found, path))


@dead_letters_app.command("replay")
def replay(
    topics: Topics,
    sidecar: Annotated[str, typer.Option(help="The sidecar: host:port, which all executors can reach.")],
    config: ConfigFile = None,
    command_config: options.CommandConfig = None,
    topic: options.OriginalTopic = None,
    policy: options.Policy = None,
    reason: options.Reason = None,
    rejection_id: options.RejectionId = None,
    since: options.Since = None,
    until: options.Until = None,
    with_shadow: options.WithShadow = False,
    mend: options.Mend = None,
    group: Annotated[str, typer.Option(help="Remembers what was replayed, also by the other command.")] = options.GROUP,
    compression: options.Compression = "lz4",
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Send many records once more: a task for each partition.

    The guarantee is that of `kafka-sidecar dead-letters replay`. Exit codes: 0 all were accepted, 1 some were rejected.
    """
    codec = options.codec_of(compression)
    choice = options.choice(topic, policy, reason, rejection_id, since, until, with_shadow)
    flags: dict[str, object] = {} if config is not None else {**PLACEHOLDER}
    settings = load_config(config, flags)
    from kafka_sidecar.pipeline.dead_letters import command
    from kafka_sidecar.pipeline.failures import explain
    from kafka_sidecar.proxy.cli.dead_letters.printing import asked_lines, tally_json, tally_lines
    from kafka_sidecar.proxy.cli.dead_letters.replay import Order

    order = Order(choice, group, codec, is_dry=dry_run)
    try:
        job = _job(sidecar, command_config, order, mend, options.with_policies(config) if dry_run else None)
        tally = command.replay_all(settings, job, topics)
    except (*command.FAILURES, ValueError) as error:
        exit_with_error(explain(error))
    if as_json:
        typer.echo(tally_json(tally, dry_run, job.fine))
    else:
        say(*tally_lines(tally, job.fine))
        if job.policies is not None:
            say(*asked_lines(str(config), None))
    raise typer.Exit(1 if tally.has_refused else 0)


def _job(
    sidecar: str, command_config: Path | None, order: Order, mend: Path | None, policies: Config | None
) -> ReplayJob:
    from kafka_sidecar.pipeline.dead_letters.replay import ReplayJob

    servers = tuple(one.strip() for one in sidecar.split(",") if one.strip())
    options.client(servers, command_config)  # exits if it is wrong
    properties = options.properties(command_config)
    return ReplayJob(servers, properties, order, None if mend is None else options.interceptors_of(mend), policies)
