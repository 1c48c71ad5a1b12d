"""How many records a Produce request sends, by batch headers alone, and what its response says of them.

This file runs as it is and compiled (produce_counts.pxd holds the C types).
"""

from __future__ import annotations

from functools import cache

from kafka_sidecar.codec.message import fixed_start, has_field, plan
from kafka_sidecar.codec.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafka_sidecar.codec.records_walk import Walked

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.cursor import cursor_at, read_big_endian
    from kafka_sidecar.codec.records_walk import RecordsWalk
else:
    from cython.cimports.kafka_sidecar.codec.cursor import (  # type: ignore[no-redef]
        cursor_at,
        read_big_endian,
    )
    from cython.cimports.kafka_sidecar.codec.records_walk import RecordsWalk  # type: ignore[no-redef]

NOT_ANSWERED = -2  # in place of an error code; -1 is Kafka's UNKNOWN_SERVER_ERROR
NO_OFFSET = NO_TIME = NOWHERE = -1
MAX_SCANNED = 64  # batches of a request that are looked for one by one
# For C.
_NOT_ANSWERED, _NO_OFFSET, _NO_TIME, _NOWHERE, _MAX_SCANNED = NOT_ANSWERED, NO_OFFSET, NO_TIME, NOWHERE, MAX_SCANNED


_REQUEST = Walked(
    ProduceRequest, "topic_data", TopicProduceData, PartitionProduceData, is_request=True, may_end_early=False
)


class Sent:
    """A batch of a Produce request, and what the response says of its partition."""

    __slots__ = (
        "append_time", "base_offset", "count", "crc", "error", "index", "key", "latency_s", "owner", "result", "size",
        "timestamp",
    )  # fmt: skip

    key: str | bytes  # the topic's name, or since v13 its id of 16 bytes
    index: int
    count: int
    size: int
    timestamp: int  # the greatest, ms since 1970
    crc: int  # 0 where a broker recognises the batch if it comes again: of an idempotent producer, and in old formats
    error: int
    base_offset: int
    append_time: int  # ms; only where the broker sets the time (LogAppendTime)
    # For who counts it later.
    owner: object
    result: object
    latency_s: float


def new_sent(key: str | bytes, index: int) -> Sent:
    """A batch of this partition, of which nothing more is known."""
    one = Sent.__new__(Sent)
    one.key, one.index = key, index
    one.error, one.base_offset, one.append_time = _NOT_ANSWERED, _NO_OFFSET, _NO_TIME
    one.owner = one.result = None
    one.latency_s = 0
    return one


class ProduceWalk(RecordsWalk):
    """A Produce request from its length on; `rows` are `Sent`, one for each batch."""

    __slots__ = ()

    def __init__(self, version: int) -> None:
        self._open(_REQUEST, version)

    def _add(
        self, base: int, delta: int, count: int, size: int, timestamp: int, attributes: int, producer_id: int
    ) -> None:
        one = new_sent(self._key, self._index)
        self.rows.append(one)
        one.count, one.size, one.timestamp = count, size, timestamp
        one.crc = self._crc if producer_id < 0 else 0


def acknowledge(sent: list[Sent], data: bytes, at: int, end: int, version: int) -> None:
    """Note what the Produce response data[at:end], which begins with its length, says of the batches.

    Raises:
        CodecError: these bytes are no such response; some of the batches may have been noted.
    """
    flexible, by_id, to_topics, size, error_at, base_at, time_at, after = _response_layout(version)
    cursor = cursor_at(data, at, end, flexible)
    places = _places(sent) if len(sent) > _MAX_SCANNED else None
    place = 0
    key = sent[0].key if sent else None
    cursor.skip_response_header()
    cursor.follow(to_topics)
    for _ in range(cursor.length(4, False, "responses")):
        key = cursor.topic(by_id, key)
        for _ in range(cursor.length(4, False, "partition_responses")):
            here = cursor.take(size)
            index, error = read_big_endian(data, here, 4), read_big_endian(data, here + error_at, 2)
            base = read_big_endian(data, here + base_at, 8)
            time = read_big_endian(data, here + time_at, 8) if time_at else _NO_TIME
            cursor.follow(after)
            place = _place(sent, key, index, place) if places is None else places.get((key, index), _NOWHERE)
            place = _note(sent, place, error, base, time)
        cursor.skip_tags()


def produce_errors(data: bytes, at: int, end: int, version: int) -> list[int]:
    """The error codes of the partitions in the Produce response data[at:end], which begins with its length.

    Raises:
        CodecError: these bytes are no such response.
    """
    flexible, by_id, to_topics, size, error_at, _, _, after = _response_layout(version)
    cursor = cursor_at(data, at, end, flexible)
    found: list[int] = []
    cursor.skip_response_header()
    cursor.follow(to_topics)
    for _ in range(cursor.length(4, False, "responses")):
        cursor.topic(by_id)
        for _ in range(cursor.length(4, False, "partition_responses")):
            found.append(read_big_endian(data, cursor.take(size) + error_at, 2))
            cursor.follow(after)
        cursor.skip_tags()
    return found


@cache
def _response_layout(version: int) -> tuple[bool, bool, bytes, int, int, int, int, bytes]:
    """Whether it is flexible, and names topics by id; the plan to the topics; the size of a partition's fixed fields,
    where its error, offset and time (0: none) are in these, and the plan of what follows them."""
    size, places, after = fixed_start(PartitionProduceResponse, version)
    return (
        ProduceResponse.declaration_.is_flexible(version),
        has_field(TopicProduceResponse, "topic_id", version),
        plan(ProduceResponse, version, before="responses"),
        size,
        places["error_code"],
        places["base_offset"],
        places.get("log_append_time_ms", 0),
        after,
    )


def _places(sent: list[Sent]) -> dict[tuple[str | bytes, int], int]:
    """Where the first batch of each partition is."""
    found: dict[tuple[str | bytes, int], int] = {}
    for place, one in enumerate(sent):
        found.setdefault((one.key, one.index), place)
    return found


def _place(sent: list[Sent], key: str | bytes, index: int, place: int) -> int:
    """Where the first batch of a partition is. Responses have nearly the order of the request: look from ``place``."""
    size = len(sent)
    for _ in range(size):
        if place >= size:
            place = 0
        one = sent[place]
        if one.index == index and (one.key is key or one.key == key):
            return place
        place += 1
    return _NOWHERE


def _note(sent: list[Sent], place: int, error: int, base: int, time: int) -> int:
    """Note it of the batches of one partition, which follow each other; where the next partition's are."""
    if place < 0:
        return 0
    first = sent[place]
    while place < len(sent):
        one = sent[place]
        if one.index != first.index or (one.key is not first.key and one.key != first.key):
            break
        one.error, one.base_offset, one.append_time = error, base, time
        if base >= 0:
            base += one.count
        place += 1
    return place
