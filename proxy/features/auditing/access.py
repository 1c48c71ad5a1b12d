"""Who was allowed or denied what, as events in a topic of their own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka_sidecar.audit.access import AccessEvents, Who
from kafka_sidecar.codec.apis import APIS
from kafka_sidecar.proxy.exchanges.messages import ANONYMOUS
from kafka_sidecar.proxy.features.auditing.from_config import emitter_id, topic_writer
from kafka_sidecar.proxy.features.auditing.sender import Sender
from kafka_sidecar.proxy.features.feature import Decided, Feature, Site
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.telemetry.metrics import Family, counter, gauge

log = logging.getLogger(__name__)

MIN_FLUSH_S = 1.0  # for the last events, however little of the drain is left


class AccessAudit(Feature):
    """The events of one process, and what sends them."""

    def __init__(self, site: Site) -> None:
        audit = site.config.audit
        assert audit.access_topic is not None  # see the section
        labels = {"emitter_id": emitter_id(site.config), "cluster": audit.cluster, "dc": audit.dc, "app": audit.app}
        self.events = AccessEvents(labels, time.time, self._wake)
        self.sender = Sender(self.events, topic_writer(site.config, audit.access_topic, site.access))
        self._loop: asyncio.AbstractEventLoop | None = None
        site.decided = Decided(self._decided, audit.access == "all")

    async def start_up(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.sender.start()

    async def shut_down(self, within_s: float) -> None:
        """Send the last events; those that cannot be sent are lost, and counted."""
        if unsent := await self.sender.finish(max(within_s, MIN_FLUSH_S)):
            self.events.discarded["not_sent"] += len(unsent)
            log.error("access events lost", extra={"events": len(unsent)})

    def families(self) -> Iterable[Family]:
        sender = self.sender
        discarded = {"buffer_full": 0, **self.events.discarded, "too_large": sender.too_large}
        yield counter("access_events_sent", "Access events that Kafka has acknowledged", sender.sent)
        yield counter("access_events_discarded", "Access events that were discarded", discarded, "reason")
        yield counter("access_send_failures", "Attempts to send access events that failed", sender.failures)
        yield gauge("access_buffered_bytes", "Bytes of access events in the buffer", self.events.bytes)

    def state(self) -> Mapping[str, Any]:
        return {
            "buffered_bytes": self.events.bytes,
            "discarded_events": self.events.discarded.total() + self.sender.too_large,
            "sent_events": self.sender.sent,
            "failure": self.sender.failure,
        }

    def _decided(self, key: int, found: Sequence[tuple[str, str, str]], is_allowed: bool, client: Client) -> None:
        """In any thread."""
        who = Who(
            client.number, client.principal or ANONYMOUS, client.host, client.client_id, client.client_software
        )  # fmt: skip
        self.events.add(APIS[key].name, found, is_allowed, who)

    def _wake(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.sender.wake)


def feature(site: Site) -> Feature:
    """As `compose.FEATURES` says."""
    return AccessAudit(site)
