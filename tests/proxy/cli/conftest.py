from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kafka_sidecar.proxy.telemetry.log_limiter import QUOTING


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """`run` sets up the root logger of the process, which is this one where a test calls it through CliRunner."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    QUOTING.setLevel(logging.NOTSET)
