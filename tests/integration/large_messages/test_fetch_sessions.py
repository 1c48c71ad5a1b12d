"""Fetch sessions (KIP-227) of four partitions: what an incremental response leaves out, and that nothing is lost."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

import pytest
from integration.front import Front
from integration.interception.batches import send
from integration.interception.wire import Fetched, FetchWire
from integration.large_messages.test_edges import SHOWN, VALUE, two_messages
from integration.large_messages.written_logs import topic_id, write
from integration.validation.wire import FIRST_WITH_IDS
from support.large_logs import Log, message_id, sliced

from kafka_sidecar.codec.apis import ApiKey

pytestmark = pytest.mark.integration

WITH_NAMES, NEWEST_FETCH = 12, 18
MESSAGES, HIDDEN, EMPTY, SMALL = PARTITIONS = range(4)
ORPHANS = 15


@dataclass
class Session:
    """A consumer of partitions that names those only whose position has changed, as Java's does."""

    wire: FetchWire
    version: int
    topic: str
    max_bytes: int
    shown: dict[int, list[tuple[int, bytes | None]]] = field(default_factory=lambda: {at: [] for at in PARTITIONS})
    positions: dict[int, int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))
    _known: dict[int, int] = field(default_factory=dict)  # positions that the broker has been sent
    _id: int = 0
    _epoch: int = 0

    def step(self) -> dict[int, Fetched]:
        """One Fetch: what its response says, by partition."""
        changed = {at: offset for at, offset in self.positions.items() if self._known.get(at) != offset}
        self._known |= changed
        partitions = [
            {
                "partition": at, "fetch_offset": offset, "partition_max_bytes": self.max_bytes,
                "current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1,
            }
            for at, offset in changed.items()
        ]  # fmt: skip
        id_ = self.wire.ids([self.topic])[self.topic] if self.version >= FIRST_WITH_IDS else None
        topics = [{"topic": self.topic, "topic_id": id_, "partitions": partitions}] if partitions else []
        said = self.wire.ask(
            ApiKey.FETCH, self.version, replica_id=-1, max_wait=datetime.timedelta(milliseconds=100), min_bytes=1,
            max_bytes=50 << 20, session_id=self._id, session_epoch=self._epoch, topics=topics, rack_id="",
        )  # fmt: skip
        assert int(said.error_code) == 0
        assert said.session_id != 0
        self._id, self._epoch = said.session_id, self._epoch + 1
        found = {
            one.partition_index: Fetched(bytes(one.records or b""), one.high_watermark, int(one.error_code))
            for topic in said.responses
            for one in topic.partitions
        }
        for at, one in found.items():
            assert one.code == 0
            self.shown[at] += [each for each in one.shown() if each[0] >= self.positions[at]]
            self.positions[at] = one.following or self.positions[at]
        return found

    def read(self, ends: dict[int, int]) -> None:
        """Until all positions are at the ends, and a response has nothing new."""
        for _ in range(60):
            if not self.step() and self.positions == ends:
                return
        raise AssertionError(f"{self.positions} of {ends}")


@pytest.mark.parametrize("version", [WITH_NAMES, NEWEST_FETCH])
@pytest.mark.parametrize("max_bytes", [1, pytest.param(1 << 20, marks=pytest.mark.matrix)])
def test_partitions_with_nothing_new_are_absent_and_the_others_are_read_whole(
    large: Front, version: int, max_bytes: int
) -> None:
    topic = large.topic(f"large-session-{version}-{max_bytes}", len(PARTITIONS))
    id_, orphans = topic_id(large, topic), Log()
    for data in sliced(VALUE, ORPHANS + 1, message_id(9)):
        orphans.append(data)
    write(large, topic, two_messages(id_), MESSAGES)
    write(large, topic, orphans, HIDDEN)
    send(large.cluster.direct, topic, [[b"small"]], partition=SMALL)
    with FetchWire(large.sidecar.bootstrap) as wire:
        wire.introduce("tests")
        session = Session(wire, version, topic, max_bytes)
        ends = {MESSAGES: 22, HIDDEN: ORPHANS, EMPTY: 0, SMALL: 1}
        session.read(ends)
        assert session.shown == {MESSAGES: SHOWN, HIDDEN: [], EMPTY: [], SMALL: [(0, b"small")]}
        assert session.step() == {}

        more = Log(end=ORPHANS)
        more.add_large(VALUE, 10, 3, topic_id=id_)
        write(large, topic, more, HIDDEN)
        session.read(ends | {HIDDEN: more.end})
        assert session.shown[HIDDEN] == [(more.end - 1, VALUE)]
        send(large.cluster.direct, topic, [[b"late"]], partition=EMPTY)
        assert list(session.step()) == [EMPTY]
        assert session.shown == {
            MESSAGES: SHOWN, HIDDEN: [(more.end - 1, VALUE)], EMPTY: [(0, b"late")], SMALL: [(0, b"small")],
        }  # fmt: skip
