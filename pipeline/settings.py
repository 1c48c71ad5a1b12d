"""The configuration of a command of the pipeline, and what has to be installed for it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from kafka_sidecar.proxy.cli.output import exit_with_error
from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.config.mistakes import ConfigError

EXTRA = ("pyspark", "pyarrow", "pandas", "numpy", "matplotlib")


def load_config(path: Path | None, flags: dict[str, object], modules: Sequence[str] = EXTRA) -> Config:
    """The configuration; exits with code 2 and the remedy if it is invalid, or if an extra is not installed."""
    if missing := [name for name in modules if find_spec(name) is None]:
        extras = "pipeline,schemas" if modules != EXTRA else "pipeline"
        exit_with_error(f"pipeline: {', '.join(missing)} not installed; in a clone, pip install '.[{extras}]'")
    try:
        return load(path, os.environ, flags)
    except ConfigError as error:
        exit_with_error(*error.lines)
