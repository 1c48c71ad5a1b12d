"""Runs commands in this process, as typer's own runner does, with the commands of a program made once."""

from __future__ import annotations

from functools import cache
from typing import Any
from unittest.mock import patch

import typer.main
import typer.testing

# They keep nothing from call to call, and ours take 15 ms to make: longer than most of them run.
commands_of = cache(typer.main.get_command)


class CliRunner(typer.testing.CliRunner):
    """Types words, and has what was printed and the exit code."""

    def invoke(self, app: typer.Typer, *words: Any, **more: Any) -> typer.testing.Result:
        with patch.object(typer.testing, "_get_command", commands_of):
            return super().invoke(app, *words, **more)
