"""Log lines to stdout, from a level on and at a limited rate, as JSON or as text for people; all keys of lines.

The message is the event, the keys are its details. Never payload bytes.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from datetime import UTC, datetime
from typing import Literal, TextIO

from kafka_sidecar.proxy.telemetry.log_limiter import QUOTING, LogRate

# Every key of a line besides timestamp, level, logger and message; a test compares the calls with this list.
KEYS = frozenset(
    {
        "address",  # host:port of a listener, or of a broker that could not be reached
        "admin",  # host:port of metrics, probes and pages for operators
        "api",  # of a batch that is not intercepted
        "bootstrap_servers",
        "build",  # of the hot loops: compiled, python or partly compiled
        "bytes",  # of dead letters on disk
        "bytes_from_broker",
        "bytes_from_client",
        "cause",  # reason for the end of a connection: a label value of kafka_sidecar_disconnects_total
        "client",  # host:port of the client
        "client_id",
        "before",  # of a topic config
        "after",
        "changed",  # sections of the configuration
        "client_software",  # name and version, from ApiVersions (KIP-511)
        "config",  # path of the configuration file
        "connections",  # that are open
        "dead_letter_topic",  # for records that a policy rejects
        "detail",  # a readable explanation
        "drain_timeout_s",
        "duration_s",  # of a connection, or of a call of an interceptor
        "events",  # of the audit
        "failures",  # of an interceptor, in a row
        "hook",  # of an interceptor or auditor
        "in_flight",  # requests without a response when the connection ended
        "index",  # of the first rejected record in its batch; -1: the batch as a whole
        "interceptor",
        "stack",  # where a thread is: file, line and function, the innermost last
        "stuck",  # threads whose work does not end
        "suppressed",  # lines of this kind that were rate-limited since the last one
        "suppressed_in_all",  # lines of any kind, because of log.max_rate
        "limit",  # the name of a rate limit
        "last_requests",  # of a connection that ended by an error: one text for each
        "letters",  # dead letters
        "listener",  # "bootstrap" or "node N"
        "mode",  # enforce or shadow; open: the policy failed and has on_error: open
        "node",  # node id of a broker
        "offset",  # of a record
        "operation",  # Kafka's AclOperation
        "partition",
        "pause_s",  # for which an interceptor is disabled
        "policy",
        "pid",  # of a worker
        "port",
        "principal",  # of a client that has logged in
        "reason",  # of a rejection, a short fixed word
        "rejected_records",  # of the batch
        "rejection",  # id for `kafka-sidecar explain`
        "requests",
        "resource",  # name of a topic, group or transactional id that a client may not use
        "resource_type",
        "responses",
        "session",  # number of the connection, unique in this process
        "settings",  # changed since the start
        "signal",
        "task",
        "throttle_s",  # for how long a client must wait until it owes nothing
        "topic",
        "topics",  # entries of the configuration's topics:
        "version",
        "worker",  # number of the process that wrote the line, or that it is about
        "workers",
    }
)


MAX_VALUE_CHARS = 1000  # clients choose some values, such as their client id


class JsonLines(logging.Formatter):
    """One JSON object per record; keys passed in ``extra`` become keys of the object."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "timestamp": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(fields_of(record))
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The keys of a line."""
    return {key: _cut(value) for key, value in vars(record).items() if key in KEYS and value is not None}


def _cut(value: object) -> object:
    return value[:MAX_VALUE_CHARS] if isinstance(value, str) else value


def timestamp(seconds: float) -> str:
    """Seconds since the epoch in ISO 8601, UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def without_controls(text: str) -> str:
    """A text for a terminal: what is not printable is escaped.

    >>> print(without_controls("app\\x1b[2J"))
    app\\x1b[2J
    """
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


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
