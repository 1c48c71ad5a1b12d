"""The command line. Exit codes: 0 success, 1 failed while running, 2 the configuration or a flag is invalid."""

from __future__ import annotations

import errno
import json
import os
import sys
from importlib import import_module
from typing import Annotated

import typer

from kafka_sidecar import __version__
from kafka_sidecar.codec import compiled
from kafka_sidecar.proxy.cli.admin_client import change_log_level, explain, show_topics
from kafka_sidecar.proxy.cli.check import check_app
from kafka_sidecar.proxy.cli.clean_objects import clean_objects
from kafka_sidecar.proxy.cli.dead_letters.app import dead_letters_app
from kafka_sidecar.proxy.cli.inject import inject_sidecar
from kafka_sidecar.proxy.cli.interceptor import interceptor_app
from kafka_sidecar.proxy.cli.operate.config_show import show_config
from kafka_sidecar.proxy.cli.operate.connections import show_connections
from kafka_sidecar.proxy.cli.operate.rejections import show_rejections
from kafka_sidecar.proxy.cli.operate.status import show_status
from kafka_sidecar.proxy.cli.operate.validate import validate
from kafka_sidecar.proxy.cli.policy import policy_app
from kafka_sidecar.proxy.cli.run import run
from kafka_sidecar.proxy.cli.scram_user import print_scram_user
from kafka_sidecar.proxy.cli.tap import tap_app

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
config_app = typer.Typer(no_args_is_help=True, help="The configuration file.")
app.add_typer(config_app, name="config")
config_app.command("show")(show_config)
app.add_typer(policy_app, name="policy")
app.add_typer(check_app, name="check")
app.add_typer(interceptor_app, name="interceptor")
app.add_typer(dead_letters_app, name="dead-letters")
app.add_typer(tap_app, name="tap")
app.command()(run)
app.command()(validate)
app.command("status")(show_status)
app.command("connections")(show_connections)
app.command("rejections")(show_rejections)
app.command()(explain)
app.command("topics")(show_topics)
app.command("log-level")(change_log_level)
app.command("scram-user")(print_scram_user)
app.command("clean-objects")(clean_objects)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A sidecar proxy for Kafka clients."""


@config_app.command("schema")
def schema() -> None:
    """Print the JSON Schema of the configuration file."""
    from kafka_sidecar.proxy.cli.schema import build_schema

    typer.echo(json.dumps(build_schema(), indent=2))


app.command("inject")(inject_sidecar)


JOBS = ("dead-letters", "jars", "reconcile", "replay-policy", "report", "suggest-policy")


def _jobs(incomplete: str) -> list[str]:
    return [job for job in JOBS if job.startswith(incomplete)]


# All that follows is the pipeline's, --help too.
@app.command(
    "pipeline", add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def run_pipeline(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="JOB", show_default=False, autocompletion=_jobs, help="See --help.")
    ] = None,
) -> None:
    """Run a Spark job: reconcile, dead-letters, report."""
    pipeline = import_module("kafka_sidecar.pipeline.cli")  # by name: the proxy does not import it
    pipeline.app(arguments or [], prog_name="kafka-sidecar pipeline")


@app.command()
def version() -> None:
    """Print the version, and whether the hot loops are compiled."""
    typer.echo(f"kafka-sidecar {__version__} ({compiled.in_use()})")


def main() -> None:
    try:
        app()
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        # What is left in the buffer would be written, and fail, once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        typer.echo(f"kafka-sidecar: standard output cannot be written: {error.strerror}", err=True)
        sys.exit(1)
