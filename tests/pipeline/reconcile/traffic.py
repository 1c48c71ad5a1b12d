"""Traffic whose every record is known: what was sent, acknowledged and read, and what each sidecar has counted of it.

The faults are planted: lost and repeated deliveries, attempts without a response, requests that are sent again, records
that are late, hidden, aborted or of a producer without a sidecar, records sent with acks=0, of which a broker loses
some, batches without timestamps, groups that commit late or more than they got, a sidecar that is killed, events
without room.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

START = 1_767_225_600_000  # ms: 2026-01-01, 00:00 UTC
MINUTE = 60_000
TOPICS = ("orders", "payments", "ledger")
COMPACTED = "ledger"  # a topic from which the broker has deleted what groups have not got
RECREATED = "orders"  # halfway through it is deleted and, when all have noticed, created again
OLD_EMITTER = "shop-2"  # whose events have no topic ids
PAUSE = 5  # minutes
IDS = {"": "A" * 21 + "Q", "2": "A" * 21 + "g"}  # of the first topic of a name and of the next
PARTITIONS = 2
GROUPS = ("billing", "search")
PRODUCER, OTHER_PRODUCER = "shop-1", "shop-2"
# The sidecar in which each group reads a partition; another one takes over halfway.
READERS = {("billing", 0): ("billing-1", "billing-1"), ("billing", 1): ("billing-1", "billing-2")}
READERS |= {("search", 0): ("search-1", "search-1"), ("search", 1): ("search-1", "search-1")}


@dataclass(frozen=True, slots=True)
class Batch:
    topic: str
    partition: int
    first: int
    count: int
    timestamp: int | None  # ms

    @property
    def name(self) -> str:
        """The topic's name. ``topic`` has the number of its life as well: orders, orders/2."""
        return self.topic.partition("/")[0]

    @property
    def topic_id(self) -> str:
        return IDS[self.topic.partition("/")[2]]

    @property
    def large(self) -> int:
        """Large messages among the records."""
        return self.first % 3

    @property
    def segments(self) -> int:
        return self.large * 4

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @property
    def offsets(self) -> range:
        return range(self.first, self.first + self.count)


@dataclass(frozen=True, slots=True)
class Counted:
    """A batch that a sidecar has counted in one of its intervals."""

    emitter: str
    interval: int
    tier: str
    type: str
    batch: Batch
    group: str | None = None
    kind: str = "count"  # or redelivered, hidden, aborted, reject, unconfirmed
    latency: int | None = None  # index of its bucket
    arrived: int = 0  # ms, within the interval

    @property
    def time(self) -> int:
        """The event time: without a timestamp it is that of arrival."""
        timestamp = self.batch.timestamp
        return START + self.interval * MINUTE + self.arrived if timestamp is None else timestamp

    @property
    def bucket(self) -> int:
        return self.time // MINUTE * MINUTE

    @property
    def is_untimed(self) -> bool:
        """Whether its records are counted as such; of a commit nothing has a timestamp."""
        return self.batch.timestamp is None and self.tier != "commit"

    @property
    def has_offsets(self) -> bool:
        """Without a response the sidecar knows of none."""
        return self.tier != "produce_attempt" and self.type == "SUCCESS" and self.kind != "unconfirmed"


@dataclass(frozen=True, slots=True)
class Killed:
    """The events of intervals from ``first`` on never come; a new process begins with interval ``again``."""

    emitter: str
    first: int
    again: int


@dataclass(slots=True)
class Traffic:
    """What has happened in so many minutes, an interval each."""

    minutes: int
    counted: list[Counted] = field(default_factory=list)
    lost: set[tuple[str, int, str, int]] = field(default_factory=set)  # topic, partition, group, offset
    unaudited: set[tuple[str, int, str, int]] = field(default_factory=set)
    read_until: dict[tuple[str, int, str], int] = field(default_factory=dict)  # the interval of what was read last
    lagging: set[tuple[str, int, str]] = field(default_factory=set)
    killed: list[Killed] = field(default_factory=list)
    discarded: set[tuple[str, int]] = field(default_factory=set)  # emitter, interval

    def emitters(self) -> list[str]:
        return sorted({PRODUCER, OTHER_PRODUCER} | {name for names in READERS.values() for name in names})


