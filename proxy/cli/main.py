"""The command line. Exit codes: 0 success, 1 failed while running, 2 the configuration or a flag is invalid."""

from __future__ import annotations

import errno
import os
import re
import sys
from importlib import import_module
from typing import Annotated

import typer

from kafka_sidecar import __version__
from kafka_sidecar.codec import compiled
from kafka_sidecar.proxy.cli.check import check_app, validate
from kafka_sidecar.proxy.cli.clean_objects import clean_objects
from kafka_sidecar.proxy.cli.config_show import show_config
from kafka_sidecar.proxy.cli.dead_letters.app import dead_letters_app
from kafka_sidecar.proxy.cli.inject import inject_sidecar
from kafka_sidecar.proxy.cli.interceptor import interceptor_app
from kafka_sidecar.proxy.cli.output import say_json
from kafka_sidecar.proxy.cli.pages import change_log_level, explain, show_connections, show_rejections, show_topics
from kafka_sidecar.proxy.cli.policy import policy_app
from kafka_sidecar.proxy.cli.run import run
from kafka_sidecar.proxy.cli.status import show_status
from kafka_sidecar.proxy.cli.tap import tap_app

_USER_NAME = re.compile(r"[^\s=#,][^\s=,]*")
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
app.command("clean-objects")(clean_objects)
app.command("inject")(inject_sidecar)


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

    say_json(build_schema())


@app.command("scram-user")
def print_scram_user(
    name: Annotated[str, typer.Argument(help="The user's name.")],
    iterations: Annotated[int, typer.Option(min=4096, max=16384, help="Iterations of the hash.")] = 4096,
) -> None:
    """Print a user's lines for clients.sasl.users_file.

    The password is asked for, or read from standard input, and is not in the lines.
    """
    from kafka_sidecar.proxy.security.sasl.scram import HASHES
    from kafka_sidecar.proxy.security.sasl.users import create_verifier, format_user

    if not _USER_NAME.fullmatch(name):
        typer.echo(f"NAME: {name!r} has a space, a comma or =, or begins with #; choose another", err=True)
        raise typer.Exit(2)
    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        typer.echo("standard input: has no password; write it there as one line", err=True)
        raise typer.Exit(2)
    for mechanism in HASHES:
        typer.echo(format_user(name, mechanism, create_verifier(mechanism, password, iterations)))


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
