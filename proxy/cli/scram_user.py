"""The command `scram-user`: lines for the file of users that log in to the sidecar."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

_NAME = re.compile(r"[^\s=#,][^\s=,]*")


def print_scram_user(
    name: Annotated[str, typer.Argument(help="The user's name.")],
    iterations: Annotated[int, typer.Option(min=4096, max=16384, help="Iterations of the hash.")] = 4096,
) -> None:
    """Print a user's lines for clients.sasl.users_file.

    The password is asked for, or read from standard input, and is not in the lines.
    """
    from kafka_sidecar.proxy.security.sasl.scram import HASHES
    from kafka_sidecar.proxy.security.sasl.users import create_verifier, format_user

    if not _NAME.fullmatch(name):
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
