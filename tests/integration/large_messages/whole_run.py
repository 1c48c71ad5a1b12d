"""A run of senders and groups while everything fails: what was sent, what was read, and what the broker has after."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer, TopicPartition
from integration.front import logged
from integration.large_messages.failing_site import Site, failing
from integration.large_messages.mixed_readers import KINDS, Members, Place
from integration.large_messages.mixed_senders import SENDERS, Acked, MixedSending
from integration.large_messages.mixed_values import Mixed
from integration.large_messages.stored import LM
from integration.scenarios.target import LIMIT_S, SILENT, admin_client, eventually, headers_of, latest

PARTITIONS = 3
LAST = "last"  # the sender of the values with which the partitions end
TO_END_S = 240.0
COMMITTED = "read_committed"
GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE_READER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
SHARE_TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
Lags = Mapping[int, tuple[int, int]]  # by partition: where the group is, and how far that is from the end


@dataclass(frozen=True, slots=True)
class Log:
    """What the broker has: where the records of clients are, and the slices of messages that never became one."""

    all: Mapping[Place, int]  # how many segments each has; 0: it is no large message
    kept: frozenset[Place]  # not those of aborted transactions
    given_up: frozenset[Place]


@dataclass(frozen=True, slots=True)
class Run:
    """All that was sent and read while everything failed."""

    site: Site
    topic: str
    senders: Sequence[MixedSending]
    groups: Mapping[str, Members]
    log: Log
    lags: Mapping[str, Mapping[str, Lags]]  # by group, as asked of whom and when
    stopped: float  # when the sidecars were ended, to be started again for tools (time.time)

    @property
    def notified(self) -> Mapping[Place, Acked]:
        """What a producer was notified of what is at a place."""
        found: dict[Place, Acked] = {}
        for sender in self.senders:
            found.update({(one.partition, one.offset): one for one in sender.acked if one.offset >= 0})
        return found


@dataclass(slots=True)
class Going:
    """The run while it goes on."""

    site: Site
    topic: str
    count: int
    senders: list[MixedSending] = field(default_factory=list)
    groups: dict[str, Members] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)  # offsets after the last records, once all are there
    log: Log = field(default_factory=lambda: Log({}, frozenset(), frozenset()))  # once all are there

    def start(self) -> None:
        site, topic = self.site, self.topic
        each, leave_after = self.count // len(SENDERS), max(self.count // 10, 30)
        self.senders += [MixedSending(site.bootstrap, topic, name, each, PARTITIONS) for name in SENDERS]
        self.groups |= {kind: Members(kind, site.bootstrap, topic, self.is_done, leave_after) for kind in KINDS}
        site.of_group(self.groups["share"].name, "share.auto.offset.reset", "earliest")
        site.of_group(self.groups["share"].name, "share.isolation.level", COMMITTED)
        for sender in self.senders:
            sender.start()
        for group in self.groups.values():
            group.start()

    def progress(self) -> float:
        done = sum(sender.stored for sender in self.senders) + sum(len(group.got) for group in self.groups.values())
        return done / (self.count * (1 + len(self.groups)) * 0.95)  # without what is aborted

    def is_done(self, group: Members) -> bool:
        if group.kind == "share":
            return bool(self.log.kept) and group.seen >= self.log.kept
        return bool(self.ends) and all(group.committed.get(index) == end for index, end in self.ends.items())

    def finish(self) -> None:
        """Returns when all is sent, read and committed."""
        for sender in self.senders:
            sender.join()
        end_partitions(self.site, self.topic)
        admin = admin_client(self.site.cluster.direct)  # kept: without it nothing is answered
        asked = admin.list_offsets(latest(self.topic, PARTITIONS))
        self.ends |= {one.partition: answer.result(LIMIT_S).offset for one, answer in asked.items()}
        self.log = read_log(self.site, self.topic)
        for kind in ("classic", "consumer"):
            self.groups[kind].join(TO_END_S)
        self.groups["share"].join(TO_END_S)
        eventually(self._share_lag, lambda lag: lag == 0, "the share group has done with all", TO_END_S)

    def _share_lag(self) -> int:
        """After a member of Java's has done with markers that are alone: librdkafka acknowledges no such range."""
        bootstrap, group = next(iter(self.site.sidecars.values())).bootstrap, self.groups["share"]
        where = ("--bootstrap-server", bootstrap, "--topic", self.topic, "--group", group.name)
        self.site.java.run(SHARE_READER, *where, "--timeout-ms", 3000, "--formatter-property", "print.value=false")
        found = stored_offsets(self.site, group, self.site.cluster.direct)
        return sum(lag for _, lag in found.values()) if len(found) == PARTITIONS else -1


