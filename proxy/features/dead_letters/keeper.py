"""Copies of rejected records, as letters: which records of a batch, how fast they may come, and none of them twice."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Lock

from kafka_sidecar.codec.checkpoint import StoppedError
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import BatchHeader, Records
from kafka_sidecar.dead_letters.buffer import Rate
from kafka_sidecar.dead_letters.letter import REST_OF_BATCH, Reasons
from kafka_sidecar.dead_letters.parcels import Envelope, Fault, Letter, Parcel, pack, seal_records
from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.policies.contract import WHOLE_BATCH
from kafka_sidecar.policies.plans import Rejection
from kafka_sidecar.proxy.features.dead_letters.from_config import Target
from kafka_sidecar.proxy.features.refused import RefusedBatch
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter

MAX_REMEMBERED = 10_000  # batches of idempotent producers
PARCEL_BYTES = 256 << 10
log = logging.getLogger(__name__)

MAX_SERIES = 1000  # dead letter topics; further ones are counted as OTHER
OTHER = "(other)"
LOG_INTERVAL_S = 10.0  # for one topic and reason
# What is no loss: the record has been a letter before, or has gone where it can be found.
HARMLESS = ("replayed",)


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast letters may come."""

    records: Rate
    bytes: Rate

    @property
    def are_used_up(self) -> bool:
        return self.records.is_used_up or self.bytes.is_used_up

    def allow(self, letter: Letter) -> bool:
        return self.records.take(1) and self.bytes.take(letter.size)


class Keeper:
    """Makes letters of batches. Called in any thread."""

    def __init__(self, put: Callable[[Parcel], bool], rates: Rates, stats: LetterStats) -> None:
        """
        Args:
            put: takes a parcel; False: there is no room.
            rates: those that hold now.
            stats: what is counted.
        """
        self._put = put
        self._rates = rates
        self._stats = stats
        self._lock = Lock()
        self._seen = Bounded[tuple[str, int, int, int, int, int], None](MAX_REMEMBERED)

    def turns_away(self, batch: RefusedBatch, target: Target) -> bool:
        """Whether none of a batch can be kept, whatever is in it; that is counted."""
        reason = target.fault or ("rate" if self._rates.are_used_up else None)
        if reason is None:
            return False
        is_whole = (batch.is_enforced and target.records == "batch") or batch.rejections[0].index == WHOLE_BATCH
        letters = max(batch.header.count, 0) if is_whole else len(batch.rejections)
        self._stats.drop(batch.topic, target.topic, reason, letters)
        return True

    def keep(self, batch: RefusedBatch, target: Target) -> None:
        """Make letters of a batch that was not turned away. What cannot be one is counted."""
        if self.turns_away(batch, target):  # now: others were before it in a thread
            return
        count = max(batch.header.count, 0)
        if self._is_known(batch):
            self._stats.repeated += count
            return
        try:
            records = batch.records()
        except CodecError:
            self._forget(batch)
            self._stats.drop(batch.topic, target.topic, "unreadable", count)
            return
        except StoppedError:
            self._forget(batch)
            self._stats.drop(batch.topic, target.topic, "timed_out", count)
            raise
        self._keep(batch, target, records)

    def _keep(self, batch: RefusedBatch, target: Target, records: Records) -> None:
        faults = {one.index: Fault(one.message, one.policy, one.reason) for one in batch.rejections}
        whole = faults.get(WHOLE_BATCH)
        takes_all = whole is not None or (batch.is_enforced and target.records == "batch")
        chosen = None if takes_all else sorted(index for index in faults if 0 <= index < len(records))
        other = whole or Fault(batch.message, batch.rejections[0].policy, REST_OF_BATCH)
        total = len(records) if chosen is None else len(chosen)
        letters = _Letters(self._rates, seal_records(records, chosen, faults, other, Envelope(_reasons(batch))))
        taken = replayed = 0
        at = time.time()

        def put(some: tuple[Letter, ...], size: int) -> bool:
            nonlocal taken
            if not self._put(Parcel(target.topic, batch.partition, some, at, size)):
                return False
            taken += len(some)
            return True

        try:
            _, replayed = pack(letters, PARCEL_BYTES, put)
            reason = "rate" if letters.is_limited else "buffer_full"
        except StoppedError:
            reason = "timed_out"
            raise
        finally:
            self._stats.queue(target.topic, taken)
            self._stats.drop(batch.topic, target.topic, "replayed", replayed)
            self._stats.drop(batch.topic, target.topic, reason, total - taken - replayed)
            if not taken:
                self._forget(batch)

    def _is_known(self, batch: RefusedBatch) -> bool:
        """Whether an idempotent producer sends it again, as it does where no response has come."""
        if (key := _identity(batch)) is None:
            return False
        with self._lock:
            if key in self._seen:
                return True
            self._seen[key] = None
            return False

    def _forget(self, batch: RefusedBatch) -> None:
        """None of it was kept: it may come again."""
        if (key := _identity(batch)) is not None:
            with self._lock:
                self._seen.pop(key)


