"""What the command `inject` does: flags checked, a manifest read, changed and written."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import typer

from kafka_sidecar.deploy.container import Sidecar as Sidecar
from kafka_sidecar.deploy.inject import VARIABLE, Changed, inject, remove
from kafka_sidecar.deploy.yaml_tree import ManifestError
from kafka_sidecar.proxy.cli.plugin_list import exit_with_error
from kafka_sidecar.proxy.config.types import MAX_PORT, host_port

EXAMPLE = "registry.example.com/kafka-sidecar:0.1.0"
_IMAGE = re.compile(r"[^\s,]+")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|[MGTPE]|[KMGTPE]i)?")
_PULL_POLICY = re.compile("Always|IfNotPresent|Never")
_PORT = re.compile(r"[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def inject_manifest(file: str, sidecar: Sidecar, variables: Iterable[str] | None) -> None:
    """Write the manifest with the sidecar. Exits with code 2 if a flag or the manifest is invalid."""
    names = tuple(variables or [VARIABLE])
    text = _read(file)
    if mistakes := list(_mistakes(sidecar, names)):
        exit_with_error(*mistakes)
    _write(file, lambda: inject(text, sidecar, names), "injected")


def remove_manifest(file: str) -> None:
    """Write the manifest without the sidecar. Exits with code 2 if it is invalid."""
    text = _read(file)
    _write(file, lambda: remove(text), "removed")


def _mistakes(sidecar: Sidecar, variables: tuple[str, ...]) -> Iterator[str]:
    """Flags whose value is invalid, each with what to write instead."""
    requests, limits = sidecar.resources["requests"], sidecar.resources["limits"]
    checked: list[tuple[str, str | None, re.Pattern[str], str]] = [
        ("--image", sidecar.image, _IMAGE, f"the sidecar's image, such as {EXAMPLE}"),
        ("--config-map", sidecar.config_map, _NAME, "the name of a ConfigMap"),
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
    try:
        changed = change()
    except ManifestError as error:
        exit_with_error(f"{_name(file)}: {error}")
    sys.stdout.buffer.write(changed.text.encode())
    for line in [f"{pod}: {verb}" for pod in changed.pods] or ["no workload was changed"]:
        typer.echo(f"kafka-sidecar: {line}", err=True)


def _name(file: str) -> str:
    return "standard input" if file == "-" else file
