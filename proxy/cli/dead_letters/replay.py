"""Replays letters: each becomes its record again, and is sent to its topic, where policies decide again.

What is accepted and how far a group is are one transaction for up to a thousand letters, of a transactional id that
each partition of a dead letter topic has. Whoever replays it next ends what an earlier run has left open. So a record
is committed once, however often a replay is stopped; docs/decisions/ has what else was weighed.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from kafka_sidecar.dead_letters.letter import NotALetterError, Reasons
from kafka_sidecar.dead_letters.letters import Choice, Letter, OutgoingRecord, marked, read_letter, record_again
from kafka_sidecar.dead_letters.remaining import MAX_METADATA, Remaining, RemainingError
from kafka_sidecar.proxy.cli.dead_letters.cluster import Cluster, ClusterError
from kafka_sidecar.proxy.cli.dead_letters.producer import Producer, Refusal

AT_ONCE, BYTES_AT_ONCE = 1000, 8 << 20  # letters of one transaction
ABORT_S = 5.0
NO_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
NOT_MENDED = "NOT_MENDED"
MAX_ROWS = 200
OTHERS = "(others)"
NUMBER = re.compile(r"\d+")
ACCEPTED, WOULD_BE_SENT, WOULD_BE_ACCEPTED = "accepted", "would be sent", "would be accepted"
FINE = (ACCEPTED, WOULD_BE_SENT, WOULD_BE_ACCEPTED)


class Row(NamedTuple):
    """What letters are counted by."""

    topic: str
    policy: str  # that has rejected the record at first
    reason: str
    outcome: str  # "accepted", or Kafka's name of the error
    message: str  # of the error; numbers in it are N


@dataclass(slots=True)
class Tally:
    """Of one command, or of one task."""

    read: int = 0  # records of the dead letter topic
    bytes: int = 0  # that were accepted
    passed_over: int = 0  # letters that are not meant, or were replayed before
    not_letters: Counter[str] = field(default_factory=Counter)  # by what is missing
    rows: Counter[Row] = field(default_factory=Counter)

    @property
    def sent(self) -> int:
        """Those that were accepted; in a dry run those that would be sent."""
        return sum(count for row, count in self.rows.items() if row.outcome in FINE)

    @property
    def refused(self) -> int:
        return self.rows.total() - self.sent

    @property
    def has_refused(self) -> bool:
        return self.refused > 0

    def count(self, letter: Letter, refusal: Refusal | None, size: int, outcome: str) -> None:
        """One letter was sent, or would be, as ``outcome`` says where it was not refused."""
        why = letter.reasons
        if refusal is None:
            row = Row(why.topic, why.policy, why.reason, outcome, "")
            self.bytes += size
        else:
            row = Row(why.topic, why.policy, why.reason, refusal.error, NUMBER.sub("N", refusal.message))
        if row not in self.rows and len(self.rows) >= MAX_ROWS:
            row = Row(OTHERS, OTHERS, OTHERS, row.outcome, "")
        self.rows[row] += 1

    def add(self, other: Tally) -> None:
        self.read += other.read
        self.bytes += other.bytes
        self.passed_over += other.passed_over
        self.not_letters.update(other.not_letters)
        self.rows.update(other.rows)


class MendError(Exception):
    """A record was not mended. One line that says why, and quotes nothing of it."""


class Mender(Protocol):
    """Changes records before they are sent."""

    def mend(self, record: OutgoingRecord, why: Reasons) -> OutgoingRecord:
        """Raises MendError."""
        ...


class Asker(Protocol):
    """Says what would become of records."""

    async def ask(self, cluster: Cluster, records: Sequence[OutgoingRecord]) -> list[Refusal | None]: ...


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be replayed, and how."""

    choice: Choice
    group: str
    codec: int = 0  # of the batches
    mender: Mender | None = None
    limit: int | None = None  # letters to send
    is_dry: bool = False
    asker: Asker | None = None  # of a dry run

    @property
    def fine(self) -> str:
        """The outcome of a record that is not refused."""
        return fine_outcome(self.is_dry, self.asker is not None)


def fine_outcome(is_dry: bool, is_asked: bool) -> str:
    """What a record is called that is not refused."""
    if not is_dry:
        return ACCEPTED
    return WOULD_BE_ACCEPTED if is_asked else WOULD_BE_SENT


