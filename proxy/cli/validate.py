"""The command `validate`: a configuration file, and with `--connect` what a start with it would meet.

Exit codes: 0 valid, 1 something that the sidecar would connect to fails, 2 the configuration or a flag is invalid.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafka_sidecar.plugins.units import seconds
from kafka_sidecar.proxy.cli.output import exit_with_error, load_valid_or_exit, say, say_json
from kafka_sidecar.proxy.cli.run import BootstrapServers
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError


def validate(
    config: Annotated[Path, typer.Argument(help="The YAML file to check.")],
    connect: Annotated[
        bool, typer.Option("--connect", help="Try brokers, logins, topics, rights and services too; change nothing.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    within: Annotated[str, typer.Option(help="Time limit of --connect.")] = "30s",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check a configuration file.

    Without the network, unless --connect is there.

    The environment variables that override it are checked too.
    """
    try:
        within_s = seconds(within)
    except ValueError as error:
        exit_with_error(f"--within: {error}")
    settings = load_valid_or_exit(config, {"bootstrap_servers": bootstrap_servers})
    doubts = _doubts(settings)
    if not connect:
        if as_json:
            say_json({"file": str(config), "valid": True, "warnings": doubts})
        else:
            say(*(f"{config}: warning: {doubt}" for doubt in doubts), f"{config}: valid")
        return
    from kafka_sidecar.proxy.cli.connect.checks import check_all, has_failed, summary

    try:
        checks = check_all(settings, within_s)
    except ConfigError as error:
        exit_with_error(*error.lines)
    if as_json:
        about = {"file": str(config), "valid": True, "warnings": doubts, "works": not has_failed(checks)}
        say_json({**about, "checks": [one.as_json for one in checks]})
    else:
        say(*(f"{config}: warning: {doubt}" for doubt in doubts), *(one.line for one in checks))
        say(f"{config}: valid; {summary(checks)}")
    if has_failed(checks):
        raise typer.Exit(1)


def _doubts(settings: Config) -> list[str]:
    """Exits with 2 where the token of the admin port cannot be used."""
    from kafka_sidecar.proxy.security.start_checks import find_doubts
    from kafka_sidecar.proxy.server.admin.http import check_token

    try:
        check_token(settings.admin.token_file)
    except ConfigError as error:
        exit_with_error(*error.lines)
    return list(find_doubts(settings))