def traffic(seed: int, minutes: int = 30) -> Traffic:
    """Repeatable: the same for the same seed."""
    dice = random.Random(seed)
    made = Traffic(minutes)
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            offset = dice.randrange(1000)
            life = topic
            for minute in range(minutes - 4):
                if topic == RECREATED and minutes // 2 <= minute < minutes // 2 + PAUSE:
                    life, offset = f"{topic}/2", 0
                    continue
                for _ in range(dice.randint(1, 3)):
                    offset += _send(made, dice, life, partition, offset, minute)
    made.lagging = {("payments", 1, "search")}
    made.counted = [one for one in made.counted if not _is_lagging(one, minutes // 3)]
    made.unaudited = {one for one in made.unaudited if one[:3] not in made.lagging}
    made.killed = [Killed("search-1", minutes // 2 - 3, minutes // 2 - 1), Killed("billing-2", minutes - 8, minutes)]
    made.discarded = {(OTHER_PRODUCER, minutes // 5)}
    _commit_all(made, dice)
    return made


def _is_lagging(one: Counted, since: int) -> bool:
    """One group stops in the middle of one partition."""
    return one.group == "search" and (one.batch.topic, one.batch.partition) == ("payments", 1) and one.interval > since


def _send(made: Traffic, dice: random.Random, topic: str, partition: int, offset: int, minute: int) -> int:
    """One request of a producer and all that becomes of it. Returns the number of offsets that it takes."""
    is_late = dice.random() < 0.1
    age = dice.randrange(2, 5) * MINUTE if is_late else 0
    timestamp = START + minute * MINUTE + dice.randrange(MINUTE) - age
    untimed = dice.random() < 0.05
    batch = Batch(topic, partition, offset, dice.randint(1, 40), None if untimed else timestamp)
    emitter = dice.choice((PRODUCER, OTHER_PRODUCER))
    fate = dice.random()
    arrived = dice.randrange(MINUTE)

    def count(one: Counted) -> None:
        made.counted.append(replace(one, arrived=arrived))

    if fate < 0.05:  # without a sidecar
        _read_all(made, dice, batch, minute)
        made.unaudited |= {(topic, partition, group, one) for group in GROUPS for one in batch.offsets}
        return batch.count
    count(Counted(emitter, minute, "produce_attempt", "ATTEMPT", batch))
    if fate < 0.10:
        count(Counted(emitter, minute, "produce_ack", "FAILURE", batch, kind="reject" if fate < 0.08 else "count"))
        return 0
    if fate < 0.14:  # no response
        return 0
    if fate > 0.94:  # acks=0
        count(Counted(emitter, minute, "produce_ack", "SUCCESS", batch, kind="unconfirmed"))
        if fate > 0.97:  # and never stored
            return 0
        _read_all(made, dice, batch, minute)
        made.unaudited |= {(topic, partition, group, one) for group in GROUPS for one in batch.offsets}
        return batch.count
    count(Counted(emitter, minute, "produce_ack", "SUCCESS", batch, latency=dice.randrange(60)))
    if fate < 0.20 and not untimed:  # sent again, acknowledged again
        count(Counted(emitter, minute + 1, "produce_attempt", "ATTEMPT", batch))
        count(Counted(emitter, minute + 1, "produce_ack", "SUCCESS", batch, kind="redelivered"))
    _read_all(made, dice, batch, minute)
    return batch.count


def _read_all(made: Traffic, dice: random.Random, batch: Batch, minute: int) -> None:
    for group in GROUPS:
        emitter = READERS[group, batch.partition][minute > made.minutes // 2]
        # In the order of offsets, as consumers read: none before what was sent earlier.
        place = batch.topic, batch.partition, group
        at = made.read_until[place] = max(minute + dice.choice((0, 0, 1, 2)), made.read_until.get(place, 0))
        kind = "count"
        fate = dice.random()
        if fate < 0.06:
            made.lost |= {(batch.topic, batch.partition, group, offset) for offset in batch.offsets}
            continue
        if fate < 0.10:
            kind = "hidden"
        elif fate < 0.14:
            kind = "aborted"
        latency = None if batch.timestamp is None else dice.randrange(60)
        first = Counted(emitter, at, "fetch_delivered", "SUCCESS", batch, group, kind, latency, dice.randrange(MINUTE))
        made.counted.append(first)
        if 0.14 <= fate < 0.20:  # read again by the same sidecar, which knows it
            made.counted.append(replace(first, interval=at + 1, kind="redelivered", latency=None))
        elif 0.20 <= fate < 0.26 and group == "billing":  # and by another one, which does not
            other = "billing-2" if emitter == "billing-1" else "billing-1"
            made.counted.append(replace(first, emitter=other, interval=at + 1))


def _commit_all(made: Traffic, dice: random.Random) -> None:
    """Each group commits where it is in most minutes, and sometimes more than it was sent. A sidecar counts how far
    the commits that it sees have come, so the first one that a process sees counts nothing."""
    for topic, (group, partition) in itertools.product((*TOPICS, f"{RECREATED}/2"), READERS):
        mine = [
            one
            for one in made.counted
            if (one.batch.topic, one.batch.partition, one.group) == (topic, partition, group)
        ]
        before: dict[tuple[str, int], int] = {}
        for minute in range(made.minutes):
            position = max((one.batch.last + 1 for one in mine if one.interval <= minute), default=None)
            if position is None or dice.random() < 0.3:
                continue
            position += 5 * (dice.random() < 0.1)
            emitter = READERS[group, partition][minute > made.minutes // 2]
            process = emitter, sum(one.emitter == emitter and one.again <= minute for one in made.killed)
            known = before.setdefault(process, position)
            if position > known:
                batch = Batch(topic, partition, known, position - known, None)
                made.counted.append(
                    Counted(emitter, minute, "commit", "SUCCESS", batch, group, arrived=dice.randrange(MINUTE))
                )
                before[process] = position


def reported(made: Traffic) -> Iterator[Counted]:
    """What was counted in intervals whose events come."""
    for one in made.counted:
        gone = any(one.emitter == dead.emitter and dead.first <= one.interval < dead.again for dead in made.killed)
        if not gone and (one.emitter, one.interval) not in made.discarded:
            yield one
