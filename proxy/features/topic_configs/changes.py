"""What clients have set, and what they were refused to set: counted, and written as log lines.

Refusals are those of the sidecar; what the broker refuses is in its answer alone.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.proxy.exchanges.messages import ANONYMOUS, Rejection
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter
from kafka_sidecar.proxy.telemetry.metrics import Family, counter

log = logging.getLogger(__name__)

LOG_INTERVAL_S = 10.0  # for one principal and topic
MAX_NAMED = 20  # refusals of one request that are written; all are counted
MAX_NAME_CHARS = 249  # of what clients choose
INVALID, FAILED = "invalid", "failed"


class Changes:
    """Those of one process."""

    def __init__(self, configs: Iterable[str], clock: Callable[[], float]) -> None:
        self.stored = Counter(dict.fromkeys(configs, 0))  # by config
        self.refused = Counter({INVALID: 0, FAILED: 0})  # topics, by reason
        self._lines = LogLimiter(LOG_INTERVAL_S, clock)

    def note(self, client: Client, topic: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """A topic's own configs, before and after a change that is stored."""
        for name in sorted({*before, *after}):
            if before.get(name) == after.get(name):
                continue
            self.stored[name] += 1
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

    def refuse(self, client: Client, refused: Sequence[tuple[str, Rejection]]) -> None:
        """Topics whose configs a request could not set, and why."""
        invalid = sum(why.error_code != ErrorCode.UNKNOWN_SERVER_ERROR for _, why in refused)
        self.refused[INVALID] += invalid
        self.refused[FAILED] += len(refused) - invalid
        who = (client.principal or ANONYMOUS)[:MAX_NAME_CHARS]
        for topic, why in refused[:MAX_NAMED]:
            name = topic[:MAX_NAME_CHARS]
            if (suppressed := self._lines.due(("topic config refused", who, name))) is not None:
                log.warning(
                    "topic config refused",
                    extra={
                        "topic": name,
                        "detail": why.message,
                        "principal": who,
                        "client_id": client.client_id,
                        "session": client.number,
                        "suppressed": suppressed,
                    },
                )
        if len(refused) > MAX_NAMED:
            self._lines.hold(len(refused) - MAX_NAMED)

    def families(self) -> Iterable[Family]:
        """Their metrics."""
        yield counter("topic_config_changes", "Changes of clients that were stored", dict(self.stored), "config")
        about = "Topics whose configs clients could not set"
        yield counter("topic_config_refusals", about, dict(self.refused), "reason")
