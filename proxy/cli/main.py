"""The command line. Exit codes: 0 success, 1 failed while running, 2 the configuration or a flag is invalid."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_sidecar import __version__
from kafka_sidecar.codec import compiled
from kafka_sidecar.proxy.cli.interceptor import interceptor_app
from kafka_sidecar.proxy.cli.plugin_list import exit_with_error, load_valid_or_exit
from kafka_sidecar.proxy.cli.policy import policy_app
from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.reload import Reload
from kafka_sidecar.proxy.config.types import host_port
from kafka_sidecar.proxy.features import find_mistakes
from kafka_sidecar.proxy.runtime.tasks import spawn

if TYPE_CHECKING:
    from kafka_sidecar.proxy.server import Server
    from kafka_sidecar.proxy.telemetry.log_rate import LogRate
    from kafka_sidecar.proxy.telemetry.metrics import Metrics

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
config_app = typer.Typer(no_args_is_help=True, help="The configuration file.")
app.add_typer(config_app, name="config")
app.add_typer(policy_app, name="policy")
app.add_typer(interceptor_app, name="interceptor")
log = logging.getLogger("kafka_sidecar")

DEFAULT_ADMIN = "127.0.0.1:9190"

ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="YAML file; docs/reference/configuration.md")]
BootstrapServers = Annotated[str | None, typer.Option(help="The brokers: host:port, separated by commas.")]
Listen = Annotated[str | None, typer.Option(help="Address for clients: host:port.")]
AdminListen = Annotated[
    str | None, typer.Option("--admin", help="Address of /metrics, /rejections, /livez and /readyz: host:port.")
]
AdvertisedHost = Annotated[str | None, typer.Option(help="The host that responses name for every broker.")]
SourceAddress = Annotated[
    str | None, typer.Option("--broker-source-address", help="Local address for connections to brokers.")
]
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error.")]


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


@app.command()
def run(
    config: ConfigFile = None,
    bootstrap_servers: BootstrapServers = None,
    listen: Listen = None,
    admin: AdminListen = None,
    advertised_host: AdvertisedHost = None,
    broker_source_address: SourceAddress = None,
    log_level: LogLevel = None,
) -> None:
    """Serve clients until SIGTERM or SIGINT, then drain."""
    flags = {
        "bootstrap_servers": bootstrap_servers,
        "listen": listen,
        "admin.listen": admin,
        "nodes.advertised_host": advertised_host,
        "connections.source_address": broker_source_address,
        "log.level": log_level,
    }
    from kafka_sidecar.proxy.runtime.admission import raise_file_limit
    from kafka_sidecar.proxy.telemetry import logs

    try:
        raise_file_limit()
        settings = load(config, os.environ, flags, find_mistakes)
        rate = logs.configure(settings.log.level, settings.log.max_rate)
        _runner().run(serve(settings, config, lambda: load(config, os.environ, flags, find_mistakes), rate))
    except ConfigError as error:
        exit_with_error(*error.lines)


@app.command()
def validate(config: Annotated[Path, typer.Argument(help="The YAML file to check.")]) -> None:
    """Check a configuration file, without the network.

    The environment variables that override it are checked too.
    """
    load_valid_or_exit(config)
    typer.echo(f"{config}: valid")


@config_app.command("schema")
def schema() -> None:
    """Print the JSON Schema of the configuration file."""
    from kafka_sidecar.proxy.cli.schema import build_schema

    typer.echo(json.dumps(build_schema(), indent=2))


# All that follows is the pipeline's, --help too.
@app.command(
    "pipeline", add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def run_pipeline(context: typer.Context) -> None:
    """Run a Spark job: reconcile, replay-policy, report."""
    pipeline = import_module("kafka_sidecar.pipeline.cli")  # by name: the proxy does not import it
    pipeline.app(context.args, prog_name="kafka-sidecar pipeline")


@app.command()
def version() -> None:
    """Print the version, and whether the hot loops are compiled."""
    typer.echo(f"kafka-sidecar {__version__} ({compiled.in_use()})")


def _runner() -> asyncio.Runner:
    """A runner with uvloop if it is installed, else with asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


async def serve(settings: Config, path: Path | None, read_config: Callable[[], Config], rate: LogRate) -> None:
    """Run one sidecar until its drain has ended."""
    from kafka_sidecar.proxy.runtime.allocator import configure_allocator
    from kafka_sidecar.proxy.runtime.threads import SWITCH_INTERVAL_S
    from kafka_sidecar.proxy.server import Server
    from kafka_sidecar.proxy.telemetry.metrics import Metrics

    first_signal, second_signal = asyncio.Event(), asyncio.Event()

    def stop(number: signal.Signals) -> None:
        log.info("stopping", extra={"signal": number.name})
        (second_signal if first_signal.is_set() else first_signal).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    metrics = Metrics(features=[rate.collect])
    server = Server(settings, metrics)
    server.apply(settings)
    _warn_if_slow()
    await server.start()
    admin_server, admin_address = await _start_admin(server)
    configure_allocator()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    watching = _watch(server, path, read_config)
    log.info(
        "serving",
        extra={
            "address": settings.listen,
            "admin": admin_address,
            "bootstrap_servers": settings.bootstrap_servers,
            "build": compiled.in_use(),
            "config": str(path) if path else None,
            "version": __version__,
        },
    )
    await first_signal.wait()
    watching.cancel()
    await server.drain(second_signal)
    admin_server.close()
    log.info("stopped")


def _warn_if_slow() -> None:
    """Installing without a C compiler succeeds, and nothing else says that it gives the slow build."""
    if (build := compiled.in_use()) != "compiled":
        detail = "policies and interceptors need ten to thirty times the CPU: install with a C compiler"
        log.warning("loops over records not compiled", extra={"build": build, "detail": detail})


def _watch(server: Server, path: Path | None, read_config: Callable[[], Config]) -> asyncio.Task[None]:
    """Reload the file when it changes. SIGHUP, which by default would kill, reloads it and recovers topic configs."""
    _record_reload(server.metrics, True)
    report = partial(_record_reload, server.metrics)
    reload = Reload(path, server.config, read_config, server.apply, report) if path is not None else None

    def hang_up() -> None:
        server.features.recover()
        if reload is not None:
            reload.request()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hang_up)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # see entry.py
    return spawn(reload.watch() if reload is not None else asyncio.sleep(0), "watch the configuration")


def _record_reload(metrics: Metrics, successful: bool) -> None:
    metrics.record_reload(successful, time.time())


async def _start_admin(server: Server) -> tuple[asyncio.Server, str]:
    from kafka_sidecar.proxy.admin.http import AdminServer
    from kafka_sidecar.proxy.admin.pages import Admin
    from kafka_sidecar.proxy.server import bind_socket

    configured = server.config.admin.listen
    host, port = host_port(configured or DEFAULT_ADMIN)
    try:
        bound = bind_socket(host, port)
    except OSError as error:
        if configured is not None:
            raise ConfigError(
                f"admin.listen: {configured} cannot be bound: {error.strerror or error}; choose another"
            ) from error
        bound = bind_socket(host, 0)
        log.warning("default admin port in use", extra={"address": DEFAULT_ADMIN, "port": bound.getsockname()[1]})
    admin = AdminServer(Admin(server))
    address = f"{host}:{bound.getsockname()[1]}"
    return await asyncio.get_running_loop().create_server(admin.protocol, sock=bound), address


def main() -> None:
    app()
