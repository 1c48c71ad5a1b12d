"""Log output: to stdout, from a level on, at a limited rate, as JSON lines or as text for people."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from datetime import datetime
from typing import Literal, TextIO

from kafka_sidecar.proxy.telemetry.log_limiter import QUOTING, LogRate
from kafka_sidecar.proxy.telemetry.logs import JsonLines, fields_of, without_controls

Format = Literal["auto", "json", "text"]
PREFIX = "kafka_sidecar."
_PLAIN = re.compile(r"[\w.:/@+\-\[\]]+")
_COLOURS = {"debug": "2", "warning": "33", "error": "31"}  # of ANSI terminals; info has none


class TextLines(logging.Formatter):
    """Time, level, message, keys, and the logger without the package's name. Values cannot break a line."""

    def __init__(self, is_coloured: bool) -> None:
        super().__init__()
        self._is_coloured = is_coloured

    def format(self, record: logging.LogRecord) -> str:
        level = record.levelname.lower()
        time = datetime.fromtimestamp(record.created).astimezone().isoformat(" ", "milliseconds")
        keys = " ".join(f"{name}={_shown(value)}" for name, value in fields_of(record).items())
        head = f"{time} {level.upper():7} {_shown_message(record)}"
        text = f"{head}  {keys}  [{record.name.removeprefix(PREFIX)}]" if keys else f"{head}  [{record.name}]"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        colour = _COLOURS.get(level) if self._is_coloured else None
        return f"\x1b[{colour}m{text}\x1b[0m" if colour else text

    def formatException(self, ei: object) -> str:  # noqa: N802 - of logging.Formatter
        """Indented, and without control characters."""
        lines = super().formatException(ei).splitlines()  # type: ignore[arg-type]
        return "\n".join("    " + without_controls(line) for line in lines)


def formatter(wanted: Format, output: TextIO) -> logging.Formatter:
    """What writes lines to ``output``: auto is text on a terminal, JSON elsewhere."""
    is_terminal = output.isatty()
    if wanted == "json" or (wanted == "auto" and not is_terminal):
        return JsonLines()
    return TextLines(is_coloured=is_terminal and not os.environ.get("NO_COLOR"))


def _shown_message(record: logging.LogRecord) -> str:
    return without_controls(record.getMessage())


def _shown(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return json.dumps(value, default=str)


def configure(level: str, max_rate: float = 100, worker: int | None = None, wanted: Format = "json") -> LogRate:
    """Write lines of ``level`` ("debug", "info", "warning", "error") and above to stdout.

    Returns the limit of ``max_rate`` lines a second, which has counted the suppressed ones. ``worker``: its number, in
    every line.
    """
    output, rate = logging.StreamHandler(sys.stdout), LogRate(max_rate, time.monotonic)
    output.setFormatter(formatter(wanted, sys.stdout))
    output.addFilter(rate)
    if worker is not None:
        output.addFilter(lambda record: record.__dict__.setdefault("worker", worker) is not None)
    logging.basicConfig(level=level.upper(), handlers=[output], force=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    # Of its own: a level that is changed while the sidecar runs must not make lines quote records.
    QUOTING.setLevel(logging.DEBUG if level == "debug" else logging.WARNING)
    return rate
