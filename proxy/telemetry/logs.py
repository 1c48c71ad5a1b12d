"""JSON log lines on stdout, and the list of keys that they may carry.

The message is the event, the keys are its details. Never payload bytes.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime

from kafka_sidecar.proxy.telemetry.log_rate import LogRate

# Every key of a line besides timestamp, level, logger and message; a test compares the calls with this list.
KEYS = frozenset(
    {
        "address",  # host:port of a listener, or of a broker that could not be reached
        "admin",  # host:port of /metrics, /rejections, /livez and /readyz
        "api",  # of a batch that is not intercepted
        "bootstrap_servers",
        "build",  # of the hot loops: compiled, python or partly compiled
        "bytes_from_broker",
        "bytes_from_client",
        "cause",  # reason for the end of a connection: a label value of kafka_sidecar_disconnects_total
        "client",  # host:port of the client
        "client_id",
        "client_software",  # name and version, from ApiVersions (KIP-511)
        "config",  # path of the configuration file
        "connections",  # that are open
        "detail",  # a readable explanation
        "drain_timeout_s",
        "duration_s",  # of a connection, or of a call of an interceptor
        "events",  # of the audit
        "failures",  # of an interceptor, in a row
        "hook",  # of an interceptor or auditor
        "in_flight",  # requests without a response when the connection ended
        "index",  # of the first rejected record in its batch; -1: the batch as a whole
        "interceptor",
        "stuck",  # threads whose work does not end
        "suppressed",  # lines of this kind that were rate-limited since the last one
        "suppressed_in_all",  # lines of any kind, because of log.max_rate
        "listener",  # "bootstrap" or "node N"
        "mode",  # enforce or shadow; open: the policy failed and has on_error: open
        "node",  # node id of a broker
        "partition",
        "pause_s",  # for which an interceptor is disabled
        "policy",
        "port",
        "reason",  # of a rejection, a short fixed word
        "rejected_records",  # of the batch
        "requests",
        "responses",
        "session",  # number of the connection, unique in this process
        "settings",  # changed since the start
        "signal",
        "task",
        "topic",
        "topics",  # entries of the configuration's topics:
        "version",
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
        line.update((key, _cut(value)) for key, value in vars(record).items() if key in KEYS and value is not None)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _cut(value: object) -> object:
    return value[:MAX_VALUE_CHARS] if isinstance(value, str) else value


def timestamp(seconds: float) -> str:
    """Seconds since the epoch in ISO 8601, UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def configure(level: str, max_rate: float = 100) -> LogRate:
    """Write JSON lines of ``level`` ("debug", "info", "warning", "error") and above to stdout.

    Returns the limit of ``max_rate`` lines a second, which has counted the suppressed ones.
    """
    output, rate = logging.StreamHandler(sys.stdout), LogRate(max_rate, time.monotonic)
    output.setFormatter(JsonLines())
    output.addFilter(rate)
    logging.basicConfig(level=level.upper(), handlers=[output], force=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    return rate
