"""The trail of topic configs: a log line for each that a client has changed, and their number."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafka_sidecar.proxy.exchanges.rejections import ANONYMOUS
from kafka_sidecar.proxy.relay.exchange import Client

log = logging.getLogger(__name__)


def note_changes(client: Client, topic: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Write who has changed what; returns the names of the configs."""
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    for name in changed:
        log.info(
            "topic config changed",
            extra={
                "topic": topic,
                "config": name,
                "before": before.get(name),
                "after": after.get(name),
                "principal": client.principal or ANONYMOUS,
                "client_id": client.client_id,
                "session": client.number,
            },
        )
    return changed
