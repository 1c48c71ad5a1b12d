"""Readers at random: any version, offset, size and session of Fetch. What they read is always the same.

A reader knows where the log ends. It goes on after what it gets, as clients do: after the batch, or after the last
record that it has got of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from integration.raw import Raw

from kafka_sidecar.codec.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kafka_sidecar.codec.records import Batch, batches

Partition = tuple[str, int]
Got = tuple[int, bytes | None]  # offset and value
SESSIONS_FROM, IDS_FROM = 7, 13
SIZES = (1, 100, 1000, 60_000, 1 << 20)
LOST_SESSIONS = frozenset({70, 71})  # FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH
MAX_IDLE = 12  # answers in turn that bring nothing, of which one waits for what is not there
ENOUGH = 3  # of these, where the answers say that there is no more
ABORT = b"\0\0\0\0"  # the key of a marker


@dataclass(slots=True)
class Walk:
    """One reader of some partitions, from these offsets to the ends."""

    raw: Raw
    random: Random
    ids: Mapping[str, bytes]
    ends: Mapping[Partition, int]
    positions: dict[Partition, int]
    version: int
    isolation: int
    got: dict[Partition, list[Got]] = field(default_factory=lambda: defaultdict(list))
    is_coarse: bool = True  # it goes on after the batch
    _high: dict[Partition, int] = field(default_factory=dict)  # watermarks, of the last answers
    _session: tuple[int, int] = (0, -1)  # id and epoch of the next request
    _in_session: dict[Partition, int] = field(default_factory=dict)  # the position that was sent

    def run(self) -> dict[Partition, list[Got]]:
        uses_session = self.version >= SESSIONS_FROM and self.random.random() < 0.6
        self.is_coarse = self.random.random() < 0.6
        self._session = (0, 0 if uses_session else -1)
        idle = 0
        while pending := [one for one, at in self.positions.items() if at < self.ends[one]]:
            before = dict(self.positions)
            self._round(pending)
            idle = 0 if before != self.positions else idle + 1
            if idle > ENOUGH and all(self._high[one] == self.positions[one] for one in pending):
                break  # to such a client the log seems to end before what is hidden
            assert idle < MAX_IDLE, f"{self.version}, isolation {self.isolation}: stands at {self.positions}"
        return dict(self.got)

    def _round(self, pending: Collection[Partition]) -> None:
        epoch = self._session[1]
        some = self.random.sample(sorted(pending), self.random.randint(1, len(pending)))
        asked, forgotten = some, list[Partition]()
        if epoch >= 0:
            forgotten = [one for one in self._in_session if one not in some]
            asked = [one for one in some if self._in_session.get(one) != self.positions[one]]
        response = self.raw.ask(self._request(asked, forgotten), self.version, FetchResponse)
        if response.error_code in LOST_SESSIONS and epoch > 0:
            self._session, self._in_session = (0, 0), {}
            return
        assert not response.error_code, response.error_code
        if epoch >= 0:
            self._in_session = {one: self.positions[one] for one in some}
            self._session = (response.session_id, epoch + 1) if response.session_id else (0, 0)
            if not response.session_id:
                self._in_session = {}
        names = {topic_id: name for name, topic_id in self.ids.items()}
        for topic in response.responses:
            for one in topic.partitions:
                self._take((topic.topic or names[topic.topic_id], one.partition_index), one, some)

    def _request(self, asked: Iterable[Partition], forgotten: Iterable[Partition]) -> FetchRequest:
        size = self.random.choice(SIZES)
        topics, left = defaultdict[str, list[FetchPartition]](list), defaultdict[str, list[int]](list)
        for name, index in asked:
            of = FetchPartition(
                partition=index, fetch_offset=self.positions[name, index], partition_max_bytes=self.random.choice(SIZES)
            )
            topics[name].append(of)
        for name, index in forgotten:
            left[name].append(index)
        session, epoch = self._session
        return FetchRequest(
            max_wait_ms=50, min_bytes=1, max_bytes=size, isolation_level=self.isolation, session_id=session,
            session_epoch=epoch,
            topics=tuple(
                FetchTopic(topic=name, topic_id=self.ids[name], partitions=tuple(parts))
                for name, parts in topics.items()
            ),
            forgotten_topics_data=tuple(
                ForgottenTopic(topic=name, topic_id=self.ids[name], partitions=tuple(parts))
                for name, parts in left.items()
            ),
        )  # fmt: skip

    def _take(self, of: Partition, answer: PartitionData, some: Collection[Partition]) -> None:
        assert of in some, f"{of} is not asked for"
        where = f"version {self.version}, isolation {self.isolation}, {of} from {self.positions[of]}"
        assert not answer.error_code, f"{where}: {answer.error_code}"
        self._high[of] = answer.high_watermark
        aborted = {(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()}
        open_ = set[int]()
        last_base = -1
        for batch in batches(bytes(answer.records or b""), may_end_early=True):
            header = batch.header
            assert header.base_offset > last_base, f"{where}: {header}"
            last_base = header.base_offset
            end = header.base_offset + header.last_offset_delta + 1
            open_ |= {producer for producer, first in aborted if first < end}
            aborted = {one for one in aborted if one[1] >= end}
            if header.is_control:
                if any(record.key == ABORT for record in batch.records()):
                    open_.discard(header.producer_id)
                self.positions[of] = max(self.positions[of], end)
                continue
            if not (self.isolation and header.is_transactional and header.producer_id in open_):
                self._records(of, batch, where)
            if self.is_coarse or (self.isolation and header.producer_id in open_):
                self.positions[of] = max(self.positions[of], end)
        assert answer.high_watermark >= self.positions[of], f"{where}: {answer.high_watermark}"
        if self.isolation:
            assert answer.last_stable_offset >= self.positions[of], f"{where}: {answer.last_stable_offset}"

    def _records(self, of: Partition, batch: Batch, where: str) -> None:
        for record in batch.records():
            offset = batch.header.base_offset + record.offset_delta
            if offset >= self.positions[of]:
                value = record.value
                self.got[of].append((offset, bytes(value) if value is not None else None))
                self.positions[of] = offset + 1


def walks(raw: Raw, seed: str, ids: Mapping[str, bytes], ends: Mapping[Partition, int], version: int) -> Iterator[Walk]:
    """Readers of random partitions from random offsets, of both isolation levels."""
    random = Random(seed)
    for isolation in (0, 1):
        some = random.sample(sorted(ends), random.randint(1, len(ends)))
        positions = {one: random.choice((0, random.randint(0, ends[one]))) for one in some}
        yield Walk(raw, random, ids, ends, positions, version, isolation)
