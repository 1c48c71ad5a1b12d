"""OffsetCommit and TxnOffsetCommit: what a group commits, taken through stages before it is sent and once it succeeded.

    request --> topics named --> pre_commit of each stage --> spliced request --> broker
    client <-- response to what it has asked for <-- on_commit of each stage <-- broker's response

What a stage leaves out is answered with success, as if it were written; what it adds is sent and does not appear in the
client's response (KIP-547). Since TxnOffsetCommit v5 this request makes the group part of the transaction (KIP-890),
and to commit a transaction of nothing is an error: where nothing is left, one offset is sent that the broker rejects
for its metadata alone (docs/decisions/0011).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.message import Message, first_version, replace_fields
from kafka_sidecar.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_sidecar.codec.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.codec.wire import MAX_STRING_BYTES, NO_ID
from kafka_sidecar.plugins.effects import Steps, TimeLeft, Work
from kafka_sidecar.plugins.values import Context, OffsetAndMetadata, Offsets, TopicPartition
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import MessageRun, OpenMessage, resolve
from kafka_sidecar.proxy.relay.exchange import Client, TopicIds

T = TypeVar("T")
TopicKey = str | bytes  # how this version gives a topic: by its name or its id
Codes = Mapping[tuple[TopicKey, int], int]  # by topic and partition


class Stage(Protocol):
    """What a feature does with commits."""

    @property
    def counts(self) -> Counter[str] | None:
        """Of offsets by their fate in this stage: unchanged, changed, added, dropped, unknown_topic, timed_out.

        None: they are not counted.
        """
        ...

    @property
    def wants_result(self) -> bool:
        """Whether `on_commit` does anything."""
        ...

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """What is to be committed instead."""
        ...

    def on_commit(self, offsets: Offsets) -> None:
        """Of what `pre_commit` has given back, the part that is committed now; never empty."""
        ...

    def takes_long(self, partitions: int) -> bool:
        """Whether these two would keep others waiting, with so many partitions: then a thread calls them."""
        ...

    def time_left(self) -> TimeLeft | None:
        """What a thread may take for one request or response."""
        ...


class Commits:
    """The stage of one of the two APIs that takes offsets through stages of D8, in their order."""

    def __init__(
        self, key: int, stages: Sequence[Stage], name_of: Callable[[bytes], str | None], clock: Callable[[], int]
    ) -> None:
        """
        Args:
            name_of: a topic's name by its id, as far as it is known here.
            clock: ms since 1970.
        """
        self.stages = stages
        self.name_of = name_of
        self.clock = clock
        self._key = key

    def __call__(self, client: Client, version: int) -> CommitRun | None:
        """Every commit is read: its topics are not known before. None: a version that cannot be."""
        api = commit_api(self._key, version)
        return CommitRun(self, api, version, client) if api is not None else None


class CommitRun(MessageRun):
    """One commit and its response."""

    __slots__ = (
        "_api", "_asked", "_client", "_given", "_joins", "_names", "_partitions", "_sent", "_shared", "_topics",
        "_version",
    )  # fmt: skip

    def __init__(self, shared: Commits, api: CommitApi, version: int, client: Client) -> None:
        self._shared = shared
        self._api = api
        self._version = version
        self._client = client
        self._topics: Sequence[Topic] = ()  # of the request
        self._names: dict[TopicKey, str] = {}  # of topics in the request and of those that were added to it
        self._asked: Mapping[TopicPartition, OffsetAndMetadata] = {}  # what the client commits
        self._sent: Mapping[TopicPartition, OffsetAndMetadata] = {}
        self._given: list[Offsets] = []  # what each stage has given back
        self._partitions = 0  # of the request
        self._joins = False  # nothing is left, and one offset is sent to be rejected

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        message: Request = yield from request.read(self._api.request)
        self._partitions = request.elements
        self._topics = message.topics
        yield from resolve((key for key in self._keys() if isinstance(key, bytes)), self._name_of)
        self._names = {key: name for key in self._keys() if (name := self._name_of(key)) is not None}
        offsets = yield from self._pre_commit(message)
        if new := {place.topic for place in offsets} - set(self._names.values()):
            offsets = yield from self._name_added(offsets, sorted(new))
        self._sent = offsets
        self._count()
        if self._sent == self._asked:
            return None
        topics = yield from offload(self._topics_to_send, self._partitions)
        if not topics and self._version >= self._api.first_that_joins:
            self._joins, topics = True, self._rejected_topic()
        if not topics:
            return self._api.response(topics=self._results({}))
        request.replace(replace_fields(message, topics=topics))
        return None

    def _pre_commit(self, request: Request) -> Steps[Offsets]:
        """What the stages make of the client's offsets; those of one that takes too long are left as they are."""
        asked = yield from offload(partial(self._offsets_in, self._topics), self._partitions)
        self._asked = offsets = Offsets(asked, self._context_of(request))
        for stage in self._shared.stages:
            try:
                offsets = yield from self._call(stage, partial(stage.pre_commit, offsets), len(offsets))
            except TimeoutError:
                if stage.counts is not None:
                    stage.counts["timed_out"] += len(offsets)
            self._given.append(offsets)
        return offsets

    def _call(self, stage: Stage, hook: Callable[[], T], partitions: int, must_run: bool = False) -> Steps[T]:
        if not stage.takes_long(partitions):
            return (yield from offload(hook, partitions))
        result: T = yield Work(hook, must_run=must_run, is_light=True, limit=stage.time_left())
        return result

    def response(self, response: OpenMessage) -> Steps[None]:
        message = yield from response.read(self._api.response)
        work = partial(self._answer, message)
        answer, committed = yield from offload(work, max(self._partitions, response.elements))
        if answer is not message:
            response.replace(answer)
        yield from self._report(committed)

    def _answer(self, message: Response) -> tuple[Response, Collection[TopicPartition]]:
        """The response to what the client has asked for, and what is committed."""
        codes = {
            (self._key(topic), one.partition_index): one.error_code
            for topic in message.topics
            for one in topic.partitions
        }
        committed = {
            TopicPartition(self._names[key], partition)
            for (key, partition), code in codes.items()
            if code == ErrorCode.NONE and key in self._names
        }
        committed &= self._sent.keys()
        if self._sent.keys() == self._asked.keys():
            return message, committed
        return replace_fields(message, topics=self._results(codes)), committed

    @property
    def wants_response(self) -> bool:
        return self._sent.keys() != self._asked.keys() or any(stage.wants_result for stage in self._shared.stages)

    @property
    def _by_id(self) -> bool:
        return self._version >= self._api.first_with_ids

    def _key(self, topic: Any) -> TopicKey:
        key: TopicKey = topic.topic_id if self._by_id else topic.name
        return key

    def _keys(self) -> Iterator[TopicKey]:
        return map(self._key, self._topics)

    def _name_of(self, key: TopicKey) -> str | None:
        """None for a name that no topic can have, too: its offsets are forwarded unseen, for the broker to reject."""
        if isinstance(key, bytes):
            return self._shared.name_of(key)
        return key if is_topic_name(key) else None

    def _context_of(self, request: Request) -> Context:
        client = self._client
        return Context(
            self._shared.clock,
            client.number,
            client.client_id,
            client.client_software,
            client.principal,
            group_id=request.group_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            transactional_id=request.transactional_id if isinstance(request, TxnOffsetCommitRequest) else None,
            api_version=self._version,
            generation_id=request.generation_id_or_member_epoch,
            host=client.host,
        )

    def _offsets_in(self, topics: Sequence[Topic]) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets of topics whose name is known; invalid ones are forwarded unseen: no stage must fail on them."""
        return {
            TopicPartition(name, one.partition_index): _offset_of(one)
            for topic in topics
            if (name := self._names.get(self._key(topic))) is not None
            for one in topic.partitions
            if _is_valid(one)
        }

    def _name_added(self, offsets: Offsets, new: Sequence[str]) -> Steps[Offsets]:
        """What can be sent of offsets for topics that the client does not name: since topics are given by their ids,
        only those whose id the cluster knows.
        """
        if not self._by_id:
            self._names |= {name: name for name in new}
            return offsets
        ids = (yield TopicIds(tuple(new))) or {}
        asked = set(self._keys())
        ids = {name: topic_id for name, topic_id in ids.items() if topic_id not in asked}
        self._names |= {topic_id: name for name, topic_id in ids.items()}
        unknown = {name for name in new if name not in ids}
        kept = {place: offset for place, offset in offsets.items() if place.topic not in unknown}
        return Offsets(kept, offsets.context)

    def _count(self) -> None:
        before = self._asked
        for stage, after in zip(self._shared.stages, self._given, strict=True):
            if stage.counts is not None:
                stage.counts.update(self._changes(before, after))
            before = after

    def _changes(self, before: Mapping[TopicPartition, OffsetAndMetadata], after: Offsets) -> Counter[str]:
        """What has become of offsets from one stage to the next."""
        changes: Counter[str] = Counter()
        for place, offset in after.items():
            old = before.get(place)
            if old is None:
                changes["added" if place in self._sent else "unknown_topic"] += 1
            else:
                changes["unchanged" if old == offset else "changed"] += 1
        if dropped := len(before.keys() - after.keys()):
            changes["dropped"] += dropped
        return changes

    def _topics_to_send(self) -> tuple[Topic, ...]:
        """The client's topics in their order with what is left of them, then those that were added."""
        left, topics = dict(self._sent), []
        for topic in self._topics:
            name, kept = self._names.get(self._key(topic)), []
            for one in topic.partitions:
                if name is None or not _is_valid(one):
                    kept.append(one)
                elif (offset := left.pop(TopicPartition(name, one.partition_index), None)) is not None:
                    kept.append(one if offset == _offset_of(one) else _with_offset(one, offset))
            if kept:
                topics.append(replace_fields(topic, partitions=tuple(kept)))
        keys = {name: key for key, name in self._names.items()}
        added: dict[str, list[Any]] = {}
        for place, offset in left.items():
            partition = self._api.request_partition(partition_index=place.partition)
            added.setdefault(place.topic, []).append(_with_offset(partition, offset))
        for name, partitions in added.items():
            key = keys[name]
            topic_id = key if isinstance(key, bytes) else NO_ID
            topics.append(self._api.request_topic(name=name, topic_id=topic_id, partitions=tuple(partitions)))
        return tuple(topics)

    def _rejected_topic(self) -> tuple[Topic, ...]:
        """One of the client's partitions, with metadata that no broker takes."""
        topic = next(topic for topic in self._topics if topic.partitions)
        one = replace_fields(topic.partitions[0], committed_metadata="-" * MAX_STRING_BYTES)
        return (replace_fields(topic, partitions=(one,)),)

    def _results(self, codes: Codes) -> tuple[Any, ...]:
        """A result for each partition that the client has asked for."""
        return tuple(self._result_of(topic, codes) for topic in self._topics)

    def _result_of(self, topic: Topic, codes: Codes) -> Any:
        key, api = self._key(topic), self._api
        partitions: tuple[Any, ...] = tuple(
            api.response_partition(partition_index=index, error_code=self._code_of(codes, key, index))
            for index in (one.partition_index for one in topic.partitions)
        )
        return api.response_topic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)

    def _code_of(self, codes: Codes, key: TopicKey, partition: int) -> int:
        """The broker's error code, or success for removed offsets."""
        place = TopicPartition(self._names.get(key, ""), partition)
        if place not in self._asked or place in self._sent:
            return codes.get((key, partition), ErrorCode.UNKNOWN_SERVER_ERROR)
        code = next(iter(codes.values()), ErrorCode.NONE) if self._joins else ErrorCode.NONE
        return ErrorCode.NONE if code == ErrorCode.OFFSET_METADATA_TOO_LARGE else code

    def _report(self, committed: Collection[TopicPartition]) -> Steps[None]:
        """Only what has succeeded is a commit (KIP-42), and nothing is none."""
        for stage, given in zip(self._shared.stages, self._given, strict=True):
            offsets = {place: offset for place, offset in given.items() if place in committed}
            if offsets and stage.wants_result:
                hook = partial(stage.on_commit, Offsets(offsets, given.context))
                with suppress(TimeoutError):  # the thread still calls it; the client must not wait for that
                    yield from self._call(stage, hook, len(offsets), must_run=True)


