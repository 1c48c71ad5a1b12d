"""What commands print: text without control characters, whoever has chosen the names in it."""

from __future__ import annotations

import typer

from kafka_sidecar.proxy.telemetry.logs import without_controls


def say(*lines: str, err: bool = False) -> None:
    """Print lines. A name in one cannot move the cursor, set a title or look like a line of its own."""
    typer.echo("\n".join(map(without_controls, lines)), err=err)
