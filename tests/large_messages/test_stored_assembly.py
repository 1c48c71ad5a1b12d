"""Messages that are written to a store, as consumers get them: the same as from memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from support.large_logs import Log, Process, shown

from kafka_sidecar.codec.message import Buffer
from kafka_sidecar.codec.records import batches
from kafka_sidecar.large_messages.cache import SegmentCache
from kafka_sidecar.large_messages.delivery import ResponseRoom
from kafka_sidecar.large_messages.stored_assembly import Store

VALUE = bytes(range(256)) * 40
GZIP = 1


@dataclass
class Memory(Store):
    """A store that notes how it is used."""

    size: int
    has_room: bool = True
    fails_at: int = -1  # bytes
    read_bytes: int = 2000
    data: bytearray = field(default_factory=bytearray)
    writes: list[tuple[int, int]] = field(default_factory=list)

    def open(self) -> bool:
        return self.has_room

    def write(self, at: int, data: Buffer) -> bool:
        assert at <= len(self.data)
        self.writes.append((at, len(data)))
        self.data[at : at + len(data)] = data
        return at != self.fails_at

    @property
    def value(self) -> Buffer:
        assert len(self.data) == self.size
        return memoryview(self.data)


@dataclass
class Rooms:
    """What a response reserves."""

    store: Memory
    reserved: list[int] = field(default_factory=list)

    @property
    def room(self) -> ResponseRoom:
        return ResponseRoom(50 << 20, self.reserved.append, store=lambda size: self.store)


def fetched(process: Process, rooms: Rooms, offset: int = 0) -> list[tuple[int, bytes | None]]:
    data = process.fetch(offset, room=rooms.room).records(with_marker=True)
    assert all(batch.crc_is_right() for batch in batches(data or b""))
    return shown(data, offset)


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("cache", [0, 3000, 1 << 20])
@pytest.mark.parametrize("offset", [0, 6, 11])
def test_a_message_from_a_store_is_what_was_sent(codec: int, cache: int, offset: int) -> None:
    log = Log()
    log.add(b"first")
    log.add_large(VALUE, 11, 1, codec)
    log.add(b"last")
    rooms = Rooms(Memory(len(VALUE)))
    found = fetched(Process(log, cache=SegmentCache(cache)), rooms, offset)
    assert found == [one for one in [(0, b"first"), (11, VALUE), (12, b"last")] if one[0] >= offset]
    assert rooms.reserved == []
    ends = [at + size for at, size in rooms.store.writes]
    assert [0, *ends] == [*(at for at, _ in rooms.store.writes), len(VALUE)]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 0, 2, 1), (2, 1, 3, 0)])
def test_segments_of_li_in_any_order_are_written_in_theirs(order: tuple[int, ...]) -> None:
    log = Log()
    *_, last = log.add_segments(VALUE, 4, 1, order)
    rooms = Rooms(Memory(len(VALUE)))
    assert fetched(Process(log, cache=SegmentCache(0)), rooms) == [(last, VALUE)]
    assert bytes(rooms.store.data) == VALUE


@pytest.mark.parametrize("store", [Memory(len(VALUE), has_room=False), Memory(len(VALUE), fails_at=2048)])
def test_a_message_for_which_the_store_fails_is_assembled_in_memory(store: Memory) -> None:
    log = Log()
    log.add_large(VALUE, 11, 1)
    rooms = Rooms(store)
    assert fetched(Process(log), rooms) == [(10, VALUE)]
    assert rooms.reserved == [len(VALUE)]


def test_a_damaged_message_is_dropped() -> None:
    log = Log()
    log.add(b"first")
    log.add_large(VALUE, 11, 1, crc=1)
    log.add(b"last")
    assert fetched(Process(log), Rooms(Memory(len(VALUE)))) == [(0, b"first"), (12, b"last")]
    assert log.reports[-1][:1] == ("dropped",)


def test_a_message_whose_segments_are_not_there_is_dropped() -> None:
    log = Log()
    log.add_large(VALUE, 11, 1)
    del log.batches[4]
    assert fetched(Process(log), Rooms(Memory(len(VALUE)))) == []
    assert log.reports[-1] == ("dropped", 10, "missing")


def test_after_the_deadline_of_a_client_the_next_request_goes_on_where_the_first_has_stopped() -> None:
    log = Log()
    log.add_large(VALUE, 11, 1)
    log.late_after = 2
    process, rooms = Process(log, cache=SegmentCache(0)), Rooms(Memory(len(VALUE)))
    assert fetched(process, rooms) == []
    written = len(rooms.store.data)
    assert 0 < written < len(VALUE)
    log.late_after = None
    assert fetched(process, rooms) == [(10, VALUE)]
    assert [at for at, _ in rooms.store.writes].count(0) == 1
