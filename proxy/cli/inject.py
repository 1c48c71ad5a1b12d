"""The command `inject`. Exit codes: 0 success, 2 the manifest or a flag is invalid; then nothing is written."""

from __future__ import annotations

from typing import Annotated

import typer

Manifest = Annotated[str, typer.Argument(metavar="[FILE]", help="YAML or JSON; - for standard input.")]
Cpu = Annotated[str, typer.Option(help="CPU that is requested for the sidecar.")]
Memory = Annotated[str, typer.Option(help="Memory that is requested for the sidecar.")]


def inject_sidecar(
    file: Manifest = "-",
    image: Annotated[str | None, typer.Option(help="The sidecar's image.")] = None,
    bootstrap_servers: Annotated[str | None, typer.Option(help="The brokers: host:port, separated by commas.")] = None,
    config_map: Annotated[str | None, typer.Option(help="ConfigMap that has kafka-sidecar.yaml.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="Variable of the application with its brokers.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="An ordinary container: Kubernetes before 1.29.")] = False,
    port: Annotated[int, typer.Option(help="Port for the application.")] = 19092,
    admin_port: Annotated[int, typer.Option(help="Port of the probes and metrics.")] = 9190,
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
    from kafka_sidecar.proxy.cli.injection import Sidecar, inject_manifest, remove_manifest  # a megabyte

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
        is_plain=plain,
        pull_policy=pull_policy,
        resources={"requests": {"cpu": cpu, "memory": memory}, "limits": limits},
    )
    inject_manifest(file, sidecar, env)
