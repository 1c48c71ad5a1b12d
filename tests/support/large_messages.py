"""A broker with a log in memory for exchanges of large messages, and exchanges that are run against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import encode_response, open_request
from kafka_sidecar.codec.message import decode
from kafka_sidecar.codec.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafka_sidecar.codec.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafka_sidecar.codec.records import Batch, NewRecord, batches, build_batch
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Need, Work
from kafka_sidecar.proxy.exchanges.produce import ProduceExchange
from kafka_sidecar.proxy.features.large_messages.progress import ProgressStore
from kafka_sidecar.proxy.features.large_messages.services import Services
from kafka_sidecar.proxy.features.large_messages.split_stage import SplitStage
from kafka_sidecar.proxy.features.large_messages.stats import LargeMessageStats
from kafka_sidecar.proxy.features.large_messages.topic_limits import TopicLimits
from kafka_sidecar.proxy.relay.exchange import Send, TopicIds, TopicNames
from support.client import FakeClient
from support.driven import Driven, Step
from support.produce_requests import topic_id

MESSAGE_TOO_LARGE, INVALID_RECORD = 10, 87
NAMES = ("uncompressed", "gzip", "snappy", "lz4", "zstd")  # of compression.type, by codec


@dataclass(slots=True)
class LogBroker:
    """Appends what it gets, and rejects what a broker would."""

    max_batch: int = 4096
    is_compacted: bool = False
    is_describable: bool = True
    compression_type: str = "producer"
    throttle_ms: int = 0  # in each response
    log: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)  # batches, by topic and partition
    errors: dict[int, int] = field(default_factory=dict)  # by the number of the batch, from 0
    batches: int = 0
    requests: list[ProduceRequest] = field(default_factory=list)
    described: int = 0

    def offset(self, place: tuple[str, int]) -> int:
        return sum(batches(one)[0].header.count for one in self.log.get(place, ()))

    def serve(self, frame: bytes) -> bytes:
        """The response to a request."""
        request = open_request(frame)
        version = request.api_version
        if request.api_key == ApiKey.DESCRIBE_CONFIGS:
            return encode_response(self._describe(), version, request.correlation_id)
        assert request.api_key == ApiKey.PRODUCE
        message, _ = decode(ProduceRequest, frame, version, request.body_at)
        self.requests.append(message)
        topics = tuple(
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple(
                    self._append(
                        topic.name or topic.topic_id.lstrip(b"\1").decode(), one.index, bytes(one.records or b"")
                    )
                    for one in topic.partition_data
                ),
            )
            for topic in message.topic_data
        )
        response = ProduceResponse(responses=topics, throttle_time_ms=self.throttle_ms)
        return encode_response(response, version, request.correlation_id)

    def _append(self, topic: str, partition: int, records: bytes) -> PartitionProduceResponse:
        if not records:
            return PartitionProduceResponse(index=partition, error_code=INVALID_RECORD, base_offset=-1)
        number, self.batches = self.batches, self.batches + 1
        (batch,) = batches(records)
        assert batch.crc_is_right()
        code = self.errors.get(number, 0)
        if max(len(records), self._stored_size(batch)) > self.max_batch:
            code = MESSAGE_TOO_LARGE
        elif self.is_compacted and any(record.key is None for record in batch.records()):
            code = INVALID_RECORD
        if code:
            return PartitionProduceResponse(index=partition, error_code=code, base_offset=-1)
        offset = self.offset((topic, partition))
        self.log.setdefault((topic, partition), []).append(records)
        return PartitionProduceResponse(index=partition, error_code=0, base_offset=offset)

    def _stored_size(self, batch: Batch) -> int:
        """As Kafka's LogValidator, which keeps a batch in the codec of its topic as it came."""
        if self.compression_type in ("producer", NAMES[batch.header.codec]):
            return len(batch.data)
        codec = NAMES.index(self.compression_type)
        return len(build_batch([NewRecord(one.value, one.key, one.headers) for one in batch.records()], codec=codec))

    def _describe(self) -> DescribeConfigsResponse:
        self.described += 1
        if not self.is_describable:
            return DescribeConfigsResponse(results=(DescribeConfigsResult(error_code=29, error_message=None),))
        values = {
            "max.message.bytes": str(self.max_batch),
            "cleanup.policy": "compact" if self.is_compacted else "delete",
            "compression.type": self.compression_type,
        }
        configs = tuple(DescribeConfigsResourceResult(name=name, value=value) for name, value in values.items())
        return DescribeConfigsResponse(
            results=(DescribeConfigsResult(error_code=0, error_message=None, configs=configs),)
        )


def answered(answers: tuple[bytes, ...], take: Callable[[bytes], None] | None) -> tuple[bytes, ...]:
    """What an exchange gets for requests of its own."""
    if take is None:
        return answers
    for answer in answers:
        take(answer)
    return ()


class Splitting:
    """A split stage in front of such a broker."""

    def __init__(self, broker: LogBroker, client: FakeClient | None = None, **settings: Any) -> None:
        self.broker = broker
        self.now = 0.0
        self.stats = LargeMessageStats(lambda: self.now)
        self.client = client or FakeClient()
        applied = TopicSettings(**settings)
        self.services = Services(
            lambda topic: applied if topic.startswith("large") else None,
            self.stats,
            TopicLimits(lambda: self.now),
            random=lambda size: bytes(range(100, 100 + size)),
            id_of=topic_id,
            progress=ProgressStore(lambda: self.now, self.stats.orphaned),
        )

    def with_services(self, **changes: Any) -> Splitting:
        self.services = replace(self.services, **changes)
        return self

    def send(self, frame: bytes, work: Callable[[Work], Any] = lambda need: need.run()) -> Step:
        """What the client gets for its request; the frame that goes on with acks=0."""
        request = open_request(frame)
        stage = SplitStage(self.services)
        names: Mapping[bytes, str] = {topic_id(name): name for name in ("large", "large-too", "small")}
        run = stage.start(self.client, request.api_version)
        exchange = Driven(ProduceExchange([run], names.get, request.api_version))
        step = self._meet(exchange, exchange.request(frame), work)
        if not isinstance(step, bytes):
            return step
        answer = self.broker.serve(step)
        if exchange.wants_response:
            return self._meet(exchange, exchange.response(answer), work)
        return answer

    def _meet(self, exchange: Driven, step: Step, work: Callable[[Work], Any]) -> Step:
        while isinstance(step, Need):
            try:
                match step:
                    case Send(frames=frames, take=take):
                        result: Any = answered(tuple(self.broker.serve(one) for one in frames), take)
                    case Work():
                        result = work(step)
                    case TopicIds(names=names):
                        result = {name: topic_id(name) for name in names}
                    case TopicNames():
                        result = None
            except TimeoutError as error:
                step = exchange.fail(error)
            else:
                step = exchange.answer(result)
        return step
