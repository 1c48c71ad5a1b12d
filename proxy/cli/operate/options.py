"""Options that several of these commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Principal = Annotated[str | None, typer.Option(help="Only of this principal, such as User:alice.")]
ClientId = Annotated[str | None, typer.Option(help="Only of this client id.")]
Client = Annotated[str | None, typer.Option(help="Only of this address of a client.")]
