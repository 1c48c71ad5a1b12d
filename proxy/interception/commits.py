"""The way of a group's commit through interceptors: `pre_commit` before it leaves, `on_commit` once it has succeeded.

OffsetCommit and TxnOffsetCommit alike (KIP-547 left the latter to later). What `pre_commit` leaves out is answered with
success, as if it were written; what it adds is sent, and the client hears nothing of it.

Since TxnOffsetCommit v5 this request makes the group part of the transaction (KIP-890), and to commit a transaction of
nothing is an error. So where nothing is left, a commit is sent that the broker refuses for its metadata alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka_sidecar.codec.apis import ApiKey, ErrorCode, response_header_version
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.headers import ResponseHeader, decode_request_header
from kafka_sidecar.codec.message import decode, encode, replace_fields
from kafka_sidecar.codec.messages import offset_commit, txn_offset_commit
from kafka_sidecar.interceptors.committing import Committers
from kafka_sidecar.interceptors.contract import OffsetAndMetadata, Offsets, TopicPartition
from kafka_sidecar.proxy.interception.services import Surroundings
from kafka_sidecar.proxy.relay.exchange import Answer, Client, Exchange, Hold, Step
from kafka_sidecar.proxy.relay.frames import LENGTH, framed

NO_ID = bytes(16)
LONGEST_STRING = (1 << 15) - 1
NEVER = 1 << 15


@dataclass(frozen=True, slots=True)
class Shape:
    """The structs of one of the two APIs; they are called alike."""

    key: int
    request: type[Any]
    topic: type[Any]
    partition: type[Any]
    response: type[Any]
    answered_topic: type[Any]
    answered: type[Any]
    oldest: int
    first_with_ids: int
    first_that_joins: int  # makes the group part of the transaction


SHAPES = {
    ApiKey.OFFSET_COMMIT: Shape(
        ApiKey.OFFSET_COMMIT, offset_commit.OffsetCommitRequest, offset_commit.OffsetCommitRequestTopic,
        offset_commit.OffsetCommitRequestPartition, offset_commit.OffsetCommitResponse,
        offset_commit.OffsetCommitResponseTopic, offset_commit.OffsetCommitResponsePartition, 2, 10, NEVER,
    ),
    ApiKey.TXN_OFFSET_COMMIT: Shape(
        ApiKey.TXN_OFFSET_COMMIT, txn_offset_commit.TxnOffsetCommitRequest,
        txn_offset_commit.TxnOffsetCommitRequestTopic, txn_offset_commit.TxnOffsetCommitRequestPartition,
        txn_offset_commit.TxnOffsetCommitResponse, txn_offset_commit.TxnOffsetCommitResponseTopic,
        txn_offset_commit.TxnOffsetCommitResponsePartition, 0, 6, 5,
    ),
}  # fmt: skip

Codes = Mapping[tuple[str | bytes, int], int]  # (topic as it is named in this version, partition) -> error code


@dataclass(slots=True)
class InterceptedCommit(Exchange):
    """One commit and its response."""

    shape: Shape
    committers: Committers
    around: Surroundings
    client: Client
    version: int
    _frame: bytes = b""
    _body: int = 0
    _correlation_id: int = 0
    _request: Any = None
    _ids: dict[str, bytes] = field(default_factory=dict)
    _asked: Offsets | None = None  # what the client commits
    _offsets: Offsets | None = None  # what is sent
    _joins: bool = False  # with a commit that is refused: nothing is left

    @property
    def wants_response(self) -> bool:
        return bool(self.committers.on_commit_guards) or self._offsets is not self._asked

    def request(self, frame: bytes) -> Step:
        """Raises CodecError."""
        header, self._body = decode_request_header(frame, LENGTH.size)
        self._frame, self._correlation_id = frame, header.correlation_id
        self._request, _ = decode(self.shape.request, frame, self.version, self._body)
        return self._name_topics()

    def response(self, frame: bytes) -> bytes:
        """Raises CodecError."""
        header_version = response_header_version(self.shape.key, self.version)
        header, at = decode(ResponseHeader, frame, header_version, LENGTH.size)
        response, _ = decode(self.shape.response, frame, self.version, at)
        codes = {
            (self._key(topic), one.partition_index): one.error_code
            for topic in response.topics
            for one in topic.partitions
        }
        assert self._offsets is not None and self._asked is not None  # noqa: PT018
        committed = {
            TopicPartition(name, number): self._offsets[TopicPartition(name, number)]
            for (key, number), code in codes.items()
            if not code and (name := self._name_of(key)) is not None and (name, number) in self._offsets
        }
        self._tell(committed)
        if self._offsets.keys() == self._asked.keys():
            return frame
        return self._framed(header, replace_fields(response, topics=self._answered(codes)))

    @property
    def _by_id(self) -> bool:
        return self.version >= self.shape.first_with_ids

    def _key(self, topic: Any) -> str | bytes:
        """How the topic is named in this version."""
        key: str | bytes = topic.topic_id if self._by_id else topic.name
        return key

    def _name_of(self, key: str | bytes) -> str | None:
        if isinstance(key, str):
            return key
        return self.around.name_of(key) or next((name for name, topic_id in self._ids.items() if topic_id == key), None)

    def _name(self, topic: Any) -> str | None:
        return self._name_of(self._key(topic))

    def _name_topics(self, asked: bool = False) -> Step:
        if self._by_id:
            ids = [topic.topic_id for topic in self._request.topics]
            if not asked and any(self.around.name_of(one) is None for one in ids):
                return Hold(partial(self.around.learn, ids), partial(self._name_topics, asked=True))
        return self._intercept()

    def _known(self, request: Any) -> dict[TopicPartition, Any]:
        """The partitions of the request whose topics have a known name."""
        return {
            TopicPartition(name, one.partition_index): one
            for topic in request.topics
            if (name := self._name(topic)) is not None
            for one in topic.partitions
        }

    def _intercept(self) -> Step:
        request = self._request
        context = self.around.context(
            self.client, self.version, group_id=request.group_id, member_id=getattr(request, "member_id", None),
            group_instance_id=getattr(request, "group_instance_id", None),
            transactional_id=getattr(request, "transactional_id", None),
        )  # fmt: skip
        asked = {place: _offset(one) for place, one in self._known(request).items()}
        self._asked = Offsets(asked, context)
        self._offsets = self.committers.pre_commit(self._asked)
        new = {place.topic for place in self._offsets} - {place.topic for place in asked}
        if new and self._by_id:
            return Hold(partial(self._ask_ids, new), self._decided)
        return self._decided()

    async def _ask_ids(self, names: set[str]) -> None:
        with suppress(OSError, CodecError):
            self._ids.update(await self.around.topic_ids(names))

    def _decided(self) -> Step:
        """What goes to the broker."""
        assert self._offsets is not None and self._asked is not None  # noqa: PT018
        if self._by_id:  # what nobody can name cannot be sent
            named = {topic for topic, _ in self._asked} | self._ids.keys()
            unsent = [place for place in self._offsets if place.topic not in named]
            for place in unsent:
                self.around.observed.commits["unknown_topic"] += 1
                del self._offsets[place]
        self._count()
        if self._offsets == self._asked:
            return self._frame
        left = replace_fields(self._request, topics=self._topics())
        if not left.topics and self.version >= self.shape.first_that_joins:
            self._joins, left = True, replace_fields(self._request, topics=self._refused())
        if not left.topics:
            self._tell({})
            header = ResponseHeader(correlation_id=self._correlation_id)
            return Answer(self._framed(header, self.shape.response(topics=self._answered({}))))
        frame, self._frame = self._frame, b""
        return framed(frame[LENGTH.size : self._body], encode(left, self.version))

    def _count(self) -> None:
        assert self._offsets is not None and self._asked is not None  # noqa: PT018
        counts = self.around.observed.commits
        for place, offset in self._offsets.items():
            before = self._asked.get(place)
            counts["unchanged" if before == offset else "added" if before is None else "changed"] += 1
        if dropped := len(self._asked.keys() - self._offsets.keys()):
            counts["dropped"] += dropped

    def _topics(self) -> tuple[Any, ...]:
        """The topics to commit: the client's first, in its order."""
        assert self._offsets is not None
        left, topics = dict(self._offsets), []
        for topic in self._request.topics:
            name = self._name(topic)
            kept = []
            for one in topic.partitions:
                place = TopicPartition(name or "", one.partition_index)
                if name is None:
                    kept.append(one)
                elif (offset := left.pop(place, None)) is not None:
                    kept.append(one if offset == _offset(one) else _with(one, offset))
            if kept:
                topics.append(replace_fields(topic, partitions=tuple(kept)))
        for name in dict.fromkeys(place.topic for place in left):
            partitions = tuple(
                _with(self.shape.partition(partition_index=place.partition), offset)
                for place, offset in left.items()
                if place.topic == name
            )
            topics.append(self.shape.topic(name=name, topic_id=self._id(name), partitions=partitions))
        return tuple(topics)

    def _refused(self) -> tuple[Any, ...]:
        """One of the client's partitions with metadata that no broker takes."""
        topic = next(topic for topic in self._request.topics if topic.partitions)
        return (
            replace_fields(
                topic, partitions=(replace_fields(topic.partitions[0], committed_metadata="-" * LONGEST_STRING),)
            ),
        )

    def _id(self, name: str) -> bytes:
        known = {self._name(topic): topic.topic_id for topic in self._request.topics} if self._by_id else {}
        return known.get(name) or self._ids.get(name, NO_ID)

    def _answered(self, codes: Codes) -> tuple[Any, ...]:
        """What the client is told of each partition that it has asked for."""
        return tuple(
            self.shape.answered_topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    self.shape.answered(
                        partition_index=one.partition_index,
                        error_code=self._code(codes, topic, one.partition_index),
                    )
                    for one in topic.partitions
                ),
            )
            for topic in self._request.topics
        )

    def _code(self, codes: Codes, topic: Any, partition: int) -> int:
        """The broker's, or success for what was left out."""
        assert self._offsets is not None and self._asked is not None  # noqa: PT018
        place = TopicPartition(self._name(topic) or "", partition)
        if place in self._asked and place not in self._offsets:
            refused = next(iter(codes.values()), ErrorCode.NONE) if self._joins else ErrorCode.NONE
            return ErrorCode.NONE if refused == ErrorCode.OFFSET_METADATA_TOO_LARGE else refused
        return codes.get((self._key(topic), partition), ErrorCode.UNKNOWN_SERVER_ERROR)

    def _tell(self, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Only what has succeeded (KIP-42); a commit of nothing is not one."""
        assert self._asked is not None
        if committed:
            self.committers.on_commit(Offsets(committed, self._asked.context))

    def _framed(self, header: ResponseHeader, response: Any) -> bytes:
        before = encode(header, response_header_version(self.shape.key, self.version))
        return framed(before, encode(response, self.version))


def _offset(partition: Any) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        partition.committed_offset, partition.committed_metadata or "", partition.committed_leader_epoch
    )


def _with(partition: Any, offset: OffsetAndMetadata) -> Any:
    return replace_fields(
        partition,
        committed_offset=offset.offset,
        committed_metadata=offset.metadata,
        committed_leader_epoch=offset.leader_epoch,
    )
