"""Faults of composition on purpose, each in a sidecar of its own: `make mutations` says which run finds it."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "KAFKA_SIDECAR_MUTATION"


def asked_for() -> str:
    """The name of the mutation with which the sidecars of this test run are started; empty: none."""
    return os.environ.get(VARIABLE, "")


def command(name: str, folder: Path) -> Path:
    """A program that is the sidecar with this fault."""
    raise NotImplementedError(name, folder)