_SURROGATE = re.compile("[\ud800-\udfff]")  # of a byte that is not UTF-8


def _is_valid(partition: Partition) -> bool:
    """Whether a client that keeps to the protocol could have sent it."""
    is_in_range = partition.partition_index >= 0 and partition.committed_offset >= 0
    text = partition.committed_metadata
    return is_in_range and partition.committed_leader_epoch >= -1 and not (text and _SURROGATE.search(text))


def _offset_of(partition: Partition) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        partition.committed_offset, partition.committed_metadata or "", partition.committed_leader_epoch
    )


def _with_offset(partition: Partition, offset: OffsetAndMetadata) -> Partition:
    return replace_fields(
        partition,
        committed_offset=offset.offset,
        committed_metadata=offset.metadata,
        committed_leader_epoch=offset.leader_epoch,
    )


NEVER = 1 << 15  # no version

Request = OffsetCommitRequest | TxnOffsetCommitRequest
Topic = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic
Partition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
Response = OffsetCommitResponse | TxnOffsetCommitResponse


@dataclass(frozen=True, slots=True)
class CommitApi:
    """The messages of one of the two APIs; their fields have the same names."""

    request: type[Request]
    request_topic: type[Topic]
    request_partition: type[Partition]
    response: type[Response]
    response_topic: type[OffsetCommitResponseTopic | TxnOffsetCommitResponseTopic]
    response_partition: type[OffsetCommitResponsePartition | TxnOffsetCommitResponsePartition]
    first_with_ids: int
    first_that_joins: int  # makes the group part of the transaction


