"""A ShareFetch request and its response (KIP-932), taken through the stages of design D8.

    client <-- encoded <-- each partition with records: every stage <-- topics named <-- decoded <-- response

The request passes as it is: the topics of a share session are known to the broker alone, so every response is looked
into while interceptors see consumed records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import decode_response
from kafka_sidecar.codec.message import replace_fields
from kafka_sidecar.codec.messages.share_fetch import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kafka_sidecar.plugins.effects import TURN, Steps
from kafka_sidecar.proxy.exchanges.fetch import Sees
from kafka_sidecar.proxy.exchanges.limits import PARTITIONS_PER_TURN, Limits
from kafka_sidecar.proxy.exchanges.messages import MessageRun, OpenMessage, resolve
from kafka_sidecar.proxy.relay.exchange import NO_LARGE, Client, FindsLarge, all_large


class AcquiredPartition:
    """The records of one partition, and which of them the member has acquired, as the stages before have left them.

    A stage that changes nothing calls nothing: only `replace` puts other records in the place of those that came.
    """

    __slots__ = ("_data", "_records", "acquired", "error_code", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: bytes, data: PartitionData) -> None:
        self._data = data
        self.topic = topic
        self.topic_id = topic_id
        self._records: bytes | memoryview | None = data.records
        self.acquired = data.acquired_records
        self.error_code = data.error_code

    @property
    def index(self) -> int:
        return self._data.partition_index

    @property
    def records(self) -> bytes | memoryview:
        return self._records if self._records is not None else b""

    def replace(self, records: bytes | memoryview) -> None:
        """Give the member these records instead. The stages that follow see them."""
        self._records = records

    def release_from(self, offset: int) -> None:
        """The member does not get what it has acquired from this offset on: it cannot acknowledge that, and the broker
        delivers it again when the acquisition lock has timed out."""
        self.acquired = tuple(
            one if one.last_offset < offset else replace_fields(one, last_offset=offset - 1)
            for one in self.acquired
            if one.first_offset < offset
        )

    def closed(self) -> PartitionData:
        """What the client gets; the same object if nothing is different."""
        data = self._data
        is_same = self._records is data.records and self.acquired is data.acquired_records
        if is_same and self.error_code == data.error_code:
            return data
        return replace_fields(data, records=self._records, acquired_records=self.acquired, error_code=self.error_code)


class StageRun(FindsLarge, Protocol):
    """One stage at work on one response."""

    restores: bool  # whether it puts in place what producers have sent, and hides nothing of that

    def wants(self, topic: str) -> bool:
        """Whether `partition` is to be called for the records of this topic."""
        ...

    def partition(self, partition: AcquiredPartition) -> Steps[None]:
        """Do the stage's part."""
        ...


class Stage(Protocol):
    """What a feature does with ShareFetch requests."""

    sees: Sees = Sees.CHANGED

    def start(self, client: Client, version: int) -> StageRun:
        """Begin with a request of this client."""
        ...


class LimitedResponse(MessageRun):
    """Asks for no larger response than may be buffered, whichever stages there are beside it."""

    __slots__ = ("_max_bytes",)

    def __init__(self, limits: Limits, client: Client, version: int) -> None:
        self._max_bytes = limits.max_response

    def request(self, request: OpenMessage) -> Steps[None]:
        asked = yield from request.read(ShareFetchRequest)
        if asked.max_bytes > self._max_bytes:
            request.replace(replace_fields(asked, max_bytes=self._max_bytes))


class AcquiredRecords:
    """The stage of ShareFetch that takes the records of each partition through stages of D8, in their order."""

    def __init__(self, stages: Sequence[Stage], name_of: Callable[[bytes], str | None]) -> None:
        self.stages = stages
        self._name_of = name_of

    def __call__(self, client: Client, version: int) -> AcquiredRecordsRun:
        runs = [stage.start(client, version) for stage in self.stages]
        return AcquiredRecordsRun(runs, self._name_of, version)


class AcquiredRecordsRun(MessageRun):
    """One ShareFetch request and its response."""

    __slots__ = ("_name_of", "_restored", "_runs", "_version", "large")

    def __init__(self, runs: Sequence[StageRun], name_of: Callable[[bytes], str | None], version: int) -> None:
        self._runs = runs
        self._restored: dict[tuple[bytes, int], PartitionData] = {}  # by topic id and partition
        self._name_of = name_of
        self._version = version
        self.large = NO_LARGE

    @property
    def wants_response(self) -> bool:
        return True

    def response(self, response: OpenMessage) -> Steps[None]:
        message = yield from response.read(ShareFetchResponse)
        topics = message.responses
        yield from resolve([topic.topic_id for topic in topics if topic.partitions], self._name_of)
        new: list[ShareFetchableTopicResponse] = []
        for topic in topics:
            new += [(yield from self._topic(topic))]
            yield TURN
        if not all(map(_is, new, topics)):
            response.replace(replace_fields(message, responses=tuple(new)))
        self.large = all_large(self._runs)

    def unhidden(self, frame: bytes) -> bytes:
        if not self._restored:
            return frame
        opened = decode_response(ShareFetchResponse, frame, self._version)
        topics = []
        for topic in opened.message.responses:
            key, find = topic.topic_id, self._restored.get
            topics += [
                replace_fields(
                    topic, partitions=tuple(find((key, one.partition_index), one) for one in topic.partitions)
                )
            ]
        return opened.with_message(replace_fields(opened.message, responses=tuple(topics)))

    def _topic(self, topic: ShareFetchableTopicResponse) -> Steps[ShareFetchableTopicResponse]:
        name = self._name_of(topic.topic_id)
        runs = [run for run in self._runs if name is not None and run.wants(name)]
        if name is not None and not runs:
            return topic
        partitions = []
        for at, data in enumerate(topic.partitions, 1):
            if not at % PARTITIONS_PER_TURN:
                yield TURN
            partition = AcquiredPartition(name or "", topic.topic_id, data)
            if name is None:
                _reject_unknown(partition)
            elif partition.records:
                yield TURN
                for run in runs:
                    yield from run.partition(partition)
                    if run.restores:
                        self._restored[topic.topic_id, data.partition_index] = partition.closed()
            partitions.append(partition.closed())
        is_same = all(map(_is, partitions, topic.partitions))
        return topic if is_same else replace_fields(topic, partitions=tuple(partitions))


def _reject_unknown(partition: AcquiredPartition) -> None:
    """Records of a topic without a name must not pass unseen: clients refresh their metadata and fetch again."""
    if partition.records:
        partition.replace(b"")
        partition.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        partition.release_from(0)


def _is(one: object, other: object) -> bool:
    return one is other
