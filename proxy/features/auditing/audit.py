"""An auditor in a running sidecar: opened, started, its events sent to the audit topic, closed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from kafka_sidecar.audit.contract import Auditor, BatchAuditor, RecordCalls
from kafka_sidecar.audit.event_auditor import EventAuditor
from kafka_sidecar.audit.outbox import Outbox
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.auditing.counting import Counting
from kafka_sidecar.proxy.features.auditing.fetch import fetch_tap
from kafka_sidecar.proxy.features.auditing.from_config import open_auditor, writer
from kafka_sidecar.proxy.features.auditing.groups import MEMBERS, CommitTap, GroupTap
from kafka_sidecar.proxy.features.auditing.produce import produce_tap
from kafka_sidecar.proxy.features.auditing.sender import Sender, Spool
from kafka_sidecar.proxy.features.auditing.share_fetch import share_acknowledge_tap, share_fetch_tap
from kafka_sidecar.proxy.features.feature import Feature, Site
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.watch import Tap
from kafka_sidecar.proxy.runtime.tasks import spawn
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess
from kafka_sidecar.proxy.telemetry.metrics import Family, counter, gauge

log = logging.getLogger(__name__)

MIN_FLUSH_S = 1.0  # for the last events, however little of the drain is left
LIFE = "(start or close)"  # in place of an API
MAX_BUFFERED_EVENTS = 1_000_000

TAPS: dict[int, Callable[[Counting, int, int], Tap]] = {
    ApiKey.PRODUCE: produce_tap,
    ApiKey.FETCH: fetch_tap,
    ApiKey.OFFSET_COMMIT: CommitTap,
    ApiKey.TXN_OFFSET_COMMIT: CommitTap,
    **dict.fromkeys(MEMBERS, GroupTap),
    ApiKey.SHARE_FETCH: share_fetch_tap,
    ApiKey.SHARE_ACKNOWLEDGE: share_acknowledge_tap,
}


def tap(counting: Counting, key: int, version: int) -> Tap | None:
    """The tap of this API and version; None: it is not audited."""
    make = TAPS.get(key)
    return make(counting, key, version) if make is not None else None


class Audit(Feature):
    """What counts the batches of a sidecar."""

    def __init__(
        self,
        config: Config,
        names: TopicNameCache,
        auditor: Auditor | None = None,
        access: BrokerAccess = BrokerAccess(),  # noqa: B008 - a value
    ) -> None:
        """Open the configured auditor. Raises ConfigError if it cannot be opened."""
        settings = config.audit
        self._opened = auditor or open_auditor(config)
        # One that takes no batches gets li's calls.
        self.auditor = self._opened if isinstance(self._opened, BatchAuditor) else RecordCalls(self._opened)
        self._names = names
        self.counting = Counting(
            self.auditor, names.name_of, self.includes, self._request_name,
            id_of=names.last_id_of, bucket_ms=settings.auditor_bucket_ms,
        )  # fmt: skip
        names.on_id = self.counting.topics.learn
        self._topics = tuple(settings.topics) or ("*",)
        self._excluded = (*settings.exclude_topics, *filter(None, (settings.topic,)))
        self.outbox = Outbox(config.share(settings.max_buffered), MAX_BUFFERED_EVENTS, self._wake)
        self.sender: Sender | None = None
        if isinstance(self._opened, EventAuditor):
            self._opened.emit = self.outbox.add
            self.sender = Sender(self.outbox, writer(config, access))
            self.sender.on_empty = self._all_sent
        spool_file = config.own_file(settings.spool_file)
        self._spool = None if spool_file is None else Spool(spool_file)
        self._loop: asyncio.AbstractEventLoop | None = None

    def tap(self, key: int, version: int) -> Tap | None:
        """The tap of this API and version; None: it is not audited."""
        return tap(self.counting, key, version)

    def families(self) -> Iterable[Family]:
        return collect(self)

    def state(self) -> Mapping[str, Any]:
        outbox, sender, spool = self.outbox, self.sender, self._spool
        state: dict[str, Any] = {"auditor": type(self.auditor).__name__, "intervals": outbox.intervals}
        if sender is None:
            return state
        return {
            **state,
            "buffered_events": outbox.events + sender.in_flight,
            "buffered_bytes": outbox.bytes,
            "oldest_seconds": round(self._oldest_s(sender), 3),
            "spooled_events": spool.events if spool is not None else None,
            "spooled_bytes": spool.bytes if spool is not None else None,
            "discarded_events": outbox.discarded + sender.too_large,
            "sent_events": sender.sent,
            "failure": sender.failure,
        }

    def _oldest_s(self, sender: Sender) -> float:
        """Age of the oldest event that is not sent, in seconds."""
        at = self.outbox.taken_at if sender.in_flight else self.outbox.oldest_at
        return 0.0 if at is None else max(0.0, time.time() - at)

    def topic_state(self, name: str) -> Mapping[str, Any]:
        return {"audited": self.includes(name)}

    def includes(self, topic: str) -> bool:
        """Whether the batches of a topic are audited. Those of the audit topic never are."""
        return matches(topic, self._topics) and not matches(topic, self._excluded)

    async def start_up(self) -> None:
        """Send what an earlier process could not send, then count."""
        self._loop = asyncio.get_running_loop()
        if self.sender is not None:
            if self._spool is not None and (values := self._spool.load()):
                log.info("audit spool read", extra={"events": self.outbox.restore(values, self._spool.saved_at)})
            self.sender.start()
        self._call(self.auditor.start)
        self.counting.call_later = self._loop.call_later

    async def shut_down(self, within_s: float) -> None:
        """Stop counting and send the last events; those that cannot be sent are spooled."""
        self.counting.call_later = None
        self.counting.flush_pending()
        within_s = max(within_s, MIN_FLUSH_S)
        end = time.monotonic() + within_s
        await asyncio.to_thread(self._call, lambda: self.auditor.close(within_s))
        if self.sender is None:
            return
        unsent = await self.sender.finish(max(end - time.monotonic(), MIN_FLUSH_S))
        if not unsent:
            return
        if self._spool is not None and self._spool.save(event.value for event in unsent):
            log.info("audit events spooled", extra={"events": len(unsent)})
        else:
            log.error("audit events lost", extra={"events": len(unsent)})

    def _call(self, method: Callable[[], None]) -> None:
        """An auditor that fails does not stop the sidecar."""
        try:
            method()
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            self.counting.stats.failed(LIFE, error)

    def _request_name(self, topic_id: bytes, done: Callable[[], None]) -> None:
        spawn(self._learn_name(topic_id, done), "request the name of an audited topic")

    async def _learn_name(self, topic_id: bytes, done: Callable[[], None]) -> None:
        try:
            with suppress(OSError, CodecError):
                await self._names.resolve([topic_id])
        finally:
            done()

    def _wake(self) -> None:
        """Called in the auditor's thread."""
        if self.sender is not None and self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the auditor took longer to close than it may
                self._loop.call_soon_threadsafe(self.sender.wake)

    def _all_sent(self) -> None:
        if self._spool is not None and self._spool.events:
            self._spool.remove()


def collect(audit: Audit) -> Iterator[Family]:
    """All metrics of auditing."""
    stats = audit.counting.stats
    yield counter("audit_uncounted", "Frames that were not counted", stats.uncounted, "api_key", "reason")
    yield counter("audit_unnamed_batches", "Batches of topics whose name is not known", stats.unnamed)
    outbox, sender = audit.outbox, audit.sender
    if sender is None:
        return
    yield counter("audit_intervals", "Reporting intervals that have ended", outbox.intervals)
    yield counter("audit_events_sent", "Events that Kafka has acknowledged", sender.sent)
    discarded = {"buffer_full": outbox.discarded, "too_large": sender.too_large}
    yield counter("audit_events_discarded", "Events that were discarded", discarded, "reason")
    yield counter("audit_send_failures", "Attempts to send that failed", sender.failures)
    yield gauge("audit_buffered_events", "Events that are not sent yet", outbox.events + sender.in_flight)
    yield gauge("audit_buffered_bytes", "Bytes of the events in the buffer", outbox.bytes)


def feature(site: Site) -> Feature:
    """As `compose.FEATURES` says: the auditor of the start."""
    return Audit(site.config, site.topics, access=site.access)
