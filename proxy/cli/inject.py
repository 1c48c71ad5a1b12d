"""The command `inject`. Exit codes: 0 success, 2 the manifest or a flag is invalid; then nothing is written."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_sidecar.deploy.container import VARIABLE, Sidecar
from kafka_sidecar.proxy.cli.output import exit_with_error, say
from kafka_sidecar.proxy.config.types import MAX_PORT, host_port

if TYPE_CHECKING:
    from kafka_sidecar.deploy.inject import Changed

Manifest = Annotated[str, typer.Argument(metavar="[FILE]", help="YAML or JSON; - for standard input.")]
Cpu = Annotated[str, typer.Option(help="CPU that is requested for the sidecar.")]
Memory = Annotated[str, typer.Option(help="Memory that is requested for the sidecar.")]
EXAMPLE = "registry.example.com/kafka-sidecar:0.1.0"
_IMAGE = re.compile(r"[^\s,]+")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|[MGTPE]|[KMGTPE]i)?")
_PULL_POLICY = re.compile("Always|IfNotPresent|Never")
_PORT = re.compile(r"[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def inject_sidecar(
    file: Manifest = "-",
    image: Annotated[str | None, typer.Option(help="The sidecar's image.")] = None,
    bootstrap_servers: Annotated[str | None, typer.Option(help="The brokers: host:port, separated by commas.")] = None,
    config_map: Annotated[str | None, typer.Option(help="ConfigMap that has kafka-sidecar.yaml.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="Variable of the application with its brokers.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="An ordinary container: Kubernetes before 1.29.")] = False,
    port: Annotated[int, typer.Option(help="Port for the application.")] = 19092,
    admin_port: Annotated[int, typer.Option(help="Port of the probes and metrics.")] = 9190,
    admin_token_secret: Annotated[
        str | None, typer.Option(help="Secret whose key token the admin port's pages need.")
    ] = None,
    pull_policy: Annotated[str | None, typer.Option(help="Always, IfNotPresent or Never.")] = None,
    cpu: Cpu = "50m",
    memory: Memory = "64Mi",
    cpu_limit: Annotated[str | None, typer.Option(help="The sidecar's limit of CPU.")] = None,
    memory_limit: Annotated[str, typer.Option(help="The sidecar's limit of memory.")] = "256Mi",
    undo: Annotated[bool, typer.Option("--remove", help="Remove the sidecar again.")] = False,
) -> None:
    """Add the sidecar to the pods of a manifest, or remove it.

    The changed manifest is written to standard output; workloads that were changed, to standard error.
    """
    if undo:
        remove_manifest(file)
        return
    limits = {"memory": memory_limit, **({"cpu": cpu_limit} if cpu_limit is not None else {})}
    sidecar = Sidecar(
        image or "",
        config_map=config_map,
        bootstrap_servers={"value": bootstrap_servers} if bootstrap_servers is not None else None,
        port=port,
        admin_port=admin_port,
        token_secret=admin_token_secret,
        is_plain=plain,
        pull_policy=pull_policy,
        resources={"requests": {"cpu": cpu, "memory": memory}, "limits": limits},
    )
    inject_manifest(file, sidecar, env)


def inject_manifest(file: str, sidecar: Sidecar, variables: Iterable[str] | None) -> None:
    """Write the manifest with the sidecar. Exits with code 2 if a flag or the manifest is invalid."""
    names = tuple(variables or [VARIABLE])
    text = _read(file)
    if mistakes := list(_mistakes(sidecar, names)):
        exit_with_error(*mistakes)
    from kafka_sidecar.deploy.inject import inject  # a megabyte

    _write(file, lambda: inject(text, sidecar, names), "injected")


def remove_manifest(file: str) -> None:
    """Write the manifest without the sidecar. Exits with code 2 if it is invalid."""
    text = _read(file)
    from kafka_sidecar.deploy.inject import remove

    _write(file, lambda: remove(text), "removed")


def _mistakes(sidecar: Sidecar, variables: tuple[str, ...]) -> Iterator[str]:
    """Flags whose value is invalid, each with what to write instead."""
    requests, limits = sidecar.resources["requests"], sidecar.resources["limits"]
    checked: list[tuple[str, str | None, re.Pattern[str], str]] = [
        ("--image", sidecar.image, _IMAGE, f"the sidecar's image, such as {EXAMPLE}"),
        ("--config-map", sidecar.config_map, _NAME, "the name of a ConfigMap"),
        ("--admin-token-secret", sidecar.token_secret, _NAME, "the name of a Secret"),
        *(("--env", variable, _VARIABLE, f"the name of a variable, such as {VARIABLE}") for variable in variables),
        ("--pull-policy", sidecar.pull_policy, _PULL_POLICY, "Always, IfNotPresent or Never"),
        ("--cpu", requests["cpu"], _QUANTITY, "a quantity, such as 100m"),
        ("--cpu-limit", limits.get("cpu"), _QUANTITY, "a quantity, such as 100m"),
        ("--memory", requests["memory"], _QUANTITY, "a quantity, such as 64Mi"),
        ("--memory-limit", limits["memory"], _QUANTITY, "a quantity, such as 64Mi"),
        ("--port", str(sidecar.port), _PORT, f"a port from 1 to {MAX_PORT}"),
        ("--admin-port", str(sidecar.admin_port), _PORT, f"a port from 1 to {MAX_PORT}"),
    ]
    for flag, value, pattern, remedy in checked:
        if value is not None and not pattern.fullmatch(value):
            yield f"{flag}: write {remedy}, in place of {value!r}"
    if sidecar.port == sidecar.admin_port:
        yield f"--admin-port: choose another than that of --port, {sidecar.port}"
    if sidecar.bootstrap_servers is not None:
        for address in str(sidecar.bootstrap_servers["value"]).split(","):
            yield from _mistakes_of_address(address.strip())


def _mistakes_of_address(address: str) -> Iterator[str]:
    try:
        host_port(address)
    except ValueError as error:
        yield f"--bootstrap-servers: {error}"


def _read(file: str) -> str:
    """The manifest, with the ends of its lines as they are."""
    try:
        return (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).decode()
    except OSError as error:
        exit_with_error(f"{file}: cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        exit_with_error(f"{_name(file)}: write it in UTF-8")


def _write(file: str, change: Callable[[], Changed], verb: str) -> None:
    from kafka_sidecar.deploy.manifest import ManifestError

    try:
        changed = change()
    except ManifestError as error:
        exit_with_error(f"{_name(file)}: {error}")
    sys.stdout.buffer.write(changed.text.encode())
    for line in [f"{pod}: {verb}" for pod in changed.pods] or ["no workload was changed"]:
        say(f"kafka-sidecar: {line}", err=True)


def _name(file: str) -> str:
    return "standard input" if file == "-" else file
