"""Where a client reads: the offsets and limits of its Fetch requests, across those of a fetch session (KIP-227).

A request that continues a session names the partitions alone of which something has changed.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_sidecar.codec.envelope import decode_request
from kafka_sidecar.codec.messages.fetch import FetchRequest
from kafka_sidecar.proxy.exchanges.fetch_requests import FIRST_WITH_IDS

UNKNOWN = 2**31 - 1


class FetchPosition(NamedTuple):
    """What a client asks for of one partition."""

    offset: int = 0
    max_bytes: int = UNKNOWN


NOWHERE = FetchPosition()


class FetchPositions:
    """The positions of one client, as far as this connection has seen its requests."""

    __slots__ = ("_positions", "is_committed_only", "max_bytes", "max_wait_ms")

    def __init__(self, frame: bytes, version: int, before: object | None) -> None:
        """
        Args:
            frame: of the request.
            version: of the request.
            before: the positions of the request before this one on the same connection.

        Raises:
            CodecError: the frame cannot be read.
        """
        request = decode_request(FetchRequest, frame)[1].message
        self.is_committed_only = request.isolation_level == 1
        self.max_wait_ms = request.max_wait_ms
        self.max_bytes = request.max_bytes
        known = before._positions if isinstance(before, FetchPositions) and request.session_epoch > 0 else {}
        self._positions: dict[tuple[str | bytes, int], FetchPosition] = dict(known)
        by_id = version >= FIRST_WITH_IDS
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                self._positions.pop((topic.topic_id if by_id else topic.topic, index), None)
        for named in request.topics:
            key = named.topic_id if by_id else named.topic
            for one in named.partitions:
                self._positions[key, one.partition] = FetchPosition(one.fetch_offset, one.partition_max_bytes)

    def of(self, key: str | bytes, index: int) -> FetchPosition:
        """The position in a partition. ``key`` is the topic's name, or since v13 its id."""
        return self._positions.get((key, index), NOWHERE)
