"""Groups of three kinds that read while everything fails, what each member got, and what was committed when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, ShareConsumer, TopicPartition
from integration.large_messages.mixed_senders import PATIENCE_S
from integration.large_messages.mixed_values import MB, Mixed
from integration.scenarios.target import SILENT, headers_of

KINDS = ("classic", "consumer", "share")
MEMBERS = 2
COMMIT_EVERY_S = 0.5
COMMIT_LIMIT_S = 20.0
Place = tuple[int, int]  # partition, offset


@dataclass(frozen=True, slots=True)
class Got:
    """One delivery to one member."""

    place: Place
    value: Mixed
    headers: Mapping[str, bytes | None]
    member: str
    session: int  # a member's assignments, each of which begins at what was committed
    at: float  # time.time


@dataclass(slots=True)
class Members:
    """A group of two members, each of which leaves without a commit and comes back after so many records."""

    kind: str
    bootstrap: str
    topic: str
    is_done: Callable[[Members], bool]
    leave_after: int
    got: list[Got] = field(default_factory=list)
    seen: set[Place] = field(default_factory=set)
    committed: dict[int, int] = field(default_factory=dict)  # by partition, as acknowledged
    acknowledged: set[Place] = field(default_factory=set)  # by a share group
    faults: list[str] = field(default_factory=list)  # what no group may see
    failures: list[BaseException] = field(default_factory=list)
    commits: int = 0
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _until: float = 0.0

    @property
    def name(self) -> str:
        return f"group-{self.kind}"

    def start(self) -> None:
        self._until = time.monotonic() + PATIENCE_S
        run = self._share if self.kind == "share" else self._read
        for number in range(MEMBERS):
            thread = threading.Thread(target=self._guarded, args=(run, f"{self.kind}-{number}"), daemon=True)
            self._threads.append(thread)
            thread.start()

    def join(self, more_s: float) -> None:
        """Returns when all is read and committed, or after so long."""
        self._until = min(self._until, time.monotonic() + more_s)
        for thread in self._threads:
            thread.join(more_s + 60)
        assert self.failures == []
        assert not any(thread.is_alive() for thread in self._threads), self.name

    def _guarded(self, run: Callable[[str], None], member: str) -> None:
        try:
            run(member)
        except BaseException as failure:  # noqa: BLE001 - it is raised by join
            self.failures.append(failure)

    def _goes_on(self) -> bool:
        return time.monotonic() < self._until and not self.failures and not self.is_done(self)

    def _add(self, message: Message, member: str, session: int) -> None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        try:
            value = Mixed.of(message.value())
        except AssertionError as error:
            self.faults.append(f"{member} at {partition} {offset}: {error}; {headers_of(message)}")
            return
        headers = dict(headers_of(message))
        self.seen.add((partition, offset))
        self.got.append(Got((partition, offset), value, headers, member, session, time.time()))

    def _read(self, member: str) -> None:
        session, first = 0, dict[int, int]()  # what may come first of each partition since it was assigned

        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            nonlocal session
            session += 1
            with self._lock:
                first.update({one.partition: self.committed.get(one.partition, 0) for one in partitions})

        leave_at = self.leave_after
        while self._goes_on():
            consumer = Consumer({**self._settings(member), **self._protocol()})
            consumer.subscribe([self.topic], on_assign=assigned)
            count, next_commit = 0, time.monotonic() + COMMIT_EVERY_S
            try:
                while self._goes_on() and count < leave_at:
                    message = consumer.poll(0.2)
                    if message is not None and (error := message.error()) is not None:
                        assert error.retriable() or not error.fatal(), error
                    elif message is not None:
                        count += 1
                        self._begins_right(message, member, first)
                        self._add(message, member, session)
                    if time.monotonic() > next_commit:
                        self._commit(consumer)
                        next_commit = time.monotonic() + COMMIT_EVERY_S
            finally:
                consumer.close()
            leave_at *= 3  # not so often that no member gets anywhere

    def _begins_right(self, message: Message, member: str, first: dict[int, int]) -> None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        if offset < first.get(partition, 0):
            self.faults.append(f"{member} got {partition} {offset} again, although {first[partition]} was committed")
        first[partition] = offset + 1

    def _commit(self, consumer: Consumer) -> None:
        try:
            done = consumer.commit(asynchronous=False)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError._NO_OFFSET:
                return  # an outage, or the partitions are another member's
            # What was committed before a response was lost is there, and is not committed again.
            done = self._stored(consumer)
        self.commits += 1
        with self._lock:
            for one in done or ():
                if one.error is None and one.offset >= 0:
                    self.committed[one.partition] = one.offset

    @staticmethod
    def _stored(consumer: Consumer) -> list[TopicPartition]:
        try:
            return consumer.committed(consumer.assignment(), COMMIT_LIMIT_S)
        except KafkaException:
            return []

    def _share(self, member: str) -> None:
        leave_at = self.leave_after
        while self._goes_on():
            count = 0
            with ShareConsumer({**self._settings(member), "share.acknowledgement.mode": "explicit"}) as consumer:
                consumer.subscribe([self.topic])
                while self._goes_on() and count < leave_at:
                    count += self._share_round(consumer, member)
            leave_at *= 3

    def _share_round(self, consumer: ShareConsumer, member: str) -> int:
        messages = list(consumer.poll(0.5))
        places = dict[int, set[Place]]()
        for message in messages:
            if (error := message.error()) is not None:
                assert error.retriable() or not error.fatal(), error
                continue
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            with self._lock:
                if (partition, offset) in self.acknowledged:
                    self.faults.append(f"{member} got {partition} {offset} again, although it had acknowledged it")
            self._add(message, member, 0)
            places.setdefault(partition, set()).add((partition, offset))
            consumer.acknowledge(message)
        try:
            done = consumer.commit_sync(COMMIT_LIMIT_S) if places else {}
        except KafkaException:
            return len(messages)  # an outage: the broker gives them out again
        self.commits += 1
        with self._lock:
            for one, failure in done.items():
                if failure is None:
                    self.acknowledged |= places.get(one.partition, set())
        return len(messages)

    def _settings(self, member: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap, "group.id": self.name, "client.id": member, "logger": SILENT,
            "reconnect.backoff.max.ms": 500,
        }  # fmt: skip

    def _protocol(self) -> dict[str, Any]:
        common = {
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "isolation.level": "read_committed",
            "receive.message.max.bytes": 100 * MB, "queued.max.messages.kbytes": 16 * 1024,
        }  # fmt: skip
        if self.kind == "consumer":
            return {**common, "group.protocol": "consumer"}
        return {**common, "session.timeout.ms": 10_000, "heartbeat.interval.ms": 1000}
