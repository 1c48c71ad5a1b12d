"""JSON log lines on stdout, and the list of keys that they may carry.

The message says what happened, the keys say to whom. Never payload bytes.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

# Every key that a line may carry beside timestamp, level, logger and message; a test compares calls with this list.
KEYS = frozenset(
    {
        "address",  # host:port of a listener or of what could not be reached
        "admin",  # host:port of /metrics, /refusals, /livez and /readyz
        "api",  # of a batch that is not intercepted
        "bootstrap_servers",
        "build",  # compiled, python or partly compiled: what runs the hot loops
        "bytes_from_broker",
        "bytes_from_client",
        "cause",  # why a connection ended: a label value of kafka_sidecar_disconnects_total
        "client",  # host:port of the client
        "client_id",
        "client_software",  # name and version, from ApiVersions (KIP-511)
        "config",  # path of the configuration file
        "detail",  # one sentence for a person
        "drain_timeout_s",
        "duration_s",
        "failures",  # of an interceptor, in a row
        "hook",  # of an interceptor
        "in_flight",  # requests that had no answer when the connection ended
        "index",  # of the first refused record in its batch; -1: the batch as a whole
        "interceptor",
        "left_out",  # lines of this kind that were not written since the last one
        "listener",  # "bootstrap" or "node N"
        "mode",  # enforce or shadow; open: a policy that failed let pass
        "node",  # node id of a broker
        "partition",
        "pause_s",  # for which an interceptor is left out
        "policy",
        "port",
        "reason",  # of a refusal, one of few words
        "refused_records",  # of the batch
        "requests",
        "responses",
        "seconds",  # that a call took
        "session",  # number of the connection, unique in this process
        "sessions",  # how many are open
        "settings",  # that are not as they were at the start
        "signal",
        "task",
        "topic",
        "topics",  # entries of the configuration's topics:
        "version",
    }
)


class JsonLines(logging.Formatter):
    """One JSON object per record; keys passed in ``extra`` become keys of the object."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update((key, value) for key, value in vars(record).items() if key in KEYS and value is not None)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(level: str) -> None:
    """Write JSON lines of ``level`` ("debug", "info", "warning", "error") and above to stdout."""
    output = logging.StreamHandler(sys.stdout)
    output.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[output], force=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