class _Letters:
    """Letters as they may come: they end where there are too many of them."""

    def __init__(self, rates: Rates, letters: Iterator[Letter | None]) -> None:
        self._rates = rates
        self._letters = letters
        self.is_limited = False

    def __iter__(self) -> Iterator[Letter | None]:
        for letter in self._letters:
            if letter is not None and not self._rates.allow(letter):
                self.is_limited = True
                return
            yield letter


def _identity(batch: RefusedBatch) -> tuple[str, int, int, int, int, int] | None:
    header: BatchHeader = batch.header
    if header.producer_id < 0:
        return None  # it may be sent twice on purpose
    return (
        batch.topic, batch.partition, header.producer_id, header.producer_epoch, header.base_sequence, header.crc,
    )  # fmt: skip


def _reasons(batch: RefusedBatch) -> Reasons:
    """What all of its letters have in common."""
    header, first = batch.header, _first(batch)
    is_idempotent = header.producer_id >= 0
    return Reasons(
        topic=batch.topic,
        partition=batch.partition,
        message=batch.message,
        policy=first.policy,
        reason=first.reason,
        mode="enforce" if batch.is_enforced else "shadow",
        rejection_id=batch.rejection_id,
        index=0,
        rejected_at=int(time.time() * 1000),
        client_id=batch.client_id,
        principal=batch.principal,
        producer_id=header.producer_id if is_idempotent else None,
        producer_epoch=header.producer_epoch if is_idempotent else None,
        sequence=header.base_sequence if is_idempotent else None,
    )


def _first(batch: RefusedBatch) -> Rejection:
    return batch.rejections[0]


class LetterStats:
    """The counters of one process. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock``: seconds since 1970."""
        self.queued: Counter[str] = Counter()  # letters, by dead letter topic
        self.sent: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()  # by reason
        self.repeated = 0  # records of batches that came again
        self._lock = Lock()
        self._lines = LogLimiter(LOG_INTERVAL_S, clock)

    def queue(self, topic: str, letters: int) -> None:
        if letters:
            with self._lock:
                self.queued[_series(self.queued, topic)] += letters

    def note_sent(self, topic: str, letters: int) -> None:
        with self._lock:
            self.sent[_series(self.sent, topic)] += letters

    def drop(self, topic: str | None, letter_topic: str | None, reason: str, letters: int, why: str = "") -> None:
        """Records that are no letters, for this reason.

        Args:
            topic: that they were sent to, if it is known.
            letter_topic: that they do not go to.
            reason: a label value of metrics.
            letters: how many; none is fine.
            why: for a person.
        """
        if letters <= 0:
            return
        with self._lock:
            self.dropped[reason] += letters
            suppressed = self._lines.due(("dead letters dropped", letter_topic or "", reason))
        if suppressed is None or reason in HARMLESS:
            return
        log.warning(
            "dead letters dropped",
            extra={
                "reason": reason, "letters": letters, "topic": topic, "dead_letter_topic": letter_topic,
                "detail": why or None, "suppressed": suppressed,
            },
        )  # fmt: skip


def _series(counts: Counter[str], topic: str) -> str:
    return topic if topic in counts or len(counts) < MAX_SERIES else OTHER
