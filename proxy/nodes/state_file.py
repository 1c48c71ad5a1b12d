"""The addresses of brokers in a file, across restarts (setting nodes.state_file).

If brokers require SASL, the sidecar cannot request metadata and learns of brokers only from the responses to clients.
After a restart, a client that still has node N's port could not connect, and old clients never request metadata again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path

log = logging.getLogger(__name__)

Broker = tuple[int, str, int]  # node id, host, port


def load(path: Path) -> list[Broker]:
    """The brokers in the file; none if it does not exist yet or is unreadable, which is logged."""
    try:
        brokers = json.loads(path.read_text(encoding="utf-8"))["brokers"]
        return [(int(node), str(host), int(port)) for node, host, port in brokers]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        log.warning("state file unreadable", extra={"detail": f"{path}: {error!r}"})
        return []


def save(path: Path, brokers: Iterable[Broker]) -> None:
    """Replace the file atomically; a failure is logged only."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(json.dumps({"brokers": sorted(brokers)}), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        log.warning("state file not written", extra={"detail": f"{path}: {error.strerror or error}"})
