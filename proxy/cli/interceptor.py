"""The commands `interceptor test`, `interceptor list` and `interceptor explain`.

Exit codes: 0 success, 1 an interceptor failed, 2 the configuration, a flag or the input is invalid.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_sidecar.proxy.cli.output import exit_with_error, list_plugins, load_or_exit, load_valid_or_exit, say

if TYPE_CHECKING:
    from kafka_sidecar.interceptors.guard import Guard

interceptor_app = typer.Typer(no_args_is_help=True, help="Interceptors, which observe or edit records.")

ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="YAML file with interceptors.")]
GivenConfig = Annotated[Path, typer.Option("--config", "-c", help="YAML file with interceptors.")]


@interceptor_app.command("test")
def run_hooks(
    file: Annotated[str, typer.Argument(help="Records, one JSON object a line; - for standard input.")],
    config: GivenConfig,
    topic: Annotated[str, typer.Option(help="The topic of the records.")],
    client_id: Annotated[str | None, typer.Option(help="The client id that interceptors see.")] = None,
) -> None:
    """Run a topic's interceptors on the records of a file.

    Prints what `on_send`, then `on_consume` make of each.
    """
    from kafka_sidecar.proxy.cli.interceptor_runs import Runs, load_runs
    from kafka_sidecar.proxy.cli.record_lines import read_examples

    runs: Runs | None = load_runs(load_valid_or_exit(config), topic, client_id)
    if runs is None:
        exit_with_error(f"{topic}: no interceptor in {config} is called for its records")
    for number, example in read_examples(file):
        for line in runs.run(number - 1, example):
            say(f"{number}: {line}")
    raise typer.Exit(1 if runs.failures.count else 0)


@interceptor_app.command("list")
def show(config: ConfigFile = None) -> None:
    """List the available interceptors.

    Each with its source, and its settings with their defaults.
    """
    from kafka_sidecar.interceptors.registry import INTERCEPTORS

    entries = load_or_exit(config).interceptors if config else []
    own = [(one.name or one.type, one.type, one.class_path) for one in entries]
    say(*list_plugins(INTERCEPTORS, own, config))


@interceptor_app.command("explain")
def explain(topic: Annotated[str, typer.Argument(help="The topic's name.")], config: GivenConfig) -> None:
    """Print the interceptors of a topic.

    In the order of the configuration file, with the hooks of each that are called.
    """
    from kafka_sidecar.proxy.features.interception.from_config import NoReport, catalog, hooks_of

    guards = catalog(load_valid_or_exit(config), NoReport()).guards
    own = [guard for guard in guards if guard.applies_to(topic)]
    if not own:
        say(f"{topic}: no interceptors")
    for number, guard in enumerate(own, 1):
        kind = f"{type(guard.interceptor).__module__}:{type(guard.interceptor).__qualname__}"
        say(f"{number}. {guard.name}: {kind}; {', '.join(hooks_of(guard)) or 'no hooks'}{_cost(guard)}")


def _cost(guard: Guard) -> str:
    return "" if guard.hints.wants_records else "; batches are not decompressed for it"