@dataclass(slots=True)
class PartitionReplay:
    """The replay of one partition of a dead letter topic. Used once."""

    cluster: Cluster
    order: Order
    topic: str
    partition: int
    tally: Tally  # is updated
    progress: Callable[[], None] = lambda: None
    _producer: Producer | None = None
    _remaining: Remaining = field(default_factory=Remaining)
    _waiting: list[Letter] = field(default_factory=list)
    _size: int = 0

    async def run(self) -> None:
        """Raises ClusterError."""
        if not self.order.is_dry:
            self._producer = Producer(self.cluster, self._transactional_id, self.order.codec)
            await self._producer.start()  # first: it ends the transaction of whoever has been stopped
        offset, metadata = await self.cluster.committed(self.order.group, self.topic, self.partition)
        try:
            self._remaining = Remaining.decode(offset, metadata)
        except RemainingError as error:
            raise ClusterError(f"group {self.order.group}: {error}; give another one with --group") from error
        self._remaining.forget_before(await self.cluster.start_of(self.topic, self.partition))
        try:
            await self._replay()
        except (asyncio.CancelledError, ClusterError):
            await self._abort()
            raise

    @property
    def _transactional_id(self) -> str:
        return f"{self.order.group}-{self.topic}-{self.partition}"

    async def _replay(self) -> None:
        async for read in self.cluster.read(self.topic, self.partition, self._remaining.first):
            for offset, record in read.records:
                self.tally.read += 1
                try:
                    self._take(read_letter(record, offset))
                except NotALetterError as error:
                    self.tally.not_letters[str(error)] += 1
                if len(self._waiting) >= AT_ONCE or self._size >= BYTES_AT_ONCE:
                    await self._send()
                if self._is_enough:
                    await self._send()
                    return
            self.progress()
        await self._send()

    @property
    def _is_enough(self) -> bool:
        limit = self.order.limit
        return limit is not None and self.tally.rows.total() + len(self._waiting) >= limit

    def _take(self, letter: Letter) -> None:
        is_left = letter.offset in self._remaining
        if is_left and self.order.choice.takes(letter):
            self._waiting.append(letter)
            self._size += len(letter.value or b"") + len(letter.key or b"")
        else:
            self.tally.passed_over += 1
            if is_left:
                self._remaining.leave(letter.offset)

    async def _send(self) -> None:
        letters, self._waiting, self._size = self._waiting, [], 0
        made = [await self._made(letter) for letter in letters]
        records = [one for one in made if isinstance(one, OutgoingRecord)]
        answers: list[Refusal | None] = [None] * len(records)
        if self._producer is None:
            if self.order.asker is not None:
                answers = await self.order.asker.ask(self.cluster, records)
        elif records:
            await self._producer.begin(sorted({(one.topic, one.partition) for one in records}))
            answers = await self._producer.send(records)
        found = iter(answers)
        refusals: list[Refusal | None] = [next(found) if isinstance(one, OutgoingRecord) else one for one in made]
        await self._end(letters, refusals)
        for letter, record, refusal in zip(letters, made, refusals, strict=True):
            size = record.size if isinstance(record, OutgoingRecord) else 0
            self.tally.count(letter, refusal, size, self.order.fine)
        self.progress()

    async def _made(self, letter: Letter) -> OutgoingRecord | Refusal:
        """The record of a letter as it is sent, or why it cannot be."""
        record, rejection_id = record_again(letter), letter.reasons.rejection_id
        if not await self.cluster.has_partition(record.topic, record.partition):
            return Refusal(NO_PARTITION, "the topic has no such partition")
        if self.order.mender is not None:
            try:
                record = self.order.mender.mend(record, letter.reasons)
            except MendError as error:
                return Refusal(NOT_MENDED, str(error))
        return replace(record, headers=marked(record.headers, rejection_id))

    async def _end(self, letters: list[Letter], refusals: list[Refusal | None]) -> None:
        """Commit what was accepted together with how far the group is."""
        for letter, refusal in zip(letters, refusals, strict=True):
            if refusal is None:
                self._remaining.replayed(letter.offset)
            else:
                self._remaining.leave(letter.offset)
        if self._producer is None:
            return
        if all(refusal is not None for refusal in refusals):
            await self._producer.abort()
            return
        metadata = self._remaining.encode()
        if len(metadata) > MAX_METADATA:
            raise ClusterError(
                f"{self.topic}, partition {self.partition}: the letters before offset {self._remaining.end} that are "
                f"left are too many, in no order, for group {self.order.group} to remember: replay those first, or "
                "give a group of its own to each choice with --group"
            )
        group, end = self.order.group, self._remaining.end
        await self._producer.commit(group, self.topic, self.partition, end, metadata)

    async def _abort(self) -> None:
        """End the open transaction, so that its partitions can be read on; or the next run does it."""
        if self._producer is not None:
            with suppress(ClusterError, TimeoutError, Exception):
                async with asyncio.timeout(ABORT_S):
                    await self._producer.abort()
