"""The command `run`, with none of the other commands, whose imports an idle sidecar would pay for."""

from __future__ import annotations

import logging
import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kafka_sidecar.proxy.cli.output import exit_with_error
from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.features.compose import find_mistakes
from kafka_sidecar.proxy.runtime.program import share_arena
from kafka_sidecar.proxy.security.start_checks import find_doubts

log = logging.getLogger("kafka_sidecar")
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="YAML file; docs/reference/configuration.md")]
BootstrapServers = Annotated[str | None, typer.Option(help="The brokers: host:port, separated by commas.")]
Listen = Annotated[str | None, typer.Option(help="Address for clients: host:port.")]
AdminListen = Annotated[
    str | None, typer.Option("--admin", help="Address of metrics, probes and pages for operators: host:port.")
]
AdvertisedHost = Annotated[str | None, typer.Option(help="The host that responses name for every broker.")]
SourceAddress = Annotated[
    str | None, typer.Option("--broker-source-address", help="Local address for connections to brokers.")
]


def _levels(incomplete: str) -> list[str]:
    return [name for name in ("debug", "info", "warning", "error") if name.startswith(incomplete)]


def _formats(incomplete: str) -> list[str]:
    return [name for name in ("auto", "json", "text") if name.startswith(incomplete)]


LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error.", autocompletion=_levels)]
LogFormat = Annotated[
    str | None, typer.Option(help="auto, json or text; auto is text on a terminal.", autocompletion=_formats)
]


def run(
    config: ConfigFile = None,
    bootstrap_servers: BootstrapServers = None,
    listen: Listen = None,
    admin: AdminListen = None,
    advertised_host: AdvertisedHost = None,
    broker_source_address: SourceAddress = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Serve clients until SIGTERM or SIGINT, then drain."""
    flags = {
        "bootstrap_servers": bootstrap_servers,
        "listen": listen,
        "admin.listen": admin,
        "nodes.advertised_host": advertised_host,
        "connections.source_address": broker_source_address,
        "log.level": log_level,
        "log.format": log_format,
    }
    from kafka_sidecar.proxy.runtime.admission import forbid_core_dumps, raise_file_limit, warn_if_too_large
    from kafka_sidecar.proxy.runtime.program import runner
    from kafka_sidecar.proxy.telemetry.logs import configure

    try:
        raise_file_limit()
        forbid_core_dumps()
        settings = load(config, os.environ, flags, find_mistakes)
        rate = configure(settings.log.level, settings.log.max_rate, wanted=settings.log.format)
        warn_if_too_large(settings.connections.max_buffered, settings.process_count)
        for doubt in find_doubts(settings):
            log.warning("configuration doubtful", extra={"detail": doubt})
        if settings.worker_count == 1:
            from kafka_sidecar.proxy.server.process import serve

            runner().run(serve(settings, config, partial(load, config, os.environ, flags), rate))
        else:
            from kafka_sidecar.proxy.server.workers.run import supervise

            sys.exit(runner().run(supervise(settings, config, flags, rate)))
    except ConfigError as error:
        exit_with_error(*error.lines)


def main() -> None:
    """`kafka-sidecar run` alone."""
    share_arena()  # before plug-ins are loaded, which may start threads
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=False)
    app.command()(run)
    app(sys.argv[2:], prog_name="kafka-sidecar run")