def while_everything_fails(site: Site, topic: str, count: int, outages: Sequence[str]) -> Run:
    going = Going(site, topic, count)
    going.start()
    with ThreadPoolExecutor(1) as other:
        happening = other.submit(failing(site, topic, outages, going.progress))
        going.finish()
        happening.result()
    groups = going.groups
    lags: dict[str, dict[str, Lags]] = {kind: {} for kind in groups}
    for kind, group in groups.items():
        lags[kind]["broker"] = stored_offsets(site, group, site.cluster.direct)
        lags[kind]["sidecar"] = stored_offsets(site, group, next(iter(site.sidecars.values())).bootstrap)
    stopped = time.time()
    for sidecar in site.sidecars.values():
        assert sidecar.stop() == 0
    for sidecar in site.sidecars.values():
        sidecar.start_again()
    for kind, group in groups.items():
        if kind != "share":
            commit_again(site, group)
        lags[kind]["restarted"] = stored_offsets(site, group, site.cluster.direct)
    return Run(site, topic, going.senders, groups, going.log, lags, stopped)


def end_partitions(site: Site, topic: str) -> None:
    """With a record, not with the marker of a transaction: what was read and committed is all there is then."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": site.bootstrap, "logger": SILENT, "enable.idempotence": True})
    for partition in range(PARTITIONS):
        producer.produce(
            topic, Mixed(LAST, partition).build(), b"key", partition, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(LIMIT_S) == 0
    assert errors == [None] * PARTITIONS


def read_log(site: Site, topic: str) -> Log:
    found, kept = dict[Place, int](), set[Place]()
    slices, ended = dict[Place, bytes](), set[bytes]()  # ids of messages
    for partition in range(PARTITIONS):
        for message in logged(site.cluster.direct, topic, partition):
            place, headers = (partition, int(message.offset() or 0)), dict(headers_of(message))
            _, low, high, _, count, _ = LM.unpack(headers.get("_lm") or bytes(LM.size))
            if "_lm" in headers and "_lmr" not in headers:
                slices[place] = low + high
            else:
                found[place] = count
                ended.add(low + high)
        kept |= {
            (partition, int(one.offset() or 0)) for one in logged(site.cluster.direct, topic, partition, COMMITTED)
        }
    given_up = frozenset(place for place, message_id in slices.items() if message_id not in ended)
    return Log(found, frozenset(kept & found.keys()), given_up)


def stored_offsets(site: Site, group: Members, address: str) -> Mapping[int, tuple[int, int]]:
    """Where Kafka's own tool says that a group is in each partition, and its lag; of a share group -1 and the lag."""
    tool, row = (SHARE_TOOL, r"()\d+") if group.kind == "share" else (GROUP_TOOL, r"(\d+)\s+\d+")
    out = site.java.run(tool, "--bootstrap-server", address, "--describe", "--group", group.name)
    rows = re.findall(rf"^{group.name}\s+{group.topic}\s+(\d+)\s+{row}\s+(\d+)", out, re.MULTILINE)
    return {int(partition): (int(offset or "-1"), int(lag)) for partition, offset, lag in rows}


def commit_again(site: Site, group: Members) -> None:
    """What the group has committed, through a sidecar."""
    settings = {"bootstrap.servers": site.bootstrap, "group.id": group.name, "logger": SILENT}
    consumer = Consumer(settings)
    try:
        places = [TopicPartition(group.topic, partition) for partition in range(PARTITIONS)]
        done = consumer.commit(offsets=consumer.committed(places, LIMIT_S), asynchronous=False)
        assert [one.error for one in done or ()] == [None] * PARTITIONS
    finally:
        consumer.close()
