"""The commands `interceptor list` and `interceptor explain`.

Exit codes: 0 success, 2 the configuration or a flag is invalid.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_sidecar.proxy.cli.plugin_list import list_plugins, load_or_exit, load_valid_or_exit

if TYPE_CHECKING:
    from kafka_sidecar.interceptors.guard import Guard

interceptor_app = typer.Typer(no_args_is_help=True, help="Interceptors, which observe or edit records.")

ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="YAML file with interceptors.")]
GivenConfig = Annotated[Path, typer.Option("--config", "-c", help="YAML file with interceptors.")]


@interceptor_app.command("list")
def show(config: ConfigFile = None) -> None:
    """List the available interceptors, the source of each, and its settings."""
    from kafka_sidecar.interceptors.registry import INTERCEPTORS

    entries = load_or_exit(config).interceptors if config else []
    own = [(one.name or one.type, one.type, one.class_path) for one in entries]
    typer.echo("\n".join(list_plugins(INTERCEPTORS, own, config)))


@interceptor_app.command("explain")
def explain(topic: Annotated[str, typer.Argument(help="The topic's name.")], config: GivenConfig) -> None:
    """Print the interceptors that the configuration file has for a topic, in their order, and the hooks of each."""
    from kafka_sidecar.proxy.interception.from_config import NoReport, catalog

    guards = catalog(load_valid_or_exit(config), NoReport()).guards
    own = [guard for guard in guards if guard.applies_to(topic)]
    if not own:
        typer.echo(f"{topic}: no interceptors")
    for number, guard in enumerate(own, 1):
        kind = f"{type(guard.interceptor).__module__}:{type(guard.interceptor).__qualname__}"
        typer.echo(f"{number}. {guard.name}: {kind}; {', '.join(_hooks(guard)) or 'no hooks'}{_cost(guard)}")


def _hooks(guard: Guard) -> Iterable[str]:
    """The hooks that the interceptor overrides, or has set on itself."""
    from kafka_sidecar.interceptors.contract import Interceptor
    from kafka_sidecar.interceptors.guard import has_override
    from kafka_sidecar.interceptors.registry import INTERCEPTORS

    one = guard.interceptor
    return [
        name
        for name, hook in INTERCEPTORS.hooks.items()
        if hook.base is not Interceptor
        and isinstance(one, hook.base)
        and (name in vars(one) or (hasattr(one, name) and has_override(one, hook.base, name)))
    ]


def _cost(guard: Guard) -> str:
    return "" if guard.hints.wants_records else "; batches are not decompressed for it"
