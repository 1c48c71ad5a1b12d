"""Clients that would show a control batch to their application, and so must not get ours.

Such a client gets nothing in place of hidden records at the end of a partition, and asks for the same offset again; the
broker is then asked for the records that follow (`hidden_offsets`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from typing import NamedTuple

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import decode_request, open_request
from kafka_sidecar.codec.message import counter, replace_fields
from kafka_sidecar.codec.messages.fetch import FetchPartition, FetchRequest
from kafka_sidecar.plugins.effects import TURN, Steps
from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.proxy.exchanges.fetch import FIRST_WITH_IDS, FetchedPartition
from kafka_sidecar.proxy.exchanges.limits import PARTITIONS_PER_TURN, offload
from kafka_sidecar.proxy.relay.exchange import Client, TopicIds

LAST_FETCH_VERSION_WITH_MARKERS_SHOWN = 10  # kafka-go, which sends no software name, uses 2, 5 and 10
NO_TOPIC_ID = b""  # in a cluster without topic ids (KIP-516) a name is all that is known of a topic


def shows_markers(client: Client, version: int, patterns: Iterable[str]) -> bool:
    """Whether a client would show a control batch to its application.

    Args:
        version: of its Fetch requests.
        patterns: the client ids, with ``*`` and ``?``, of clients that do.
    """
    if client.client_software is None and version <= LAST_FETCH_VERSION_WITH_MARKERS_SHOWN:
        return True
    return matches(client.client_id or "", patterns)


class HeldFetch:
    """One Fetch of such a client."""

    __slots__ = (
        "_client",
        "_hidden",
        "_isolation_level",
        "_moved",
        "_name_of",
        "_positions",
        "_unconfirmed",
        "_version",
    )

    def __init__(
        self,
        client: Client,
        version: int,
        isolation_level: int,
        name_of: Callable[[bytes], str | None],
        hidden: HiddenOffsets,
    ) -> None:
        self._client = client
        self._version = version
        self._isolation_level = isolation_level
        self._name_of = name_of
        self._hidden = hidden
        self._positions: dict[tuple[str, int], FetchPosition] = {}  # by topic and partition
        self._moved: set[tuple[str, int]] = set()  # where the broker is asked for an offset after hidden records
        # Partitions of topics that may have been created again since: of those nothing is known to be hidden.
        self._unconfirmed: dict[str, list[FetchedPartition]] = {}

    def skip_hidden(self, frame: bytes) -> Steps[bytes]:
        """The request, for offsets after records that are known to be hidden."""
        count = counter(FetchRequest, self._version)(frame, open_request(frame).body_at, len(frame))
        _, body = yield from offload(partial(decode_request, FetchRequest, frame), count)
        topics = []
        for topic in body.message.topics:
            name = (self._name_of(topic.topic_id) if self._version >= FIRST_WITH_IDS else topic.topic) or ""
            partitions: list[FetchPartition] = []
            for first in range(0, len(topic.partitions), PARTITIONS_PER_TURN):
                yield TURN
                some = topic.partitions[first : first + PARTITIONS_PER_TURN]
                partitions += [self._skip_in(name, one) for one in some]
            topics.append(replace_fields(topic, partitions=tuple(partitions)))
        if not self._moved:
            return frame
        message = replace_fields(body.message, topics=tuple(topics))
        return (yield from offload(partial(body.with_message, message), count))

    def _skip_in(self, name: str, one: FetchPartition) -> FetchPartition:
        position = FetchPosition(
            _kept(self._client.client_id),
            _kept(self._client.principal),
            self._isolation_level,
            name,
            one.partition,
            one.fetch_offset,
        )
        self._positions[name, one.partition] = position
        following = self._hidden.next(position)
        if following == one.fetch_offset:
            return one
        self._moved.add((name, one.partition))
        return replace_fields(one, fetch_offset=following)

    def offset_of(self, partition: FetchedPartition) -> int:
        """The offset that the client has asked for; 0 if it has not asked for this partition."""
        position = self._position_of(partition)
        return position.offset if position is not None else 0

    def answer_empty(self, partition: FetchedPartition) -> None:
        """The broker has no records at an offset that the client did not ask for."""
        position = self._position_of(partition)
        if position is None or self._hidden.next(position) == position.offset:
            return
        error_code = partition.span.error_code
        if error_code:
            self._hidden.forget(position)
        if error_code in {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}:
            partition.error_code = ErrorCode.NONE
            partition.end_at(position.offset)

    def hide(self, partition: FetchedPartition, following: int) -> None:
        """All records up to ``following`` are hidden: answer as if the log ended where the client reads."""
        position = self._position_of(partition)
        if position is not None:
            self._hidden.hide(position, following)
            partition.high_watermark = position.offset
            self._unconfirmed.setdefault(partition.topic, [])

    def check(self, partition: FetchedPartition) -> None:
        """The partition has records: they count only if its topic is still the one of which records are hidden."""
        if (partition.topic, partition.index) in self._moved:
            self._unconfirmed.setdefault(partition.topic, []).append(partition)

    def confirm(self) -> Steps[None]:
        """If a topic was created again, what is known of hidden records is of another one: answer as if the log ended
        where the client reads.
        """
        if not self._unconfirmed:
            return
        ids = yield TopicIds(tuple(self._unconfirmed))
        if ids is None:  # as where brokers demand SASL: otherwise the client would never go on
            return
        for topic, partitions in self._unconfirmed.items():
            if not self._hidden.is_current(topic, ids.get(topic, NO_TOPIC_ID)):
                for partition in partitions:
                    partition.error_code = None
                    partition.end_at(self._positions[topic, partition.index].offset)

    def _position_of(self, partition: FetchedPartition) -> FetchPosition | None:
        return self._positions.get((partition.topic, partition.index))


MAX_KEPT = 10_000
MAX_KEPT_NAME = 249  # characters


def _kept(name: str | None) -> str | None:
    """What is kept of a client id, which may have 32 KB, or of a principal: of a long one its hash."""
    if name is None or len(name) <= MAX_KEPT_NAME:
        return name
    return sha256(name.encode(errors="surrogatepass")).hexdigest()


class FetchPosition(NamedTuple):
    """Where a client reads: interceptors may hide from one what they show to another."""

    client_id: str | None
    principal: str | None
    isolation_level: int
    topic: str
    partition: int
    offset: int  # that the client asks for


class HiddenOffsets:
    """The offset from which on records are not known to be hidden, by the position that a client asks for."""

    def __init__(self) -> None:
        self._next: OrderedDict[FetchPosition, int] = OrderedDict()
        self._positions: dict[str, set[FetchPosition]] = {}  # of these, by topic
        self._ids: OrderedDict[str, bytes] = OrderedDict()  # of the topics for which something is known

    def next(self, position: FetchPosition) -> int:
        """The offset to ask the broker for."""
        following = self._next.pop(position, None)
        if following is None:
            return position.offset
        self._next[position] = following
        return following

    def hide(self, position: FetchPosition, following: int) -> None:
        """All records from the position up to ``following``, exclusive, are hidden."""
        self._next[position] = max(following, self._next.pop(position, 0))
        self._positions.setdefault(position.topic, set()).add(position)
        if len(self._next) > MAX_KEPT:
            self.forget(next(iter(self._next)))

    def forget(self, position: FetchPosition) -> None:
        """The broker has nothing there: the log has changed."""
        if self._next.pop(position, None) is None:
            return
        of_topic = self._positions[position.topic]
        of_topic.discard(position)
        if not of_topic:
            del self._positions[position.topic]

    def is_current(self, topic: str, topic_id: bytes) -> bool:
        """Whether what is known of a topic holds for the one with this id; if not, it is forgotten."""
        if self._ids.get(topic) == topic_id:
            return True
        for position in self._positions.pop(topic, ()):
            del self._next[position]
        self._ids.pop(topic, None)
        self._ids[topic] = topic_id
        if len(self._ids) > MAX_KEPT:
            self._ids.popitem(last=False)
        return False
