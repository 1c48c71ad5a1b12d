"""Dead letters in a running sidecar: rejected records are copied, kept and sent, whatever clients and brokers do."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol

from kafka_sidecar.dead_letters.buffer import Buffer, Rate
from kafka_sidecar.dead_letters.parcels import Parcel
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.features.dead_letters.from_config import Targets, entries_of, find_mistakes, reserved_topics
from kafka_sidecar.proxy.features.dead_letters.held import HeldLanes, Lane
from kafka_sidecar.proxy.features.dead_letters.keeper import Keeper, LetterStats, Rates
from kafka_sidecar.proxy.features.dead_letters.spool import Spool
from kafka_sidecar.proxy.features.dead_letters.store import Store
from kafka_sidecar.proxy.features.feature import Feature, Site
from kafka_sidecar.proxy.features.refused import RefusedBatch
from kafka_sidecar.proxy.runtime.sending import Sender, Writer
from kafka_sidecar.proxy.runtime.tasks import spawn, stop
from kafka_sidecar.proxy.telemetry.metrics import Family, counter, gauge

log = logging.getLogger(__name__)

WRITER_MODULE = "kafka_sidecar.proxy.features.dead_letters.kafka_topics"
MIN_FLUSH_S = 1.0  # for the last letters, however little of the drain is left
MAX_NAMED = 50  # partitions, of those that take nothing
CHECK_S = 30.0  # how often it is looked whether topics exist that do not


class LetterWriter(Writer[Parcel], Protocol):
    """The dead letter topics."""

    @property
    def unsent(self) -> list[Parcel] | None:
        """What a call of `write` has left that did not end; None: there is no such call."""
        ...

    async def check(self, names: Iterable[str]) -> dict[str, str]: ...


class _Lines:
    def not_sent(self, detail: str) -> None:
        log.warning("dead letters not sent, they are kept", extra={"detail": detail})

    def sent_again(self) -> None:
        log.info("dead letters are sent again")

    def crashed(self, error: Exception) -> None:
        log.error("dead letter sender crashed: this is a bug", exc_info=error)


class DeadLetters(Feature):
    """The letters of one process."""

    def __init__(self, site: Site) -> None:
        self._site = site
        config = site.config
        self.stats = LetterStats(time.time)
        self.targets = Targets()
        self._config = config
        section = config.dead_letters
        folder = config.own_file(section.spool_folder)
        spool = None if folder is None else Spool(folder, config.share(section.max_spooled))
        self.lanes = HeldLanes(self._wake)
        self.store = Store(Buffer(config.share(section.max_buffered)), spool, self._wake, self.lanes)
        self.store.held.on_over = _log_over
        self.sender: Sender[Parcel] = Sender(
            self.store, self._writer, _Lines(), "send dead letters", imports=WRITER_MODULE
        )
        self.store.is_failing = self.sender.is_failing
        self.store.being_sent = lambda: self.sender.being_sent
        self._rates = Rates(
            Rate(config.share(section.max_records_rate), time.monotonic),
            Rate(config.share(section.max_bytes_rate), time.monotonic),
        )
        self._keeper = Keeper(self.store.add, self._rates, self.stats)
        self._made: LetterWriter | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_begun = False
        self._starting: asyncio.Task[None] | None = None
        self._checking: list[asyncio.Task[None]] = []
        self.missing: dict[str, str] = {}  # dead letter topics that cannot be used, and why
        site.letters = self

    # What validation calls, in any thread.

    def topic_of(self, topic: str, is_enforced: bool) -> str | None:
        target = self.targets.of(topic)
        return target.topic if target is not None and (is_enforced or target.shadow) else None

    def turns_away(self, batch: RefusedBatch) -> bool:
        target = self.targets.of(batch.topic)
        return target is None or self._keeper.turns_away(batch, target)

    def keep(self, batch: RefusedBatch) -> None:
        batch.is_kept = True
        target = self.targets.of(batch.topic)
        if target is not None:
            self._keeper.keep(batch, target)

    def missed(self, topic: str, records: int, reason: str) -> None:
        target = self.targets.of(topic)
        self.stats.drop(topic, target.topic if target is not None else None, reason, records)

    # The life of a feature.

    def load(self, config: Config) -> Callable[[], None]:
        if mistakes := list(find_mistakes(config)):
            raise ConfigError(mistakes[0].text)
        return partial(self._apply, config, Targets(entries_of(config), reserved_topics(config)))

    def _apply(self, config: Config, targets: Targets) -> None:
        section = config.dead_letters
        self._config = config
        self.targets = targets
        self._rates.records.change(config.share(section.max_records_rate))
        self._rates.bytes.change(config.share(section.max_bytes_rate))
        self.store.buffer.max_bytes = config.share(section.max_buffered)
        if self.store.spool is not None:
            self.store.spool.max_bytes = config.share(section.max_spooled)
        with suppress(RuntimeError):  # at the start there is no loop yet
            self._loop = asyncio.get_running_loop()
            if self._has_begun:
                self._check_again()

    async def start_up(self) -> None:
        self._loop = asyncio.get_running_loop()
        await _import_topics()  # before the start ends, after which collections of garbage pass over what there is
        self._begin()

    def _begin(self) -> None:
        """Once, also where a reload has brought the first dead letter topic."""
        if not self._has_begun:
            self._has_begun = True
            self._starting = spawn(self._start(), "start dead letters")

    async def _start(self) -> None:
        try:
            await self.store.start(self._left_by_workers())
        except OSError as error:
            folder = self.store.spool.folder if self.store.spool is not None else None
            self.store.spool_failure = f"{folder}: {error.strerror or error}"
            self.store.use_no_disk()
            log.error("dead letter spool not used", extra={"detail": self.store.spool_failure})
        await _import_topics()
        self.sender.start()
        self._check_again()

    def _left_by_workers(self) -> list[Path]:
        """The folders of workers that there were before: the first one sends what is in them."""
        folder, place = self._site.config.dead_letters.spool_folder, self._site.config.worker
        if folder is None or place.number != 1:
            return []
        found = ((path, path.name.rpartition(".worker-")[2]) for path in folder.parent.glob(f"{folder.name}.worker-*"))
        return [path for path, number in found if number.isdecimal() and int(number) > place.count]

    async def shut_down(self, within_s: float) -> None:
        """Send the last letters; those that cannot be sent are spooled."""
        if self._starting is None:
            return
        await asyncio.wait([self._starting])
        await stop(*self._checking)
        unsent = await self.sender.finish(max(within_s, MIN_FLUSH_S))
        if self._made is not None and self._made.unsent is not None:
            unsent = self._made.unsent
        if lost := await self.store.finish(unsent):
            log.error("dead letters lost", extra={"letters": lost, "detail": "the sidecar stops"})
        elif self.store.spool is not None and (left := self.store.spool.letters + self.store.held.letters):
            log.info("dead letters spooled", extra={"letters": left})

    def _wake(self) -> None:
        """Called in any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._woken)

    def _woken(self) -> None:
        self._begin()
        self.sender.wake()

    def _writer(self) -> LetterWriter:
        """The only one."""
        if self._made is None:
            from kafka_sidecar.proxy.features.dead_letters.kafka_topics import Creation, LetterTopics

            def creation() -> Creation | None:
                section = self._config.dead_letters.create
                if section is None:
                    return None
                return Creation(section.partitions, section.replication_factor, section.configs)

            self._made = LetterTopics(
                self._site.config.bootstrap_servers, self._site.access, creation,
                lambda topic: self._site.large_messages(topic), partial(self.stats.drop, None), self.stats.note_sent,
                self.lanes, self.store.hold,
            )  # fmt: skip
        return self._made

    # Topics that must exist.

    def _check_again(self) -> None:
        for task in self._checking:
            task.cancel()
        self._checking = [spawn(self._check_topics(), "look for dead letter topics")]

    async def _check_topics(self) -> None:
        """Say at the start that a topic is missing, before the first letter is dropped for that."""
        names = self.targets.names()
        writer = self._writer() if names else None
        while names and writer is not None:
            try:
                missing = await writer.check(names)
            except writer.failures:
                await asyncio.sleep(CHECK_S)
                continue
            for name, why in missing.items():
                if name not in self.missing:
                    log.error("dead letter topic unusable", extra={"dead_letter_topic": name, "detail": why})
            self.missing = missing
            if not missing:
                return
            await asyncio.sleep(CHECK_S)

    # What is seen of it.

    @property
    def oldest_s(self) -> float:
        """Age of the oldest letter that is not sent, in seconds."""
        at = self.store.oldest_at
        return max(0.0, time.time() - at) if at is not None else 0.0

    def families(self) -> Iterable[Family]:
        stats, store, spool = self.stats, self.store, self.store.spool
        dropped = stats.dropped + store.dropped
        if spool is not None and spool.damaged:
            dropped["spool_damaged"] = spool.damaged
        yield counter("dead_letters_queued", "Letters that are to be sent", stats.queued, "topic")
        yield counter("dead_letters_sent", "Letters that Kafka has acknowledged", stats.sent, "topic")
        yield counter("dead_letters_dropped", "Rejected records that are no letters", dropped, "reason")
        yield counter("dead_letters_repeated", "Records of rejected batches that came again", stats.repeated)
        yield counter("dead_letters_send_failures", "Attempts to send that failed", self.sender.failures)
        yield gauge("dead_letters_waiting", "Letters that are not sent yet", store.letters)
        yield gauge("dead_letters_buffered_bytes", "Bytes of the letters in memory", store.buffer.bytes)
        yield gauge("dead_letters_spooled_bytes", "Bytes of the letters on disk", store.bytes_on_disk or 0)
        yield gauge("dead_letters_oldest_seconds", "Age of the oldest letter that is not sent yet", self.oldest_s)
        yield gauge("dead_letters_held", "Letters that wait for a partition which takes none", store.held.letters)
        yield gauge("dead_letters_held_partitions", "Partitions of dead letter topics that take none", self.lanes.count)
        yield gauge("dead_letters_missing_topics", "Dead letter topics that cannot be used", len(self.missing))

    def state(self) -> dict[str, object]:
        """For ``/readyz?verbose``."""
        store = self.store
        return {
            "waiting_letters": store.letters,
            "buffered_bytes": store.buffer.bytes,
            "spooled_bytes": store.bytes_on_disk,
            "oldest_seconds": round(self.oldest_s, 3),
            "sent": sum(self.stats.sent.values()),
            "dropped": dict(self.stats.dropped + store.dropped),
            "failure": self.sender.failure,
            "spool_failure": store.spool_failure,
            "unusable_topics": self.missing,
            "held_partitions": {
                f"{lane.topic}-{lane.partition}": lane.trouble for lane in self.lanes.lanes[:MAX_NAMED]
            },
        }

    def topic_state(self, name: str) -> dict[str, object]:
        target = self.targets.of(name)
        if target is None:
            return {}
        return {
            "dead letters": target.topic,
            "of shadow": target.shadow,
            **({"unusable": why} if (why := target.fault or self.missing.get(target.topic)) else {}),
        }


def _log_over(lane: Lane) -> None:
    log.info(
        "a partition takes dead letters again",
        extra={"dead_letter_topic": lane.topic, "partition": lane.partition},
    )


async def _import_topics() -> None:
    """Import aiokafka in a thread: a turn of the event loop would take 65 ms for it."""
    await asyncio.to_thread(import_module, WRITER_MODULE)


def feature(site: Site) -> Feature:
    """As `compose.FEATURES` says."""
    return DeadLetters(site)