COMMIT_APIS: Mapping[int, CommitApi] = {
    ApiKey.OFFSET_COMMIT: CommitApi(
        request=OffsetCommitRequest,
        request_topic=OffsetCommitRequestTopic,
        request_partition=OffsetCommitRequestPartition,
        response=OffsetCommitResponse,
        response_topic=OffsetCommitResponseTopic,
        response_partition=OffsetCommitResponsePartition,
        first_with_ids=first_version(OffsetCommitRequestTopic, "topic_id"),
        first_that_joins=NEVER,
    ),
    ApiKey.TXN_OFFSET_COMMIT: CommitApi(
        request=TxnOffsetCommitRequest,
        request_topic=TxnOffsetCommitRequestTopic,
        request_partition=TxnOffsetCommitRequestPartition,
        response=TxnOffsetCommitResponse,
        response_topic=TxnOffsetCommitResponseTopic,
        response_partition=TxnOffsetCommitResponsePartition,
        first_with_ids=first_version(TxnOffsetCommitRequestTopic, "topic_id"),
        first_that_joins=5,
    ),
}


def commit_api(key: int, version: int) -> CommitApi | None:
    """The API of these requests if they are commits of a version that can be read."""
    api = COMMIT_APIS.get(key)
    versions = api.request.declaration_.versions if api is not None else None
    return api if versions is not None and version in versions else None
