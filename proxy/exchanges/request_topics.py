"""Which topics a Produce request names, without reading more of it than that; and how any request names one.

acks int16 | timeout int32 | number of topics | name or id, partitions with their records | ...
"""

from __future__ import annotations

from functools import cache

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Skipper, skipper
from kafka_sidecar.codec.messages.produce import TopicProduceData
from kafka_sidecar.codec.wire import uvarint
from kafka_sidecar.proxy.relay.acks import acks_at

OLDEST, FIRST_FLEXIBLE, FIRST_WITH_IDS = 3, 9, 13
BEFORE_TOPICS = 6
ID_SIZE = 16

Topics = tuple[str | bytes, ...]  # names, or since v13 16-byte ids


def topics_named(version: int, data: bytes, at: int, size: int) -> tuple[Topics, int]:
    """The topics of the Produce request of ``size`` bytes at data[at], and where the name of the last one ends.

    None at all where too little of the request is here, or it cannot be read. The first name is enough of a request
    with one topic; of several, all of it must be here.
    """
    try:
        found = acks_at(version, data, at, size)
        if found is None:
            return (), at
        count, here = number_of_topics(data, found + BEFORE_TOPICS, version >= FIRST_FLEXIBLE)
        if count != 1 and len(data) < at + size:
            return (), at
        topics: list[str | bytes] = []
        end = here
        while len(topics) < count:
            name, end = topic_named(data, here, version >= FIRST_FLEXIBLE, version >= FIRST_WITH_IDS)
            if end > at + size:
                return (), at
            topics.append(name)
            if len(topics) < count:
                here = _over_partitions(version)(data, end)
    except (CodecError, IndexError, ValueError):
        return (), at
    return (tuple(topics), end) if topics else ((), at)


@cache
def _over_partitions(version: int) -> Skipper:
    return skipper(TopicProduceData, version, after="topic_id" if version >= FIRST_WITH_IDS else "name")


def number_of_topics(data: bytes, at: int, flexible: bool) -> tuple[int, int]:
    """And where the first one is; -1: null. Raises CodecError."""
    if not flexible:
        return int.from_bytes(data[at : at + 4], "big", signed=True), at + 4
    count, at = uvarint(data, at)
    return count - 1, at


def topic_named(data: bytes, at: int, flexible: bool, by_id: bool) -> tuple[str | bytes, int]:
    """A topic's name or id at data[at], and where that ends.

    Raises:
        CodecError, IndexError: it is not all here.
        UnicodeDecodeError: it is no text.
    """
    length = ID_SIZE
    if not flexible:
        length, at = int.from_bytes(data[at : at + 2], "big"), at + 2
    elif not by_id:
        length, at = uvarint(data, at)
        length -= 1
    if length < 0 or at + length > len(data):
        raise IndexError
    name = data[at : at + length]
    return name if by_id else name.decode(), at + length
